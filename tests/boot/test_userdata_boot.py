"""customData carried out by real units: the order of the stages, when Ready is told, and what survives a reboot."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from fakeazure.platform.events import Kvp
from support.boot_checks import has_no_cycle
from support.installed import Boot, Disk, Machines

pytestmark = pytest.mark.newer

CARRIED = ("network", "final")
UNIT = "azure-init-userdata-{}.service"
AT_FINAL = '[azure-init.readiness]\nat = "final"\n'
ORDERLY = """#cloud-config
bootcmd:
- systemctl is-active ssh.service >/root/at-bootcmd || true
- echo boot >>/root/boots
runcmd:
- timeout 60 sh -c 'until systemctl is-active --quiet ssh.service; do sleep 0.1; done; echo active' >/root/at-runcmd
- grep -E '^(CapBnd|Seccomp|NoNewPrivs):' /proc/self/status >/root/limits
- useradd --create-home made-by-runcmd
- (trap '' HUP; exec sleep 1000) >/dev/null 2>&1 &
"""
SLOW = """#cloud-config
runcmd:
- echo begun >>/root/begun; sync
- "[ -e /root/again ] || sleep 600"
- echo ended >>/root/begun
"""
KILLED = """#cloud-config
runcmd:
- echo begun >>/root/begun; sleep 600
"""
BROKEN = """#cloud-config
bootcmd:
- sh -c 'exit 5'
runcmd:
- touch /root/after-that
"""
MISTAKEN = """#cloud-config
runcmd:
- touch /root/too-far
- colon: here
"""
WAITING = """#cloud-config
bootcmd:
- sleep 5
hostname: chosen
ssh_pwauth: true
ssh_keys:
  rsa_private: |
    {}
"""
ENDLESS = """#cloud-config
bootcmd:
- sleep 600
timezone: UTC
"""
FAILING = """#cloud-config
runcmd:
- echo one
- sh -c 'exit 3'
- touch /root/too-far
"""
# As documents for Azure with cloud-init have it.
REQUIRING = """#cloud-config
bootcmd:
- mkdir -p /srv/store
mounts:
- [/srv/store, /late, none, 'bind,nofail,x-systemd.requires=cloud-init.service', '0', '0']
- [/srv/store, /early, none, 'bind,x-systemd.requires=cloud-init.service', '0', '0']
"""
# Commands that take the admin's login away; no check of the document sees them.
LOCKED_OUT = {
    "keys": "echo >/home/azureuser/.ssh/authorized_keys",
    "rules": "echo AllowUsers other >/etc/ssh/sshd_config.d/00-rules.conf; systemctl restart ssh",
}


def given(text: str) -> str:
    return f"custom_data = {json.dumps(text)}"


def reports(boot: Boot) -> list[str]:
    return [event.value for event in boot.events() if isinstance(event, Kvp) and event.kind == "report"]


def result(boot: Boot) -> dict[str, object]:
    found: dict[str, object] = json.loads(boot.out("cat", "/run/azure-init/userdata.json"))
    return found


def is_mounted(boot: Boot, point: str) -> bool:
    return boot.run("mountpoint", "-q", point).returncode == 0


@pytest.fixture
def disk(machine: Machines) -> Disk:
    return machine("trixie", "python3-yaml")


def test_the_stages_run_in_their_order_and_a_second_boot_repeats_only_what_is_for_every_boot(disk: Disk) -> None:
    with disk.boot(vm=given(ORDERLY)) as boot:
        boot.ready()
        units = [boot.ended(UNIT.format(stage)) for stage in CARRIED]
        assert units == ["success 0"] * 2, boot.journal("-b")
        assert boot.shown(UNIT.format("config"), "ConditionResult") == "no", "it has nothing to do"
        assert boot.out("cat", "/root/at-bootcmd") == "inactive", "sshd waits for the network stage"
        assert boot.out("cat", "/root/at-runcmd") == "active", "sshd does not wait for the final stage"
        ended = boot.moment(UNIT.format("network"), "ExecMainExit")
        assert boot.moment("ssh", "ExecMainStart") > ended > boot.moment("azure-init", "ActiveEnter")
        limits = boot.out("cat", "/root/limits").splitlines()
        assert set(limits) <= set(boot.out("cat", "/proc/1/status").splitlines()), "those of the first process"
        assert boot.out("id", "-un", "made-by-runcmd") == "made-by-runcmd"
        assert boot.run("pgrep", "-f", "^sleep 1000").stdout, "what runcmd left running runs"
        assert result(boot)["state"] == "done"
        assert boot.failed_units() == []
    with disk.boot() as boot:
        assert [boot.ended(UNIT.format(stage)) for stage in CARRIED] == ["success 0"] * 2
        assert boot.out("cat", "/root/boots").split() == ["boot", "boot"]
        assert boot.told() == []


def test_mounts_that_require_a_unit_of_cloud_init_are_there_in_the_next_boot_too(disk: Disk) -> None:
    for vm in (given(REQUIRING), ""):
        with disk.boot(vm=vm) as boot:
            boot.wait_until_up()
            boot.until(partial(is_mounted, boot, "/early"), "it is mounted early")
            boot.until(partial(is_mounted, boot, "/late"), "it is mounted late")
            has_no_cycle(boot)
            assert boot.failed_units() == []


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


@pytest.mark.parametrize("cut", [True, False], ids=["power cut", "shutdown"])
def test_an_end_in_the_middle_is_told_and_the_next_boot_resumes(disk: Disk, cut: bool) -> None:
    with disk.boot(AT_FINAL, vm=given(SLOW), wait=False) as boot:
        boot.until(lambda: boot.run("cat", "/root/begun").stdout, "runcmd runs")
        assert boot.told() == [] and boot.ended() == "success 0", "the verdict waits for the final stage"
        boot.out("sh", "-c", "touch /root/again; sync")
        if cut:
            boot.cut_power()
    assert boot.told() == [], "a shutdown is no failure"
    with disk.boot(AT_FINAL) as boot:
        boot.ready()
        assert boot.out("cat", "/root/begun").split() == ["begun", "ended"], "finished items are skipped"
        assert "scripts_user was interrupted, and runs again" in boot.journal("-b", "-u", UNIT.format("final"))
        assert boot.ended(UNIT.format("final")) == "success 0"
    assert disk.files("var/lib/azure-init/*.provisioned") and not disk.files("var/lib/azure-init/*.pending")


def test_after_the_deadline_the_command_is_told_and_the_end_of_the_stage_adds_nothing(disk: Disk) -> None:
    soon = f"{AT_FINAL}deadline_secs = 8\n"
    with disk.boot(soon, vm=given(SLOW), wait=False) as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed" and "line 4" in str(told) and "readiness.deadline_secs (8 s)" in str(told), told
        boot.out("pkill", "-f", "^sleep 600")
        boot.ended(UNIT.format("final"))
        assert boot.told() == ["failed"]


def test_a_stage_that_dies_with_the_verdict_is_reported(disk: Disk) -> None:
    with disk.boot(AT_FINAL, vm=given(SLOW), wait=False) as boot:
        boot.until(lambda: boot.run("cat", "/root/begun").stdout, "runcmd runs")
        boot.out("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT.format("final"))
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        assert told.kind == "failed" and "did not finish" in str(told), told


def test_a_ready_that_a_killed_stage_was_reporting_is_sent_again_and_not_contradicted(disk: Disk) -> None:
    """The platform may have accepted it: neither azure-init-failure nor the deadline reports a failure."""
    answers = '[[faults]]\npath = "/provisioning/health"\nanswers = ["ok", "hang", "ok*"]\n'
    soon = "[azure-init.wireserver]\nread_timeout_secs = 5\n"  # it may be the second Ready that is not answered
    with disk.boot(f"{AT_FINAL}deadline_secs = 20\n{soon}{answers}", vm=given(ORDERLY), wait=False) as boot:
        boot.until(lambda: boot.run("cat", "/run/azure-init/verdict").stdout, "Ready is on its way")
        assert boot.told() == []
        boot.out("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT.format("final"))
        boot.ready()
        assert "it is reported again" in boot.journal("-b", "-u", "azure-init-failure")
        boot.out("systemctl", "start", "azure-init-deadline")
        assert len(boot.told()) == 1, boot.told()


def test_a_stage_that_starts_after_a_killed_one_ends_its_program_first(disk: Disk) -> None:
    with disk.boot(vm=given(KILLED), wait=False) as boot:
        boot.until(lambda: boot.run("cat", "/root/begun").stdout, "runcmd runs")
        boot.out("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT.format("final"))
        boot.until(lambda: boot.shown(UNIT.format("final"), "ActiveState") == "failed", "the stage has died")
        assert boot.run("pgrep", "-f", "^sleep 600").stdout, "its program runs on"
        boot.out("systemctl", "restart", "--no-block", UNIT.format("final"))
        boot.until(lambda: len(boot.out("cat", "/root/begun").split()) == 2, "it runs again")
        assert boot.out("pgrep", "-fc", "^sleep 600") == "1", "once"
        assert "still ran: it was ended" in boot.journal("-b", "-u", UNIT.format("final"))


@pytest.mark.parametrize(("text", "cause"), [(BROKEN, "exit status: 5"), (MISTAKEN, "line 4, column 3")])
def test_what_fails_before_ready_goes_with_it(disk: Disk, text: str, cause: str) -> None:
    disk.write("var/lib/hyperv/.kvp_pool_1", "")
    with disk.boot(vm=given(text)) as boot:
        boot.ready()
        boot.until(lambda: reports(boot), "the report is in the pool")
        (report,) = reports(boot)
        assert "result=success" in report and "custom_data=" in report and cause in report, report[:2000]
        assert boot.ended(UNIT.format("network")) == "exit-code 1"
        begun = boot.journal("-b", "-u", UNIT.format("network")).count("Starting ")
        assert begun == 1, "the run waits for the stage without starting it again"
        assert cause in str(result(boot)["stages"])
        done = boot.run("test", "-e", "/root/after-that").returncode == 0
        assert done == (text == BROKEN), "a failed module stops no other; a mistake stops everything"
        assert "customData failed: network stage" in boot.console.read_text(errors="replace")


@pytest.mark.parametrize("at", ["", AT_FINAL], ids=["access", "final"])
def test_ready_waits_for_the_network_stage_and_what_that_has_changed_stays(disk: Disk, tmp_path: Path, at: str) -> None:
    key = tmp_path / "rsa"
    subprocess.run(("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-C", "", "-f", str(key)), check=True)
    text = WAITING.format(key.read_text().strip().replace("\n", "\n    "))
    with disk.boot(at, vm=given(text), wait=False) as boot:
        boot.ready()
        assert boot.moment(UNIT.format("network"), "ExecMainExit"), "Ready is told after the stage has ended"
        assert boot.ended() == "success 0", boot.journal("-b", "-u", "azure-init*")
        boot.until(lambda: boot.moment("ssh", "ExecMainStart"), "sshd runs")
        keys = boot.out("sh", "-c", "cd /etc/ssh; ls ssh_host_*_key; cat ssh_host_rsa_key.pub").splitlines()
        assert keys[0] == "ssh_host_rsa_key" and len(keys) == 2
        assert keys[1].split()[:2] == key.with_suffix(".pub").read_text().split()[:2]
        assert "passwordauthentication yes" in boot.out("sshd", "-T").lower()
        assert boot.out("hostname") == "chosen"
        assert boot.login("id -un") == ["azureuser"]
        boot.until(lambda: "chosen" in {lease.hostname for lease in boot.leases()}, "DNS learns the name")


def test_a_bootcmd_that_never_ends_is_ended_and_goes_with_ready(disk: Disk) -> None:
    disk.write("var/lib/hyperv/.kvp_pool_1", "")
    with disk.boot("[azure-init.userdata]\nnetwork_secs = 6\n", vm=given(ENDLESS)) as boot:
        boot.ready()
        boot.until(lambda: reports(boot), "the report is in the pool")
        (report,) = reports(boot)
        assert "custom_data=" in report and "bootcmd" in report and "was killed after" in report, report[:2000]
        assert boot.ended(UNIT.format("network")) == "exit-code 1"
        assert boot.login("id -un") == ["azureuser"], "sshd has started"


def test_a_network_stage_that_is_waited_for_no_longer_is_a_doubt_that_goes_with_ready(disk: Disk) -> None:
    disk.write("var/lib/hyperv/.kvp_pool_1", "")
    soon = "[azure-init.run]\ndeadline_secs = 16\nverdict_reserve_secs = 8\n"
    with disk.boot(soon, vm=given(ENDLESS), wait=False) as boot:
        boot.ready()
        boot.until(lambda: reports(boot), "the report is in the pool")
        (report,) = reports(boot)
        assert "access=" in report and "network stage of customData, which did not end in" in report, report[:2000]
        assert "bootcmd: not finished by the network stage" in report
        assert not boot.moment("ssh", "ExecMainStart")
        boot.out("pkill", "-f", "^sleep 600")
        boot.until(lambda: boot.moment("ssh", "ExecMainStart"), "sshd runs")
        assert boot.login("id -un") == ["azureuser"]


@pytest.mark.parametrize(("how", "at"), [("keys", ""), ("rules", AT_FINAL)], ids=["access", "final"])
def test_a_command_that_locks_out_the_admin_is_a_failure(disk: Disk, how: str, at: str) -> None:
    key = "runcmd" if at else "bootcmd"
    with disk.boot(at, vm=given(f"#cloud-config\n{key}:\n- {LOCKED_OUT[how]}\n")) as boot:
        boot.until(boot.told, "a verdict is told")
        (told,) = boot.verdicts()
        cause = {"keys": "has a key that was given", "rules": "AllowUsers"}
        assert told.kind == "failed" and "the admin cannot log in" in str(told) and cause[how] in str(told), told
        assert boot.ssh("true").returncode == 255, "the verdict is true"
