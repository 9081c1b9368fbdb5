"""Programs that write to devices: each device is examined once more, under an exclusive open, immediately before.

Between the end of that check and the program's own exclusive open only a lock protects the device, and only programs
that respect it (udev) keep away. That time is the start of one process. A program that has the device open without
O_EXCL can write to it at any time; its write is noticed only if it comes before the check and within what is read.
"""

from __future__ import annotations

from azureinit.errors import PlanStale
from azureinit.machine.block import claim
from azureinit.machine.durable import make_durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine
    from azureinit.machine.block import Claims
    from azureinit.plan.actions import Action, OnDevices, Untouched

CHANGED = ("/etc", "/var")  # with /, where programs that ran before may have changed files


def on_devices(machine: Machine, action: OnDevices, *, perform: Callable[[Action], None]) -> None:
    """PlanStale if a device is not as the planner saw it, LocalError if it is in use: nothing was written then."""
    make_durable(machine, "/", also=CHANGED)
    with claim(machine, (device.path for device in action.devices)) as claims:
        for device in action.devices:
            _check(claims, device)
        if action.mark is not None:
            perform(action.mark)
            make_durable(machine, "/", also=CHANGED)
        claims.share()
        perform(action.run)


def _check(claims: Claims, device: Untouched) -> None:
    size = claims.size(device.path)
    if size != device.size:
        raise PlanStale(f"{device.path} has {size} bytes now, and had {device.size}", path=device.path)
    if claims.digest(device.path, device.regions) != device.digest:
        raise PlanStale(f"{device.path} was written to after it was examined: it is left alone", path=device.path)
