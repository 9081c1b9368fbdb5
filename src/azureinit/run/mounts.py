"""A file system that the data directory lies on and that is not mounted yet."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.facts.mounts import missing_mount, unit_name
from azureinit.plan.units import plan_mount
from azureinit.run.enact import enact
from azureinit.telemetry.events import Events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

MOUNT_SECS = 100.0  # systemd gives a device 90 s to appear


def start_mount(machine: Machine, path: str, missing: str) -> str | None:
    """Have systemd mount what `path` lies on. Returns the mount point that is still missing."""
    until = machine.clock.monotonic() + MOUNT_SECS
    while machine.clock.monotonic() < until:
        plan = (plan_mount(unit_name(missing), seconds=until - machine.clock.monotonic()),)
        try:
            enact(machine, plan, events=Events(clock=machine.clock), deadline=until)
        except AzureInitError:
            return missing
        found = missing_mount(machine, path)
        if found is None or found == missing:
            return found
        missing = found  # another one below it
    return missing
