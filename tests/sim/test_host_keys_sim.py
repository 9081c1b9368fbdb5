"""Host keys in a whole run: made anew once if the image has some; and their fingerprint at the platform."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pytest

from fakeazure import Expect, Media, Vm
from support.bench import Bench, Benches
from support.need import need

TYPES = ("ed25519", "ecdsa", "rsa")
PROPERTIES = "/machine?comp=roleProperties"


@cache
def image_keys() -> dict[str, bytes]:
    """Made once, by the ssh-keygen that the agent will use: an RSA key takes up to two seconds."""
    with TemporaryDirectory() as place:
        for kind in TYPES:
            key = f"{place}/ssh_host_{kind}_key"
            subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "image", "-f", key], check=True)
        return {path.name: path.read_bytes() for path in Path(place).iterdir()}


def with_keys(one: Bench, **ssh: Any) -> dict[str, bytes]:
    """An image that carries keys."""
    one.install_sshd()
    (one.tools / "ssh-keygen").unlink()
    one.configure(ssh=ssh)
    for name, data in image_keys().items():
        path = one.tree / "etc/ssh" / name
        path.write_bytes(data)
        path.chmod(0o644 if name.endswith(".pub") else 0o600)
    return keys(one)


def keys(one: Bench) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (one.tree / "etc/ssh").glob("ssh_host_*")}


def properties(one: Bench) -> list[dict[str | None, str | None]]:
    bodies = [request.body for request in one.fabric.ledger.requests if request.target == PROPERTIES]
    trees = [ElementTree.fromstring(body) for body in bodies]
    return [{node.get("name"): node.get("value") for node in tree.iter("Property")} for tree in trees]


def by_ssh_keygen(one: Bench, kind: str) -> str:
    """As the platform has always been told it: the second word, without its colon."""
    argv = ["ssh-keygen", "-lf", str(one.tree / f"etc/ssh/ssh_host_{kind}_key.pub")]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return told.split()[1].replace(":", "")


def test_keys_of_the_image_are_made_anew_at_the_first_run_and_never_again(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one, regenerate_host_keys=True)
    shown = one.agent("plan").out
    assert "host keys of the image" in shown and "remove /etc/ssh/ssh_host_rsa_key" in shown
    assert "host key rsa: no /etc/ssh/ssh_host_rsa_key; after Ready" in shown
    assert keys(one) == image, "a plan touches nothing"
    assert one.agent().status == 0
    made = keys(one)
    assert set(made) == set(image)
    assert not [name for name in image if made[name] == image[name]]
    assert one.agent("plan", "--check").status == 0
    one.state("provisioned").unlink()
    one.fabric.reboot()
    assert one.agent().status == 0
    assert keys(one) == made
    assert one.fabric.judge().ok


@pytest.mark.parametrize("never", ["never", False])
def test_keys_of_the_image_stay_where_that_is_asked_for(bench: Benches, never: object) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one, regenerate_host_keys=never)
    assert one.agent().status == 0
    assert keys(one) == image


def test_two_vms_of_one_image_share_no_key_without_any_setting(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one)
    (one.tree / "var/lib/cloud/data").mkdir(parents=True)
    (one.tree / "var/lib/cloud/data/instance-id").write_text("0b1e5f00-aaaa-4bbb-8ccc-dddddddddddd\n")  # its builder
    two = bench(vm=Vm(id="c0ffee00-1111-4222-8333-555555555555"))
    shutil.rmtree(two.tree)
    shutil.copytree(one.tree, two.tree, symlinks=True)
    shutil.copytree(one.tools, two.tools)
    assert one.agent().status == two.agent().status == 0
    assert set(keys(one)) == set(keys(two)) == set(image)
    for name in image:
        assert len({image[name], keys(one)[name], keys(two)[name]}) == 3, name


def test_a_second_run_of_the_same_vm_keeps_what_the_first_made(bench: Benches) -> None:
    """Also where the image had no keys, and where a later run has only the journal to know that."""
    need("ssh-keygen")
    for image in (True, False):
        one = bench()
        with_keys(one)
        if not image:
            for path in (one.tree / "etc/ssh").glob("ssh_host_*"):
                path.unlink()
        assert one.agent().status == 0
        made = keys(one)
        assert len(made) == 6
        assert one.agent("plan", "--check").status == 0
        one.state("provisioned").unlink()
        one.fabric.reboot()
        assert one.agent().status == 0
        assert keys(one) == made


def swapped(vm_id: str) -> str:
    """As the firmware of a Gen1 VM tells it."""
    return str(uuid.UUID(bytes=uuid.UUID(vm_id).bytes_le))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("var/lib/cloud/data/instance-id", "{}\n"),
        ("var/lib/cloud/data/instance-id", "{swapped}\n"),
        ("var/lib/cloud/instances/{}/boot-finished", ""),
        ("var/lib/waagent/provisioned", "{swapped}"),
    ],
)
def test_a_vm_that_another_agent_provisioned_keeps_its_keys(bench: Benches, path: str, content: str) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one)
    vm_id = one.fabric.vm.id
    record = one.tree / path.format(vm_id)
    record.parent.mkdir(parents=True)
    record.write_text(content.format(vm_id, swapped=swapped(vm_id)))
    (one.tree / "var/lib/azure-init").mkdir(parents=True)
    one.state("journal").write_text("")  # or a VM that WALinuxAgent provisioned would not be provisioned at all
    assert one.agent().status == 0
    assert one.state("provisioned").exists()
    assert keys(one) == image


def test_a_marker_of_ours_for_walinuxagent_is_no_record_of_its_work(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one)
    (one.tree / "var/lib/waagent").mkdir(parents=True)
    (one.tree / "var/lib/waagent/provisioned").write_text(f"{one.fabric.vm.id}\n")
    assert one.agent().status == 0
    assert not [name for name in image if keys(one)[name] == image[name]]


def test_other_paths_of_host_keys_are_spared(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one)
    lines = "HostKey /etc/ssh/fleet_ed25519\nHostKey /etc/ssh/ssh_host_rsa_key\n"
    with (one.tree / "etc/ssh/sshd_config").open("a") as file:
        file.write(lines)
    fleet = one.tree / "etc/ssh/fleet_ed25519"
    fleet.write_bytes(image["ssh_host_ed25519_key"])
    fleet.chmod(0o600)
    assert one.agent().status == 0
    assert fleet.read_bytes() == image["ssh_host_ed25519_key"]
    assert keys(one)["ssh_host_rsa_key"] != image["ssh_host_rsa_key"]


def test_an_image_with_an_rsa_key_alone_gets_another_before_ready(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one)
    for kind in ("ed25519", "ecdsa"):
        for path in (one.tree / "etc/ssh").glob(f"ssh_host_{kind}_key*"):
            path.unlink()
    with (one.tree / "etc/ssh/sshd_config").open("a") as file:
        file.write("HostKey /etc/ssh/ssh_host_rsa_key\n")
    shown = one.agent("plan").out
    anew = shown.partition("host keys of the image")[2].partition("ssh keys")[0]
    assert "-t rsa" in anew
    assert one.agent().status == 0
    assert set(keys(one)) == {"ssh_host_rsa_key", "ssh_host_rsa_key.pub"}
    assert keys(one)["ssh_host_rsa_key"] != image["ssh_host_rsa_key"]


def test_a_failure_before_the_platform_answers_leaves_the_image_s_keys(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench(faults=[{"path": "/metadata/instance", "answers": ["403*"]}], media=Media(enable=False))
    image = with_keys(one)
    one.configure(imds={"total_retry_timeout_secs": 1}, provisioning_media={"enable": False})
    assert one.agent().status != 0
    assert keys(one) == image


def test_another_vm_on_the_same_disk_has_keys_of_its_own(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    with_keys(one, regenerate_host_keys=True)
    assert one.agent().status == 0
    first = keys(one)
    two = bench(vm=Vm(id="c0ffee00-1111-4222-8333-555555555555"))
    two.tree = one.tree
    two.configure(ssh={"regenerate_host_keys": True})
    assert two.agent().status == 0
    assert not [name for name in first if keys(two)[name] == first[name]]


def test_one_type_may_be_asked_for_and_the_others_go(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    with_keys(one, regenerate_host_keys=True, host_key_types=["rsa"])
    assert one.agent().status == 0
    assert set(keys(one)) == {"ssh_host_rsa_key", "ssh_host_rsa_key.pub"}
    assert properties(one) == [{"CertificateThumbprint": by_ssh_keygen(one, "rsa")}]


def test_a_specialised_vm_keeps_the_keys_it_is_known_by(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench(vm=Vm(specialised=True), media=Media(enable=False))
    image = with_keys(one, regenerate_host_keys=True)
    assert one.agent().status == 0
    assert keys(one) == image


def test_the_fingerprint_follows_ready(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    with_keys(one, regenerate_host_keys=True)
    assert one.agent().status == 0
    assert properties(one) == [{"CertificateThumbprint": by_ssh_keygen(one, "ed25519")}]
    targets = [request.target for request in one.fabric.ledger.requests]
    assert targets[-3:] == ["/?comp=versions", "/machine/?comp=goalstate", PROPERTIES]
    assert one.fabric.judge().ok


@pytest.mark.parametrize(
    "faults",
    [
        [{"path": "/machine?comp=goalstate", "answers": ["404*"]}],
        [{"path": "/?comp=versions", "answers": ["404*"]}],
        [{"path": PROPERTIES, "answers": ["400*"]}],
        [{"path": PROPERTIES, "answers": ["reset", "503*"]}],
    ],
    ids=["no goal state", "no wire protocol", "refused", "broken"],
)
def test_a_platform_without_an_ear_for_it_believes_ready_all_the_same(bench: Benches, faults: list[Any]) -> None:
    need("ssh-keygen")
    one = bench(faults=faults)
    with_keys(one)
    ran = one.agent()
    assert ran.status == 0
    assert one.state("provisioned").exists() and one.fabric.judge().ok
    assert "fingerprint" not in ran.err, "told to whoever asks for every detail"


def test_it_is_not_told_where_nobody_wants_it(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    with_keys(one)
    one.configure(report={"host_key_fingerprint": False})
    assert one.agent().status == 0
    assert [request.target for request in one.fabric.ledger.requests if "comp=" in request.target] == []


def test_what_has_no_fingerprint_is_passed_over(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    with_keys(one, regenerate_host_keys="never")
    (one.tree / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAA\n")
    assert one.agent().status == 0
    assert properties(one) == [{"CertificateThumbprint": by_ssh_keygen(one, "ecdsa")}]


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["missing", "empty"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_public_half_that_is_lost_is_made_from_the_private_one(
    bench: Benches, kind: str, spoil: Callable[[Path], Any]
) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one, regenerate_host_keys="never")
    public = one.tree / f"etc/ssh/ssh_host_{kind}_key.pub"
    spoil(public)
    assert one.agent().status == 0
    assert public.read_bytes().split()[:2] == image[public.name].split()[:2]
    assert public.stat().st_mode & 0o777 == 0o644
    assert set(keys(one)) == set(image), "nothing is left beside them"
    assert properties(one) == [{"CertificateThumbprint": by_ssh_keygen(one, "ed25519")}]
    assert one.state("provisioned").read_bytes() == b""


def test_a_key_that_failed_after_ready_is_made_at_the_next_boot(bench: Benches) -> None:
    one = bench()
    one.install_sshd()
    keygen = one.tools / "ssh-keygen"
    works = keygen.read_text()
    keygen.write_text(works.replace("#!/bin/sh\n", '#!/bin/sh\n[ "$3" != rsa ] || exit 1\n'))
    ran = one.agent()
    assert ran.status == 0 and one.fabric.judge().ok
    assert "tried again at the next boot" in ran.err
    assert one.host_keys() == {"ssh_host_ed25519_key", "ssh_host_ecdsa_key"}
    asked = len(one.fabric.ledger.requests)
    assert one.agent().status == 0
    assert one.host_keys() == {"ssh_host_ed25519_key", "ssh_host_ecdsa_key"}, "it fails once more"
    keygen.write_text(works)
    assert one.agent().status == 0
    assert one.host_keys() == {f"ssh_host_{kind}_key" for kind in TYPES}
    # An admin who removes it then is not contradicted.
    (one.tree / "etc/ssh/ssh_host_rsa_key").unlink()
    assert one.agent().status == 0
    assert one.host_keys() == {"ssh_host_ed25519_key", "ssh_host_ecdsa_key"}
    assert len(one.fabric.ledger.requests) == asked, "the platform has its verdict"


def test_a_failure_has_no_fingerprint(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench(vm=Vm(username="root"), expect=Expect(verdict="failure"))
    with_keys(one)
    assert one.agent().status != 0
    assert properties(one) == []
