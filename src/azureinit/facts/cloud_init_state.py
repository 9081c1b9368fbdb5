"""How far customData has come, for the command `cloud-init status`."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.jsontext import loads
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.machine import Machine

STATUS, RESULT = "/run/cloud-init/status.json", "/run/cloud-init/result.json"  # readable by everybody
RUN_UNIT, LAST_UNIT = "azure-init.service", "azure-init-userdata-final.service"
TARGET = "azure-init-userdata.target"
UNITS = (RUN_UNIT, TARGET, LAST_UNIT)
QUEUED, LEFT_OUT, STOPPED = "queued", "left out", "stopped"
PROPERTIES = ("ActiveState", "Job", "ConditionResult", "ConditionTimestampMonotonic", "UnitFileState")
STARTED_BY = ("enabled", "enabled-runtime")  # the run's unit: otherwise no boot starts it
SYSTEMD = "/run/systemd/system"
SECS = 10.0


class State(Record):
    stages: Mapping[str, Any]  # of status.json; empty where none has begun
    finished: bool = False
    disabled: str = ""  # why
    disabled_by: str = ""  # the same in cloud-init's words
    # Of a unit: its ActiveState; "queued" where a job waits for it, "left out" where this boot does not start it,
    # "stopped" where it has run and is not active any more.
    units: Mapping[str, str] = {}


def read_state(machine: Machine) -> State:
    units = _read_units(machine)  # before the files: what a unit has written before its end is seen
    words = (machine.read("/proc/cmdline", limit=1 << 16) or b"").split()
    by, disabled = "", ""
    if b"azure-init=off" in words:
        by, disabled = "disabled-by-kernel-command-line", "the kernel's command line switches it off"
    elif units.get(RUN_UNIT) == LEFT_OUT:
        by = "disabled-by-generator"
        disabled = f"this boot does not start {RUN_UNIT}: this is no VM of Azure, or the unit is disabled"
    elif not machine.is_dir(SYSTEMD) and machine.stat(STATUS) is None:
        by, disabled = "disabled-by-generator", "systemd does not run here, and the stages are its units"
    finished = machine.stat(RESULT) is not None
    stages = _read_status(machine)
    return State(stages=stages, finished=finished, disabled=disabled, disabled_by=by, units=units)


def _read_status(machine: Machine) -> Mapping[str, Any]:
    data = machine.read(STATUS, limit=1 << 20)
    try:
        found = loads(data.decode("utf-8", "replace"))["v1"] if data else {}
    except (ValueError, TypeError, KeyError):
        return {}  # it is being written
    return found if isinstance(found, dict) else {}


def _read_units(machine: Machine) -> dict[str, str]:
    """Empty where systemd is not running or does not answer."""
    if not machine.is_dir(SYSTEMD) or machine.find("systemctl") is None:
        return {}
    argv = ("systemctl", "show", f"--property={','.join(PROPERTIES)}", *UNITS)
    try:
        ran = machine.run(argv, timeout=SECS).check()
    except AzureInitError:
        return {}
    return parse_units(ran.out)


def parse_units(shown: bytes) -> dict[str, str]:
    """`shown`: what systemctl shows of UNITS, in that order."""
    found: dict[str, str] = {}
    for unit, block in zip(UNITS, shown.decode("utf-8", "replace").split("\n\n")):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        state = values.get("ActiveState", "")
        if values.get("Job", "0") not in ("", "0"):
            state = QUEUED
        elif state == "inactive":
            state = _why_inactive(unit, values)
        found[unit] = state
    return found


def _why_inactive(unit: str, values: Mapping[str, str]) -> str:
    """Its conditions do not hold; or no target starts it, which is asked of the run's unit only; or it has run."""
    if values.get("ConditionTimestampMonotonic", "0") not in ("", "0"):
        return LEFT_OUT if values.get("ConditionResult") == "no" else STOPPED
    return LEFT_OUT if unit == RUN_UNIT and values.get("UnitFileState") not in STARTED_BY else "inactive"
