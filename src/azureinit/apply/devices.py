"""Programs that write to devices: each device is examined once more, under an exclusive open, immediately before.

Between the end of that check and the program's own exclusive open only a lock protects the device, and only programs
that respect it (udev) keep away. That time is the start of one process. A program that has the device open without
O_EXCL can write to it at any time; its write is noticed only if it comes before the check and within what is read.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError, PlanStale, SubprocessTimeout
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
        try:
            perform(action.run)
        except SubprocessTimeout:
            raise  # it may still have the device: a program that waits for the disk ends when the disk answers
        except AzureInitError:
            if action.unmark is not None and _is_not_ours(claims, action):
                perform(action.unmark)
                make_durable(machine, "/", also=CHANGED)
            raise


def _is_not_ours(claims: Claims, action: OnDevices) -> bool:
    """After a failure: nothing was written, or another program has a device. What it writes is not unfinished work."""
    try:
        claims.claim_again()
    except LocalError:
        return True
    try:
        for device in action.devices:
            _check(claims, device)
    except LocalError:  # PlanStale, or a device that cannot be read
        return False
    return True


def _check(claims: Claims, device: Untouched) -> None:
    if device.sequence and claims.sequence(device.path) != device.sequence:
        raise PlanStale(f"{device.path} is another disk now: it is left alone", path=device.path)
    size = claims.size(device.path)
    if size != device.size:
        raise PlanStale(f"{device.path} has {size} bytes now, and had {device.size}", path=device.path)
    if claims.digest(device.path, device.regions) != device.digest:
        raise PlanStale(f"{device.path} was written to after it was examined: it is left alone", path=device.path)
