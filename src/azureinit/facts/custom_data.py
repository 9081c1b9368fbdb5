"""customData: the file that was kept of it, and whether a program can run in a unit of its own."""

from __future__ import annotations

from azureinit.facts.waagent import Kept, read_kept
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

BUS = "/run/dbus/system_bus_socket"


class CustomData(Record):
    kept: Kept | None
    # It can run in a unit of its own: azure-init's unit is restricted to what provisioning needs.
    service: bool


def read_custom_data(machine: Machine, path: str) -> CustomData:
    seen = machine.is_open(path.rpartition("/")[0])
    runs_systemd = not machine.rooted and machine.is_dir("/run/systemd/system")
    tools = all(machine.find(tool) for tool in ("systemd-run", "systemctl"))
    return CustomData(
        kept=read_kept(machine, path) if seen else None,
        service=runs_systemd and tools and machine.stat(BUS) is not None,
    )
