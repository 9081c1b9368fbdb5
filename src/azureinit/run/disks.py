"""The disk stage: temporary disks. Facts, a plan, its steps, and again, until a plan has nothing left to do.

/run/azure-init/disks.lock   one run at a time, of the stage and of `azure-init disk setup`
/run/azure-init/disks.json   what the last run found and did. It exists from the moment before facts are read: a disk
                             that appears later starts azure-init-disk-late@.service, which waits for the lock.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, ConfigInvalid, LocalError, NotConverged, PlanStale, VmIdUnknown
from azureinit.facts.disk_services import await_events, await_udev, read_other_service
from azureinit.facts.mounts import missing_mount
from azureinit.facts.temporary_disks import read_disk_facts
from azureinit.memory.disk_sets import read_disk_sets
from azureinit.plan.actions import Caution, work_left
from azureinit.plan.disk_status import disk_status
from azureinit.plan.disk_steps import makes_devices
from azureinit.plan.disks import plan_disks, refusals
from azureinit.record import Record
from azureinit.run.enact import enact
from azureinit.run.recall import waits_in_pool
from azureinit.run.stages import find_stage
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from azureinit.facts.temporary_disks import DiskFacts
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.memory.instance import Instance
    from azureinit.plan.actions import Plan, Step
    from azureinit.run.state import Context, Identity

PLACE = "/run/azure-init"
LOCK, RESULT = f"{PLACE}/disks.lock", f"{PLACE}/disks.json"
UNIT = find_stage("disk").unit
MOST_ROUNDS = 6
MOST_SECS = 540.0  # shorter than the unit's TimeoutStartSec
LOCK_SECS = 240.0  # another run makes file systems meanwhile
UDEV_SECS = 30.0
# At the start of a boot udev has all devices in its queue. To look before it is done would disturb udev's own assembly
# of arrays, which opens their disks exclusively.
QUEUE_SECS = 120.0
LOOKS = 2  # further ones, where something is refused after a step


class Look(Record):
    """One look at the disks, and the plan that follows from it."""

    facts: DiskFacts
    sets: tuple[DiskSet, ...]
    plan: Plan


def disks(context: Context, identity: Identity) -> int:
    """The stage. Returns the exit code."""
    if context.config.disk.setup != "auto" or context.machine.rooted:
        off = context.config.disk.setup != "auto"
        why = "disk.setup is off" if off else "this tree is not the running system"
        context.events.tell(INFO, "disk", f"temporary disks are not set up: {why}")
        return 0
    enabled = read_other_service(context.machine, UNIT)
    if enabled:
        told = f"temporary disks are left to azure-vm-utils, whose service is enabled: {enabled}"
        context.events.tell(INFO, "disk", told)
        return 0
    return set_up(context, identity, boot=True)


def look(context: Context, instance: Instance, *, recreate: bool = False) -> Look:
    machine, settings = context.machine, context.config.disk
    sets = read_disk_sets(machine, instance)
    facts = read_disk_facts(machine, settings, sets)
    path = instance.path("disks")
    plan = plan_disks(settings, facts, sets, vm_id=instance.vm_id, sets_path=path, recreate=recreate)
    return Look(facts=facts, sets=sets, plan=plan)


def set_up(context: Context, identity: Identity, *, recreate: bool = False, boot: bool = False) -> int:
    """Set up what may be set up. Returns the exit code; raises what a step raises.

    `boot`: disks with the user's own data are no failure. `azure-init disk setup` reports them as one.
    """
    instance = instance_of(context, identity)
    machine = context.machine
    if waits_in_pool(context, identity):  # the run has died there; the unit fails, so that the customer's run starts it
        raise LocalError("temporary disks are left alone: this VM waits in a pool for its customer")
    try:
        check_file(context)
    except AzureInitError as error:
        if machine.stat(RESULT) is not None:  # otherwise late disks start nothing
            write_result(context, {"state": "failed", "failure": str(error)})
        raise
    until = min(context.deadline, machine.clock.monotonic() + MOST_SECS)
    machine.make_dirs(PLACE, mode=0o700)
    if machine.stat(RESULT) is None:
        write_result(context, {"state": "running"})
    machine.hold(LOCK, timeout=min(LOCK_SECS, until - machine.clock.monotonic()))
    machine.make_dirs(instance.data_dir, mode=0o700)
    doubt = await_udev(machine, timeout=QUEUE_SECS)
    if doubt:
        context.events.tell(WARN, "disk", f"{doubt}; a disk that appears late may be missed")
    try:
        last = converge(context, lambda: look(context, instance, recreate=recreate), deadline=until)
    except AzureInitError as error:
        write_result(context, {"state": "failed", "failure": str(error)})
        raise
    refused = refusals(last.plan, kept=not boot)
    write_result(context, result(last, "refused" if refused else "done"))
    return AzureInitError.exit_code if refused else 0


def instance_of(context: Context, identity: Identity) -> Instance:
    """The VM's files. Without them it is not known which disks are this VM's own unfinished work."""
    unmounted = context.unmounted
    if unmounted is None and not context.machine.rooted:
        unmounted = missing_mount(context.machine, context.config.azure_init_data_dir.path)
    if unmounted is not None:
        raise LocalError(f"temporary disks are left alone: {unmounted} is not mounted")
    if identity.instance is None:
        hint = "set platform.vm_id"
        raise VmIdUnknown("temporary disks are left alone: the firmware gives no VM id", hint=hint)
    return identity.instance


def check_file(context: Context) -> None:
    """A mistake in azure-vm-utils' file: its service would not begin, either."""
    from azureinit.config.load import EPHEMERAL_SETUP

    data = context.machine.read(EPHEMERAL_SETUP)
    if not data:
        return
    from azureinit.config.ephemeral_setup import parse_ephemeral_setup

    path, problems = context.machine.shown(EPHEMERAL_SETUP), parse_ephemeral_setup(data).problems
    if problems:
        told = "; ".join(problems)
        raise ConfigInvalid(f"temporary disks are left alone: {path}: {told}", hint=f"correct or remove {path}")


def converge(context: Context, read: Callable[[], Look], *, deadline: float) -> Look:
    """Look and do the steps, in rounds: a later one needs what an earlier one made. Returns the look without steps.

    udev reads the partitions of a device again after a program has written to it. In that moment the device is claimed
    and has no partitions, so what would be refused after a step is looked at again.
    """
    machine, events = context.machine, context.events
    told: list[Caution] = []
    before: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    for number in range(MOST_ROUNDS):
        found = read()
        for _again in range(LOOKS if number else 0):
            if not refusals(found.plan):
                break
            await_events(machine, timeout=UDEV_SECS)
            found = read()
        for item in found.plan:
            if isinstance(item, Caution) and item not in told:
                told.append(item)
                events.tell(WARN, item.name, item.why)
        steps = work_left(found.plan)
        names = tuple(step.name for step in steps)
        if not steps:
            make_safe(context)
            return found
        if names == before:
            break
        try:
            enact(machine, found.plan, events=events, deadline=deadline)
        except PlanStale as error:
            events.tell(INFO, "disk", f"{error}: planned again")
            names = ()
        if any(makes_devices(step) for step in steps):
            await_events(machine, timeout=UDEV_SECS)
        before = names
    left = ", ".join(f"{step.name} ({step.why})" for step in steps)
    raise NotConverged(f"temporary disks: after all steps there is still something to do: {left}")


def make_safe(context: Context) -> None:
    """Sync /etc/fstab and the record of the sets; a failure costs no more than another run."""
    from azureinit.machine.durable import make_durable

    try:
        make_durable(context.machine, context.config.azure_init_data_dir.path, also=("/etc",))
    except AzureInitError as error:
        context.events.tell(WARN, "disk", str(error))


def result(last: Look, state: str) -> dict[str, Any]:
    rows = disk_status(last.facts, last.sets, last.plan)
    plan = [{"kind": type(item).__name__.lower(), "name": item.name, "why": item.why} for item in last.plan]
    return {"state": state, "disks": [row.as_dict() for row in rows], "plan": plan}


def write_result(context: Context, values: dict[str, Any]) -> None:
    from azureinit.jsontext import dumps

    try:
        context.machine.write(RESULT, f"{dumps(values)}\n".encode(), mode=0o600, sync=False)
    except AzureInitError as error:
        context.events.tell(DEBUG, "disk", str(error))
