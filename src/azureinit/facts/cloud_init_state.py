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
DISABLED = "/etc/cloud/cloud-init.disabled"
RUN_UNIT, LAST_UNIT = "azure-init.service", "azure-init-userdata-final.service"
TARGET = "azure-init-userdata.target"
SECS = 10.0


class State(Record):
    stages: Mapping[str, Any]  # of status.json; empty where none has begun
    finished: bool = False
    disabled: str = ""  # why
    # Of a unit: its ActiveState, and "queued" where a job waits for it.
    units: Mapping[str, str] = {}


def read_state(machine: Machine) -> State:
    disabled = f"there is {DISABLED}" if machine.stat(DISABLED) is not None else ""
    words = (machine.read("/proc/cmdline", limit=1 << 16) or b"").split()
    if b"cloud-init=disabled" in words or b"azure-init=off" in words:
        disabled = "the kernel's command line switches it off"
    finished = machine.stat(RESULT) is not None
    return State(stages=_read_status(machine), finished=finished, disabled=disabled, units=_read_units(machine))


def _read_status(machine: Machine) -> Mapping[str, Any]:
    data = machine.read(STATUS, limit=1 << 20)
    try:
        found = loads(data.decode("utf-8", "replace"))["v1"] if data else {}
    except (ValueError, TypeError, KeyError):
        return {}  # it is being written
    return found if isinstance(found, dict) else {}


def _read_units(machine: Machine) -> dict[str, str]:
    """Empty where systemd is not running or does not answer."""
    units = (RUN_UNIT, TARGET, LAST_UNIT)
    if not machine.is_dir("/run/systemd/system") or machine.find("systemctl") is None:
        return {}
    try:
        ran = machine.run(("systemctl", "show", "--property=ActiveState,Job", *units), timeout=SECS).check()
    except AzureInitError:
        return {}
    found: dict[str, str] = {}
    for unit, block in zip(units, ran.out.decode().split("\n\n")):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        found[unit] = "queued" if values.get("Job", "0") not in ("", "0") else values.get("ActiveState", "")
    return found
