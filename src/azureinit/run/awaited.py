"""The verdict that waits for a stage of customData: whether a process has to report it, and a failure."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout
from azureinit.memory.instance import is_marked, prepare
from azureinit.memory.pending import AWAITS, FAILURE, TOLD, read_pending, read_verdict
from azureinit.memory.pool import begun_moment
from azureinit.record import replace
from azureinit.run import conclude
from azureinit.run.carry import NAME
from azureinit.run.recall import told_pps_type
from azureinit.run.state import Known, Outcome
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance
    from azureinit.run.state import Context, Identity

LOCK_SECS = 300.0  # the run does its last jobs, or another stage ends


def timed_from_now(context: Context) -> Context:
    """The time for a verdict begins now: a stage may take longer than a run."""
    clock = context.machine.clock
    return replace(context, started=clock.monotonic(), booted=begun_moment(context.machine))


def has_verdict(machine: Machine, instance: Instance) -> bool:
    if is_marked(machine, instance):
        return True
    pending = read_pending(machine, instance)
    return (pending is not None and pending.verdict == TOLD) or read_verdict(machine) == FAILURE


def holds_verdict(context: Context, instance: Instance, *, replaces: bool = False, awaited: bool = False) -> bool:
    """Whether the verdict is this process's to report. One process at a time comes to this, by the run's lock.

    `replaces`: also where the platform has not accepted a failure, such as that of the deadline. `awaited`: a verdict
    was awaited before customData ran, which may have removed the record of that.
    """
    machine = context.machine
    try:
        prepare(machine, instance.data_dir, timeout=LOCK_SECS)
    except LockTimeout as error:
        context.events.tell(WARN, NAME, f"{error}; that run will report")
        return False
    except AzureInitError as error:  # where nothing can be written there is no lock to respect
        context.events.tell(WARN, NAME, str(error))
    if is_marked(machine, instance) or read_verdict(machine) == FAILURE:
        return False
    pending = read_pending(machine, instance)
    if pending is None:
        return awaited and read_verdict(machine) is None
    return pending.verdict == AWAITS or (replaces and pending.verdict == FAILURE)


def report_failure(context: Context, identity: Identity, error: AzureInitError) -> None:
    """Once the platform has accepted it, no later boot adds another verdict."""
    from azureinit.memory.userdata import read_userdata

    assert identity.instance is not None
    machine, instance = context.machine, identity.instance
    saved, pending = read_userdata(machine, instance), read_pending(machine, instance)
    known = Known(
        identity=identity,
        metadata=saved.metadata if saved is not None else None,
        previous=pending.failure if pending is not None else "",
        pps_type=told_pps_type(context, identity),
        ends=True,
    )
    conclude(context, None, Outcome(known=known, failure=error))
