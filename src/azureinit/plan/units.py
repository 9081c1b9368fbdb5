"""Units that the run starts and does not wait for."""

from __future__ import annotations

from azureinit.backends.service import start_again, start_timer, start_unit
from azureinit.errors import CustomDataFailed
from azureinit.plan.actions import Satisfied, Step, Way
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

DISKS, STAGES = "temporary disks", "customData stages"
START_SECS = 10.0
BOOT_TARGET = "default.target"
LOGINS = ("ssh*.service", "systemd-user-sessions*", "wa*agent.service")


def plan_monitor(name: str, *, unit: str, running: bool, key: str) -> Plan:
    """A service that stays until the machine stops. `key`: of the configuration, which asks for it."""
    if running:
        return (Satisfied(name=name, why=f"{unit} runs"),)
    return (plan_start(name, unit, why=f"{key} is true"),)


def plan_disk_service(*, unit: str, started: bool, masked: bool) -> Plan:
    if masked:
        return (Satisfied(name=DISKS, why=f"not set up: {unit} is masked"),)
    if started:
        return (
            Satisfied(name=DISKS, why=f"{unit} runs in every boot, or has run; `azure-init disk plan` shows its plan"),
        )
    return (plan_start(DISKS, unit, why='disk.setup is "auto"; `azure-init disk plan` shows what the unit does'),)


def plan_start(name: str, unit: str, *, why: str) -> Step:
    ways = (Way(backend="systemctl", actions=(start_unit(unit, wait=False, timeout=START_SECS),)),)
    return Step(name=name, why=why, did=f"started {unit}", ways=ways)


def plan_mount(unit: str, *, seconds: float) -> Step:
    start = start_unit(unit, wait=True, timeout=seconds)
    ways = (Way(backend="systemctl", actions=(start,)),)
    return Step(name=f"mount {unit}", why="the data directory lies on it", did=f"mounted {unit}", ways=ways)


def plan_stages(unit: str) -> Plan:
    step = plan_start(STAGES, unit, why="its stages are units of their own; sshd starts after the first of them")
    return (replace(step, failure=CustomDataFailed),)


def plan_logins() -> Plan:
    """Logins, which the end of the unit has let start: they fail, and are not started a second time by the boot."""
    actions = start_again(BOOT_TARGET, failed=LOGINS, timeout=START_SECS)
    why = "azure-init.service has ended in a pool, and units that were ordered after it were started too early"
    ways = (Way(backend="systemctl", actions=actions),)
    return (Step(name="logins", why=why, did="logins wait for this unit again", ways=ways),)


def plan_await(unit: str, *, ended: str, seconds: float) -> Plan:
    """`ended`: a target that is reached when the unit has ended, however it ends."""
    ways = (Way(backend="systemctl", actions=(start_unit(ended, wait=True, timeout=seconds),)),)
    return (Step(name=unit, why="sshd starts after it", did=f"{unit} has ended", ways=ways),)


def plan_deadline(unit: str, *, seconds: float) -> Plan:
    ways = (Way(backend="systemd-run", actions=start_timer(unit, seconds=seconds)),)
    return (Step(name="readiness deadline", why="readiness.deadline_secs", did=f"{seconds:.0f} s are left", ways=ways),)
