"""What customData has changed stays: a later run of the agent neither undoes it nor counts it as work that is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fakeazure import Vm
from support.bench import Bench, Benches
from support.ssh_trees import ed25519

PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
PRIVATE += "    b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB\n"
PRIVATE += "    -----END OPENSSH PRIVATE KEY-----\n"
GIVEN_KEYS = f"ssh_keys:\n  rsa_private: |\n    {PRIVATE}  rsa_public: ssh-rsa GIVEN me\n"
DOCUMENTS = {
    "ssh_pwauth": "ssh_pwauth: true\n",
    "hostname": "hostname: chosen\n",
    "ssh_keys": GIVEN_KEYS,
    "ssh_genkeytypes": "ssh_genkeytypes: [ed25519]\n",
    "admin": "users:\n- default\n- name: azureuser\n  shell: /bin/zsh\n  gecos: Other\n  groups: [games]\n"
    "  sudo: ALL=(ALL) ALL\n",
    "keys": f"ssh_authorized_keys: ['{ed25519('u')}']\n",
    "files": "write_files:\n- {path: /etc/hostname, content: other}\n"
    "- {path: /etc/sudoers.d/azure-init-user, content: ''}\n",
}
PLACES = ("etc", "home")
NOWHERE = {"health_endpoint": "http://127.0.0.1:9/provisioning/health"}


def content(tree: Path) -> dict[str, bytes]:
    paths = (path for place in PLACES for path in (tree / place).rglob("*") if path.is_file())
    return {str(path.relative_to(tree)): path.read_bytes() for path in paths}


def changed(bench: Benches, document: str, *, deaf: bool = False) -> tuple[Bench, dict[str, bytes]]:
    """A machine that was provisioned, and whose network stage has ended. `deaf`: the platform did not accept Ready."""
    one = bench(vm=Vm(name="web-1", custom_data=f"#cloud-config\n{document}"))
    one.install_sshd()
    for shell in ("bash", "sh", "zsh"):
        (one.tree / "bin").mkdir(exist_ok=True)
        (one.tree / "bin" / shell).write_text("")
        (one.tree / "bin" / shell).chmod(0o755)
    if deaf:
        one.configure(wireserver=NOWHERE)
    assert (one.agent().status == 0) != deaf
    before = content(one.tree)
    ran = one.agent("--stage", "network")
    assert ran.status == 0, ran.err
    after = content(one.tree)
    assert after != before, "the document changes something"
    return one, after


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_run_before_the_marker_changes_nothing(bench: Benches, document: str) -> None:
    one, after = changed(bench, document)
    one.state("provisioned").unlink()
    one.fabric.reboot()
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert content(one.tree) == after
    assert one.fabric.judge().ok and one.state("provisioned").exists()


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_run_that_learns_the_vm_id_from_imds_changes_nothing(bench: Benches, document: str) -> None:
    one, after = changed(bench, document)
    one.state("provisioned").unlink()
    one.fabric.reboot()
    one.configure(platform={"vm_id": ""})
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert content(one.tree) == after
    assert one.fabric.judge().ok and one.state("provisioned").exists()


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_ready_that_is_sent_again_changes_nothing(bench: Benches, document: str) -> None:
    one, after = changed(bench, document, deaf=True)
    assert one.state("pending").exists() and not one.state("provisioned").exists()
    one.configure()
    ran = one.agent("--stage", "resend")
    assert ran.status == 0, ran.err
    found = content(one.tree)
    if not document.startswith(("ssh_keys", "ssh_genkeytypes")):
        assert found.pop("etc/ssh/ssh_host_rsa_key") and found.pop("etc/ssh/ssh_host_rsa_key.pub"), "made after Ready"
    assert found == after
    assert one.fabric.judge().ok and one.state("provisioned").exists()


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_the_plan_shows_no_work_of_the_run(bench: Benches, document: str) -> None:
    one, after = changed(bench, document)
    shown = one.agent("plan").out
    assert "= provision: the machine was made what was asked for" in shown, shown
    assert [line for line in shown.splitlines() if line.startswith("+")] == []
    assert content(one.tree) == after


def test_a_ready_that_is_sent_again_makes_no_host_key_that_custom_data_has_removed(bench: Benches) -> None:
    one, after = changed(bench, DOCUMENTS["ssh_genkeytypes"])
    assert one.host_keys() == {"ssh_host_ed25519_key"}
    one.state("provisioned").write_text("unfinished\n")
    assert one.agent().status == 0
    assert content(one.tree) == after
    shutil.rmtree(one.state("d"))
    one.state("provisioned").write_text("unfinished\n")
    assert one.agent().status == 0
    assert "ssh_host_rsa_key" in one.host_keys(), "without the record it is made"


def test_the_hash_of_the_password_is_not_kept_after_the_machine_was_made(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1", password="Canary-1", custom_data="#cloud-config\n{}\n"))
    one.configure(wireserver=NOWHERE)
    assert one.agent().status != 0 and one.state("pending").exists()
    assert one.state("userdata").exists() and "password_hash" not in one.state("saved").read_text()
