"""Ready means that the admin can log in, on machines booted by systemd: units, and some image policies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.report import parse_report
from support.installed import Boot, Disk, Images, Machines

pytestmark = pytest.mark.newer

POLICY = "/etc/ssh/sshd_config.d/50-policy.conf"
REFUSED = {
    "disabled": ("systemctl disable ssh.service", "ssh.service is disabled"),
    "masked": ("systemctl mask ssh.service", "ssh.service is masked"),
    "forbidden": ("touch /etc/ssh/sshd_not_to_be_run", "/etc/ssh/sshd_not_to_be_run exists"),
    "AllowUsers": (f"echo AllowUsers alice > {POLICY}", f"{POLICY} line 1: 'AllowUsers alice'"),
    "nologin": ("touch /etc/nologin", "/etc/nologin exists"),
    "Match": (f"printf 'Match Group sudo\\nPubkeyAuthentication no\\n' > {POLICY}", "below 'Match Group sudo'"),
}
LET_IN = {
    "a socket": "systemctl disable ssh.service; systemctl enable ssh.socket",
    "another target": "systemctl disable ssh.service; systemctl add-wants basic.target ssh.service",
    "an RSA key alone": f"echo HostKey /etc/ssh/ssh_host_rsa_key > {POLICY}",
    "a key of no type": f"echo HostKey /etc/ssh/own/identity > {POLICY}",
    "a group": f"echo AllowGroups sudo > {POLICY}",
}


@pytest.fixture
def machine(images: Images, tmp_path: Path) -> Iterator[Machines]:
    def made(suite: str, script: str) -> Disk:
        disk = Disk(images(suite), tmp_path / "machine")
        disk.change(script)
        return disk

    yield made
    shutil.rmtree(tmp_path, ignore_errors=True)


def is_let_in(boot: Boot) -> bool:
    """A real login from outside."""
    return boot.ssh("true").returncode == 0


@pytest.mark.parametrize("name", REFUSED)
def test_a_machine_that_lets_the_admin_in_by_no_means_says_so(machine: Machines, name: str) -> None:
    script, says = REFUSED[name]
    with machine("trixie", script).boot() as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed", boot.journal("-u", "azure-init")
        report = parse_report(told.description)
        assert report["reason"] == "the admin cannot log in"
        assert says in report["sshd"]
        assert not is_let_in(boot)
        assert judge(boot.events()).state == "failed"


@pytest.mark.parametrize("name", LET_IN)
def test_what_only_looks_closed_is_ready(machine: Machines, name: str) -> None:
    with machine("trixie", LET_IN[name]).boot() as boot:
        boot.ready()
        assert is_let_in(boot), boot.journal()
        assert judge(boot.events()).ok


def test_an_older_sshd_is_asked_otherwise(machine: Machines) -> None:
    """Bookworm's, whose -T needs /run/sshd: the agent makes it."""
    with machine("bookworm", f"echo AllowUsers alice > {POLICY}").boot() as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed", boot.journal("-u", "azure-init")
        assert f"{POLICY} line 1: 'AllowUsers alice'" in parse_report(told.description)["sshd"]
        assert not is_let_in(boot)
