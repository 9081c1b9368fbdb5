"""The failed stage: azure-init.service ended without a verdict, so this stage reports the failure."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LockTimeout, RunDied
from azureinit.facts.mounts import missing_mount, unit_name
from azureinit.facts.system_state import is_stopping
from azureinit.memory.instance import prepare
from azureinit.memory.pending import FAILURE, UNDELIVERED, read_verdict
from azureinit.run.channels import open_channels
from azureinit.run.deliver import Delivery
from azureinit.run.state import Known, Outcome
from azureinit.telemetry.events import DEBUG, INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context, Identity

HOMES = "/home"


def failed(context: Context, identity: Identity) -> int:
    """Always 0: the run's own unit shows the failure."""
    error = _cause(context)
    if error is not None:
        with Delivery(context, open_channels(context)) as delivery:
            delivery.deliver(Outcome(known=Known(identity=identity), failure=error))
    return 0


def _cause(context: Context) -> RunDied | None:
    """None where there is nothing to report."""
    machine, tell = context.machine, context.events.tell
    verdict = read_verdict(machine)
    if verdict is not None:
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
    environ = machine.environ
    how = " ".join(filter(None, (environ.get("MONITOR_SERVICE_RESULT"), environ.get("MONITOR_EXIT_STATUS"))))
    return RunDied(f"azure-init ended without a verdict: {how or 'the service failed'}")


def _delivery(verdict: str) -> str:
    """Ready is recorded before it is sent, a failure after that."""
    if verdict.endswith(UNDELIVERED):
        return "the platform has not accepted it"
    return "the platform has accepted it" if verdict == FAILURE else "whether the platform accepted it is not known"
