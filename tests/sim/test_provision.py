"""A whole provisioning, twice: the second time, with the marker removed, there is nothing left to do."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure import Expect, Imds, Key, Media, Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import SRC, Benches
from support.need import need_root
from support.trees import changed, listing

OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl other"


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that everybody may look into, unlike a test's own."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def test_a_key_machine_is_provisioned_and_ready(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"))
    before = listing(one.tree)
    ran = one.agent("--groups", "adm,sudo")
    assert ran.status == 0, ran.err
    assert one.fabric.judge().state == "ready" and one.fabric.judge().ok
    after = listing(one.tree)
    vm_id = one.fabric.vm.id
    assert changed(before, after) == {
        "etc/.pwd.lock",
        "etc/group",
        "etc/group-",
        "etc/gshadow",
        "etc/gshadow-",
        "etc/hostname",
        "etc/hosts",
        "etc/passwd",
        "etc/passwd-",
        "etc/shadow",
        "etc/shadow-",
        "etc/subgid",
        "etc/subgid-",
        "etc/subuid",
        "etc/subuid-",
        "etc/sudoers.d/azure-init-user",
        "home/azureuser",
        "home/azureuser/.bashrc",
        "home/azureuser/.profile",
        "home/azureuser/.ssh",
        "home/azureuser/.ssh/authorized_keys",
        "var/lib/azure-init",
        f"var/lib/azure-init/{vm_id}.journal",
        f"var/lib/azure-init/{vm_id}.provisioned",
        "var/lib/azure-init/lock",
        "var/lib/azure-init/trace.jsonl",
        "var/log/azure-init.log",
    }
    assert one.read("etc/hostname") == "web-1\n"
    assert "127.0.1.1\tweb-1\n" in one.read("etc/hosts")
    assert one.read("etc/sudoers.d/azure-init-user") == "azureuser ALL=(ALL) NOPASSWD: ALL\n"
    assert "azureuser:*:" in one.read("etc/shadow")
    assert "sudo:x:27:azureuser\n" in one.read("etc/group")
    assert one.read("home/azureuser/.ssh/authorized_keys") == PUBLIC_KEY + "\n"
    assert after["home/azureuser/.ssh"][0] == "drwx------"
    assert after["home/azureuser/.ssh/authorized_keys"][0] == "-rw-------"
    assert after["etc/sudoers.d/azure-init-user"][0] == "-r--r-----"
    assert after["var/lib/azure-init"][0] == "drwx------"
    assert after["var/log/azure-init.log"][0] == "-rw-------"


def test_the_second_run_has_nothing_to_do(bench: Benches) -> None:
    one = bench(vm=Vm(password="correct horse", disable_password=False))
    assert one.agent().status == 0
    provisioned = listing(one.tree)
    requests = len(one.fabric.ledger.requests)
    assert one.agent().status == 0
    assert len(one.fabric.ledger.requests) == requests, "a provisioned machine asks nothing"
    one.state("provisioned").unlink()
    one.fabric.reboot()
    plan = one.agent("plan", "--check")
    assert plan.status == 0, plan.out
    assert "0 to do" in plan.out
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    ours = {name for name in provisioned if "azure-init." in name or name.startswith("var/")}
    assert changed(provisioned, listing(one.tree)) <= ours


def test_in_progress_comes_before_the_verdict_and_only_once(bench: Benches) -> None:
    one = bench()
    one.agent()
    assert [told.kind for told in one.fabric.ledger.told] == ["progress", "ready"]


def test_a_password_machine(bench: Benches) -> None:
    one = bench(vm=Vm(password="s3cret+pass", disable_password=False, keys=()))
    assert one.agent().status == 0
    assert one.fabric.judge().ok
    shadow = one.read("etc/shadow")
    assert "azureuser:$6$" in shadow
    assert one.read("etc/sudoers.d/azure-init-user") == "azureuser ALL=(ALL) ALL\n"
    for name, (_mode, _owner, content) in listing(one.tree).items():
        assert b"s3cret+pass" not in content, name
    hashed = shadow.split("azureuser:")[1].split(":")[0].encode()
    holders = {name for name, (_m, _o, content) in listing(one.tree).items() if hashed in content}
    assert holders <= {"etc/shadow", "etc/shadow-"}


def test_plan_changes_nothing_and_shows_no_secret(bench: Benches) -> None:
    one = bench(vm=Vm(password="s3cret+pass", disable_password=False))
    before = listing(one.tree)
    text, as_json = one.agent("plan", "--check"), one.agent("plan", "--json")
    assert text.status == 3 and as_json.status == 0
    assert listing(one.tree) == before
    assert one.fabric.judge().state == "waiting"
    assert {item["kind"] for item in json.loads(as_json.out)} >= {"step"}
    for output in (text.out, text.err, as_json.out, as_json.err):
        assert "s3cret" not in output and "$6$" not in output


def test_a_key_goes_where_its_path_says_if_that_is_in_the_home(bench: Benches) -> None:
    path = "/home/azureuser/.ssh/second_keys"
    one = bench(vm=Vm(keys=(PUBLIC_KEY, Key(OTHER_KEY, path))))
    assert one.agent().status == 0
    assert one.read("home/azureuser/.ssh/second_keys") == OTHER_KEY + "\n"


def test_a_key_with_line_breaks_from_the_portal(bench: Benches) -> None:
    kind, blob, comment = PUBLIC_KEY.split(" ")
    one = bench(vm=Vm(keys=(f"{kind} {blob[:30]}\r\n{blob[30:]} {comment}\r\n",)))
    assert one.agent().status == 0
    assert one.read("home/azureuser/.ssh/authorized_keys") == PUBLIC_KEY + "\n"


def test_a_specialised_machine_is_left_alone_and_ready(bench: Benches) -> None:
    one = bench(vm=Vm(specialised=True))
    before = listing(one.tree)
    assert one.agent().status == 0
    assert one.fabric.judge().state == "ready"
    assert all(name.startswith("var/") for name in changed(before, listing(one.tree)))


def test_a_specialised_machine_with_an_sshd_gets_no_host_keys_from_us(bench: Benches) -> None:
    one = bench(vm=Vm(specialised=True))
    one.install_sshd()
    before = listing(one.tree)
    assert one.agent("plan").out == "nothing is asked for\n"
    assert one.agent().status == 0
    assert all(name.startswith("var/") for name in changed(before, listing(one.tree)))


def test_the_plan_tells_of_what_comes_after_ready(bench: Benches) -> None:
    one = bench()
    one.install_sshd()
    assert "+ host key rsa: no /etc/ssh/ssh_host_rsa_key; after Ready" in one.agent("plan").out
    assert one.agent().status == 0
    assert one.host_keys() == {"ssh_host_ed25519_key", "ssh_host_ecdsa_key", "ssh_host_rsa_key"}
    (one.tree / "etc/ssh/ssh_host_rsa_key").unlink()
    assert one.agent("plan", "--check").status == 3
    assert [told.kind for told in one.fabric.ledger.told] == ["progress", "ready"], "a plan tells the platform nothing"


def test_media_alone_is_enough(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), expect=Expect(verdict="ready"))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    assert one.read("home/azureuser/.ssh/authorized_keys") == PUBLIC_KEY + "\n"


def test_imds_alone_is_enough(bench: Benches) -> None:
    one = bench(media=Media(enable=False))
    assert one.agent().status == 0
    assert one.fabric.judge().ok


def test_where_media_and_imds_disagree_imds_wins_and_it_is_said(bench: Benches) -> None:
    one = bench(vm=Vm(name="from-imds"), media=Media(hostname="from-media"))
    ran = one.agent()
    assert ran.status == 0
    assert one.read("etc/hostname") == "from-imds\n"
    assert "'from-imds'" in ran.err and "'from-media'" in ran.err


def test_iso_and_bridge_media_and_other_prefixes(bench: Benches) -> None:
    for format_, prefixes in (("iso", "default"), ("bridge", "ns1")):
        one = bench(imds=Imds(enable=False), media=Media(format=format_, prefixes=prefixes), expect=Expect())
        ran = one.agent()
        assert ran.status == 0, ran.err


def test_older_api_versions_are_tried(bench: Benches) -> None:
    one = bench(imds=Imds(api_versions=("2019-06-01",)))
    assert one.agent().status == 0
    asked = [request.target for request in one.fabric.ledger.requests if request.service == "imds"]
    assert [target.split("api-version=")[1][:10] for target in asked] == ["2023-11-15", "2021-08-01", "2019-06-01"]


def test_custom_data_survives_the_media(bench: Benches) -> None:
    one = bench(vm=Vm(custom_data="#!/bin/sh\necho hello\n"))
    assert one.agent().status == 0
    saved = one.state("saved")
    assert oct(saved.stat().st_mode & 0o777) == "0o600"
    assert json.loads(saved.read_text())["custom_data"]["base64"]


def test_a_password_is_still_known_after_the_host_took_the_media(bench: Benches) -> None:
    one = bench(vm=Vm(password="s3cret+pass", disable_password=False, keys=()), expect=Expect(verdict="failure"))
    one.configure(user_provisioners={"backends": ["useradd"]})  # which declines under --root
    assert one.agent().status == 1
    one.configure()
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()
    one.fabric.reboot(expect=Expect(verdict="ready"))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert "azureuser:$6$" in one.read("etc/shadow")
    assert "password_hash" not in one.state("saved").read_text(), "the hash is forgotten once Ready is accepted"


def test_the_media_are_kept_before_a_failure_that_comes_before_any_plan(bench: Benches) -> None:
    vm = Vm(password="s3cret+pass", disable_password=False, keys=("not a key",), custom_data="#!/bin/sh\n")
    one = bench(vm=vm, expect=Expect(verdict="failure"))
    assert one.agent().status == 1
    saved = one.state("saved").read_text()
    assert "password_hash" in saved and "custom_data" in saved and "s3cret" not in saved
    bad = bench(vm=Vm(name="-bad-", password="s3cret+pass", disable_password=False), expect=Expect(verdict="failure"))
    assert bad.agent().status == 1
    assert "password_hash" in bad.state("saved").read_text()


def test_saved_media_are_not_waited_for_again(bench: Benches) -> None:
    vm = Vm(password="s3cret+pass", disable_password=False, keys=())
    one = bench(vm=vm, faults=[{"path": "/provisioning/health", "answers": ["503*"]}], expect=Expect(verdict="none"))
    assert one.agent().status == 75
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()
    one.fabric.scripts.clear()
    one.fabric.reboot(expect=Expect(verdict="ready"))
    one.configure(provisioning_media={"wait_secs": 3600}, run={"deadline_secs": 3600})
    ran = one.agent(timeout=60)  # would be an hour
    assert ran.status == 0, ran.err


def test_clean_leaves_no_secret_that_a_dying_run_left(bench: Benches) -> None:
    one = bench()
    one.agent()
    left = one.data / f".{one.fabric.vm.id}.saved.azure-init~"
    left.write_text("$6$hash")
    assert one.agent("clean").status == 0
    assert not left.exists()


def test_the_umask_we_are_started_with_does_not_matter(bench: Benches) -> None:
    trees = []
    for mask in ("000", "077"):
        one = bench(vm=Vm(id="c0ffee00-1111-4222-8333-444444444444"))
        one.install_sshd()
        assert one.agent(inside=f"umask {mask}").status == 0
        trees.append({name: mode for name, (mode, _owner, _content) in listing(one.tree).items()})
    assert trees[0] == trees[1]


def test_someone_without_privileges_sees_a_plan_and_facts(bench: Benches, open_place: Path) -> None:
    need_root()
    one = bench(vm=Vm(custom_data=b"data"))
    one.agent()
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()  # as the platform takes it away
    for name, place in (("src", SRC), ("tree", one.tree)):
        shutil.copytree(place, open_place / name, symlinks=True)
    shutil.copy(one.config, open_place / "config.toml")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    agent = ["/usr/bin/python3", "-m", "azureinit", "--root", "tree", "--config", "config.toml"]
    for verb, said in (("plan", "? earlier runs: /var/lib/azure-init/ cannot be read"), ("facts", "")):
        ran = subprocess.run(
            [*nobody, *agent, verb], cwd=open_place, env={"PYTHONPATH": "src"}, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        assert said in ran.stdout and "Traceback" not in ran.stderr


def test_clean_forgets_and_provisions_again(bench: Benches) -> None:
    one = bench()
    one.agent()
    assert one.agent("clean").status == 0
    assert not one.state("provisioned").exists()
    assert (one.tree / "var/log/azure-init.log").exists()
    assert one.agent("clean", "--logs").status == 0
    assert not (one.tree / "var/log/azure-init.log").exists()
    one.fabric.reboot()
    assert one.agent().status == 0
    assert one.fabric.judge().ok
