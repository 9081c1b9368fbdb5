"""What a machine holds of the customData it was given, and what a program of its is to be run in."""

from __future__ import annotations

from azureinit.facts.waagent import Kept, read_kept
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

BUS = "/run/dbus/system_bus_socket"


class CustomData(Record):
    kept: Kept | None
    # A service of its own: our own unit may do little more than provisioning needs.
    service: bool


def read_custom_data(machine: Machine, path: str) -> CustomData:
    seen = machine.is_open(path.rpartition("/")[0])
    runs_systemd = not machine.rooted and machine.is_dir("/run/systemd/system")
    tools = all(machine.find(tool) for tool in ("systemd-run", "systemctl"))
    return CustomData(
        kept=read_kept(machine, path) if seen else None,
        service=runs_systemd and tools and machine.stat(BUS) is not None,
    )
