"""power_state and a package's reboot, by the real shutdown: after the verdict, with durable marks, and only once."""

from __future__ import annotations

import json

import pytest

from fakeazure.platform.events import End, Told
from support.installed import Disk, Machines

pytestmark = pytest.mark.newer

FINAL = "azure-init-userdata-final.service"
AT_FINAL = '[azure-init.readiness]\nat = "final"\n'
# The final stage ends while the run still reports Ready.
LATE = '[[faults]]\npath = "/provisioning/health"\nanswers = [500, 500, 500, "ok*"]\n'
# What systemd-nspawn says of a machine that went down by itself.
POWERED_OFF, REBOOTED = 0, 133
POWER_OFF = """#cloud-config
runcmd:
- echo ran >>/root/ran
power_state:
  mode: poweroff
  message: the machine is going down
  condition: test -e /root/ran
"""
REBOOT = """#cloud-config
runcmd:
- echo ran >>/root/ran
power_state: {mode: reboot, delay: now}
"""
# dpkg is installed: nothing is fetched. The kernel's packages leave this file in the same place.
FOR_PACKAGES = """#cloud-config
packages: [dpkg]
package_reboot_if_required: true
runcmd:
- echo ran >>/root/ran
- touch /run/reboot-required
"""
NOT_HELD = """#cloud-config
runcmd:
- echo ran >>/root/ran
power_state: {mode: poweroff, condition: "test -e /no/such/file"}
"""


@pytest.fixture
def disk(machine: Machines) -> Disk:
    return machine("trixie", "python3-yaml")


def marks(disk: Disk) -> list[dict[str, str]]:
    """What the disk has when the machine is off."""
    (path,) = disk.layer.glob("var/lib/azure-init/*-*.modules")
    return [json.loads(line) for line in path.read_text().splitlines()]


def boots_again(disk: Disk, scenario: str) -> None:
    """The next boot stays up, carries nothing out again, and tells nothing."""
    with disk.boot(scenario) as boot:
        assert boot.out("systemctl", "is-system-running") == "running", boot.journal("-b")
        assert boot.told() == []
        assert boot.out("cat", "/root/ran") == "ran"
        assert not boot.moment(FINAL, "ExecMainStart"), "nothing is left to do"


@pytest.mark.parametrize(
    ("text", "at", "code"),
    [
        pytest.param(POWER_OFF, LATE, POWERED_OFF, id="poweroff, Ready at access, accepted late"),
        pytest.param(REBOOT, AT_FINAL, REBOOTED, id="reboot, Ready at final"),
        pytest.param(FOR_PACKAGES, AT_FINAL, REBOOTED, id="a package asks for a reboot"),
    ],
)
def test_the_machine_goes_down_after_the_verdict_and_once(disk: Disk, text: str, at: str, code: int) -> None:
    with disk.boot(at, vm=f"custom_data = {json.dumps(text)}", wait=False) as boot:
        boot.gone()
    events = boot.events()
    (verdict,) = (place for place, event in enumerate(events) if isinstance(event, Told) and event.kind != "progress")
    (end,) = (place for place, event in enumerate(events) if isinstance(event, End))
    told, ended = events[verdict], events[end]
    assert isinstance(told, Told) and told.kind == "ready", told
    assert isinstance(ended, End) and (ended.exit_code, ended.stopped) == (code, False), boot.last_words()
    assert verdict < end
    if at == LATE:
        assert (
            "power_state waits until the platform has accepted the verdict"
            in (disk.layer / "var/log/azure-init.log").read_text()
        )
    finished = [entry["finished"] for entry in marks(disk) if "finished" in entry]
    assert finished[-2:] == ["scripts_user", "power_state"]
    assert disk.files("var/lib/azure-init/*.provisioned") and not disk.files("var/lib/azure-init/*.pending")
    boots_again(disk, at)


def test_a_condition_that_does_not_hold_leaves_the_machine_up(disk: Disk) -> None:
    with disk.boot(AT_FINAL, vm=f"custom_data = {json.dumps(NOT_HELD)}") as boot:
        boot.ready()
        assert boot.ended(FINAL) == "success 0", boot.journal("-b", "-u", FINAL)
        assert boot.out("systemctl", "is-system-running") == "running"
    boots_again(disk, AT_FINAL)
