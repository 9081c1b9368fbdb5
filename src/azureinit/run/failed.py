"""The failed stage: azure-init.service ended without a verdict, so this stage reports the failure."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout, RunDied
from azureinit.facts.mounts import missing_mount, unit_name
from azureinit.facts.system_state import is_stopping
from azureinit.memory.instance import is_marked, prepare
from azureinit.memory.pending import (
    AWAITS,
    FAILURE,
    READY,
    READY_IN_POOL,
    TOLD,
    UNDELIVERED,
    read_pending,
    read_verdict,
)
from azureinit.run.channels import open_channels
from azureinit.run.deliver import Delivery
from azureinit.run.enact import best_effort, enact
from azureinit.run.recall import told_pps_type, waits_in_pool
from azureinit.run.stages import find_stage
from azureinit.run.state import Known, Outcome
from azureinit.run.termination import has_customer
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context, Identity

START_SECS = 10.0
HOMES = "/home"
STARTS = "/run/azure-init/pool-starts"  # how often a run that died in the pool was started again in this boot
MOST_STARTS = 99
ENOUGH_STARTS = 3  # after so many, a customer gets a verdict
LONGEST_PAUSE = 60.0  # shorter than the unit's TimeoutStartSec


def failed(context: Context, identity: Identity) -> int:
    """Always 0: the run's own unit shows the failure."""
    pending = read_pending(context.machine, identity.instance) if identity.instance is not None else None
    awaited = pending is not None and pending.verdict == AWAITS
    error = _cause(context, identity)
    if error is not None:
        with Delivery(context, open_channels(context)) as delivery:
            kind = told_pps_type(context, identity) if context.unmounted is None else None
            known = Known(identity=identity, pps_type=kind, ends=awaited)
            delivery.deliver(Outcome(known=known, failure=error))
    return 0


def _cause(context: Context, identity: Identity) -> RunDied | None:
    """None where there is nothing to report."""
    machine, tell = context.machine, context.events.tell
    verdict = read_verdict(machine)
    if verdict is not None and not _is_unanswered(context, identity, verdict):
        tell(INFO, "failed", f"the run ended with a verdict ({verdict}), {_delivery(verdict)}: nothing to add")
        return None
    if is_stopping(machine):
        tell(INFO, "failed", "the system is going down: the next boot decides")
        return None
    unmounted = context.unmounted or (None if machine.rooted else missing_mount(machine, HOMES))
    if unmounted is not None:
        # The run requires the mount, and so it never started. Nothing may be written below the mount point.
        hint = f"systemctl status {unit_name(unmounted)}"
        return RunDied(f"azure-init could not start: {unmounted} is not mounted", hint=hint)
    try:
        prepare(machine, context.config.azure_init_data_dir.path, timeout=0)
    except LockTimeout:
        tell(INFO, "failed", "another azure-init is running, and will report: nothing to add")
        return None
    except AzureInitError as error:
        tell(DEBUG, "lock", str(error))  # where nothing can be written there is no lock to respect
    if verdict is not None:
        from azureinit.run.resend import resend_unanswered

        tell(INFO, "failed", f"the process that reported Ready has ended, {_delivery(verdict)}: it is reported again")
        resend_unanswered(context, identity)
        return None
    told = _back_to_the_pool(context, identity) or _left_to_others(context, identity)
    if told:
        tell(INFO, "failed", f"{told}: nothing to add")
        return None
    environ = machine.environ
    how = " ".join(filter(None, (environ.get("MONITOR_SERVICE_RESULT"), environ.get("MONITOR_EXIT_STATUS"))))
    return RunDied(f"azure-init ended without a verdict: {how or 'the service failed'}")


def _is_unanswered(context: Context, identity: Identity, verdict: str) -> bool:
    """Whether Ready was on its way when its process died: it had done everything, and did not learn the answer."""
    instance = identity.instance
    if verdict != READY or instance is None or context.unmounted is not None or is_marked(context.machine, instance):
        return False
    pending = read_pending(context.machine, instance)
    return pending is None or pending.verdict not in (READY, TOLD)


def _back_to_the_pool(context: Context, identity: Identity) -> str:
    """A run that died in a pool is started again: the platform has had its Ready, and no customer has the machine."""
    if context.unmounted is not None:
        return ""
    if not waits_in_pool(context, identity):
        return ""
    from azureinit.plan.units import plan_start

    unit = find_stage("provision").unit
    starts, pause = _count_start(context)
    if starts >= ENOUGH_STARTS and has_customer(context):
        told = f"{unit} was started {starts} times in this boot, and this VM has a customer: it is not started again"
        context.events.tell(WARN, "pre-provisioning", told)
        return ""
    plan = (plan_start("pre-provisioning", unit, why="the run that waited in a pool has ended"),)
    if pause:
        told = f"{unit} has ended in the pool again: it is started after {pause:.0f} s"
        context.events.tell(INFO, "pre-provisioning", told)
        context.machine.clock.sleep(pause)
    until = context.machine.clock.monotonic() + START_SECS
    # This process holds the lock until it ends, and the run waits for that.
    work = lambda: enact(context.machine, plan, events=context.events, deadline=until)  # noqa: E731
    best_effort(context.events, "pre-provisioning", work)
    return f"this VM waits in a pool, and {unit} is started again"


def _count_start(context: Context) -> tuple[int, float]:
    """How often the run was started again in this boot, and the pause before the next start: none at first, then twice
    as long each time, up to a minute.

    A run that dies at every start must neither use up the CPU for weeks nor reach systemd's limit of starts, after
    which no customer could get the VM.
    """
    machine, count = context.machine, 0
    try:
        count = int(machine.read(STARTS) or b"0")
        machine.make_dirs(STARTS.rpartition("/")[0], mode=0o700)
        machine.write(STARTS, f"{min(count + 1, MOST_STARTS)}".encode(), mode=0o600, sync=False)
    except (AzureInitError, ValueError) as error:
        context.events.tell(DEBUG, "pre-provisioning", str(error))
        return ENOUGH_STARTS, LONGEST_PAUSE
    return count, min(2.0**count - 1, LONGEST_PAUSE)


def _left_to_others(context: Context, identity: Identity) -> str:
    """Where customData has begun: a stage of it that failed is no run that died, and its own unit reports that."""
    instance = identity.instance
    if instance is None or context.unmounted is not None:
        return ""
    pending = read_pending(context.machine, instance)
    if pending is None or context.machine.stat(instance.path("userdata")) is None:
        return ""
    if pending.verdict == TOLD:
        return "customData failed in an earlier boot, and the platform has accepted that report"
    if pending.verdict == READY:
        return "azure-init-resend reports Ready"
    if pending.verdict != AWAITS:
        return ""
    at = context.config.readiness.at
    return "" if _has_died(context, at) else f"the {at} stage of customData has the verdict"


def _has_died(context: Context, at: str) -> bool:
    """Whether the stage that has the verdict ended without it: before, in or after its modules."""
    if context.machine.environ.get("MONITOR_UNIT") == find_stage(at).unit:
        return True
    from azureinit.run.carry import DONE, FAILED, LOCK, RUNNING, read_result

    stages = read_result(context.machine).get("stages")
    row = stages.get(at) if isinstance(stages, dict) else None
    state = row.get("state") if isinstance(row, dict) else ""
    if state not in (DONE, FAILED):
        return state == RUNNING
    try:
        context.machine.hold(LOCK, timeout=0)  # a stage has it until its process ends
    except AzureInitError:
        return False
    return True


def _delivery(verdict: str) -> str:
    """Ready is recorded before it is sent, a failure after that."""
    if verdict.endswith(UNDELIVERED):
        return "the platform has not accepted it"
    accepted = verdict in (FAILURE, READY_IN_POOL)
    return "the platform has accepted it" if accepted else "whether the platform accepted it is not known"
