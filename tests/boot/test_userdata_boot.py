"""customData carried out by real units: the order of the stages, when Ready is told, and what survives a reboot."""

from __future__ import annotations

import json

import pytest

from support.installed import Boot, Disk, Machines

pytestmark = pytest.mark.newer

STAGES = ("network", "config", "final")
UNIT = "azure-init-userdata-{}.service"
AT_FINAL = '[azure-init.readiness]\nat = "final"\n'
ORDERLY = """#cloud-config
bootcmd:
- systemctl is-active ssh.service >/root/at-bootcmd || true
- echo boot >>/root/boots
runcmd:
- systemctl is-active ssh.service >/root/at-runcmd || true
- grep -E '^(CapBnd|Seccomp|NoNewPrivs):' /proc/self/status >/root/limits
- useradd --create-home made-by-runcmd
- (trap '' HUP; exec sleep 1000) >/dev/null 2>&1 &
"""
FAILING = """#cloud-config
runcmd:
- echo one
- sh -c 'exit 3'
- touch /root/too-far
"""


def given(text: str) -> str:
    return f"custom_data = {json.dumps(text)}"


def result(boot: Boot) -> dict[str, object]:
    found: dict[str, object] = json.loads(boot.out("cat", "/run/azure-init/userdata.json"))
    return found


@pytest.fixture
def disk(machine: Machines) -> Disk:
    return machine("trixie", "python3-yaml")


def test_the_stages_run_in_their_order_and_a_second_boot_repeats_only_what_is_for_every_boot(disk: Disk) -> None:
    with disk.boot(vm=given(ORDERLY)) as boot:
        boot.ready()
        units = [boot.ended(UNIT.format(stage)) for stage in STAGES]
        assert units == ["success 0"] * 3, boot.journal("-b")
        assert boot.out("cat", "/root/at-bootcmd") == "inactive", "sshd waits for the network stage"
        assert boot.out("cat", "/root/at-runcmd") == "active"
        ended = boot.moment(UNIT.format("network"), "ExecMainExit")
        assert boot.moment("ssh", "ExecMainStart") > ended > boot.moment("azure-init", "ActiveEnter")
        assert boot.out("sed", "-n", "s/^CapBnd:\\t//p", "/root/limits") == boot.out("sed", "-n", "s/^CapBnd:\\t//p", "/proc/1/status")
        assert boot.out("id", "-un", "made-by-runcmd") == "made-by-runcmd"
        assert boot.run("pgrep", "-f", "^sleep 1000").stdout, "what runcmd left running runs"
        assert result(boot)["state"] == "done"
        assert boot.failed_units() == []
    with disk.boot() as boot:
        assert [boot.ended(UNIT.format(stage)) for stage in STAGES] == ["success 0"] * 3
        assert boot.out("cat", "/root/boots").split() == ["boot", "boot"]
        assert boot.told() == []


def test_a_failure_at_final_is_told_with_its_line_and_by_no_later_boot(disk: Disk) -> None:
    with disk.boot(AT_FINAL, vm=given(FAILING)) as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed" and "failed to run customData" in str(told), told
        assert "line 4" in str(told) and "exit status: 3" in str(told) and "scripts_user" in str(told)
        assert boot.ended() == "success 0", "the run ended without a verdict"
        assert boot.run("test", "-e", "/root/too-far").returncode
        assert boot.ended(UNIT.format("final")) == "exit-code 1"
        assert boot.told() == ["failed"]
    with disk.boot(AT_FINAL) as boot:
        assert boot.ended() == "success 0", boot.journal("-b", "-u", "azure-init*")
        assert boot.told() == [], boot.journal("-b", "-u", "azure-init*")
