"""The end of readiness.deadline_secs, where a verdict waits for customData: a failure that names what is being done."""

from __future__ import annotations

from azureinit.errors import AzureInitError, CustomDataFailed, DeadlineExceeded
from azureinit.memory.pending import READY, read_verdict
from azureinit.run.awaited import holds_verdict, report_failure, timed_from_now
from azureinit.run.carry import INTERRUPTED, NAME, RUNNING, read_result
from azureinit.run.resend import resend_unanswered
from azureinit.run.state import Identity
from azureinit.run.userdata import only_instance
from azureinit.telemetry.events import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.run.state import Context


def deadline(context: Context, identity: Identity) -> int:
    """readiness.deadline_secs are over: a failure that names what is still being done, unless there is a verdict."""
    instance = identity.instance or only_instance(context)
    if instance is None or not holds_verdict(timed_from_now(context), instance):
        context.events.tell(INFO, "deadline", "no verdict waits for customData: nothing to add")
        return 0
    identity = Identity(vm_id=instance.vm_id, instance=instance)
    if (read_verdict(context.machine) or "").startswith(READY):
        told = "the stage that reported Ready has ended, and whether the platform accepted it is not known"
        context.events.tell(INFO, "deadline", f"{told}: it is reported again")
        resend_unanswered(context, identity)
        return 0
    secs = context.config.readiness.deadline_secs
    step, doing = doing_now(context.machine)
    cause = DeadlineExceeded(f"not finished within readiness.deadline_secs ({secs:.0f} s): {doing}")
    error = CustomDataFailed(step, {"azure-init": cause})
    report_failure(timed_from_now(context), identity, error)
    return 0


def doing_now(machine: Machine) -> tuple[str, str]:
    """The step that a stage is doing now, or was doing when it was interrupted, and a sentence about it."""
    found = read_result(machine)
    stages = found.get("stages")
    rows = stages.items() if isinstance(stages, dict) else ()
    for state, how in ((RUNNING, "is at"), (INTERRUPTED, "was interrupted at")):
        for stage, row in rows:
            if isinstance(row, dict) and row.get("state") == state:
                module, step, path = (str(row.get(key, "")) for key in ("module", "step", "progress"))
                reached = _last_line(machine, path) if path.startswith("/") else ""
                told = f"the {stage} stage {how} {step or module or 'its beginning'}"
                return step or module or NAME, told + (f", {reached}" if reached else "")
    return NAME, "no stage is running"


def _last_line(machine: Machine, path: str) -> str:
    try:
        data = machine.read(path) or b""
    except AzureInitError:
        return ""
    return data.rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")[-200:]
