"""Host keys from end to end: made anew where the image brought some, once; and their fingerprint at the platform."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fakeazure import Expect, Media, Vm
from support.bench import Bench, Benches
from support.need import need

TYPES = ("ed25519", "ecdsa", "rsa")
PROPERTIES = "/machine?comp=roleProperties"


def with_keys(one: Bench, **ssh: Any) -> dict[str, bytes]:
    """An image that carries keys, made by the ssh-keygen that the agent will use."""
    one.install_sshd()
    (one.tools / "ssh-keygen").unlink()
    one.configure(ssh=ssh)
    for kind in TYPES:
        key = one.tree / f"etc/ssh/ssh_host_{kind}_key"
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "image", "-f", str(key)], check=True)
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


def test_without_being_asked_keys_of_the_image_stay(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench()
    image = with_keys(one)
    assert one.agent().status == 0
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


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("ssh-ed25519 AAAA\n")])
def test_what_has_no_fingerprint_is_passed_over(bench: Benches, spoil: Callable[[Path], Any]) -> None:
    need("ssh-keygen")
    one = bench()
    with_keys(one)
    spoil(one.tree / "etc/ssh/ssh_host_ed25519_key.pub")
    assert one.agent().status == 0
    assert properties(one) == [{"CertificateThumbprint": by_ssh_keygen(one, "ecdsa")}]


def test_a_failure_has_no_fingerprint(bench: Benches) -> None:
    need("ssh-keygen")
    one = bench(vm=Vm(username="root"), expect=Expect(verdict="failure"))
    with_keys(one)
    assert one.agent().status != 0
    assert properties(one) == []
