"""One stage of a boot beside the run itself, by its name."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.run import provision
from azureinit.run.enact import best_effort
from azureinit.run.identify import identify, may_change, why_not_ours
from azureinit.run.stages import find_stage
from azureinit.run.state import AlreadyProvisioned
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine
    from azureinit.run.state import Context, Identity

RUN_UNIT = find_stage("provision").unit
MASKS = ("/etc/systemd/system", "/run/systemd/system")


def run_stage(name: str, context: Context) -> int:
    """Returns the exit code."""
    reason = why_not_ours(context, beside_cloud_init=find_stage(name).beside_cloud_init)
    if reason is None and is_masked(context.machine):
        reason = f"{RUN_UNIT} is masked: nothing to do"
    if reason is None and not may_change(context.machine):
        reason = "only root provisions this machine"
    if reason is not None:
        if name != "local":  # the run logs it
            context.events.tell(INFO, "platform", reason)
        return 0
    try:
        return RUN[name](context, identify(context, end_if_done=find_stage(name).ends_if_done))
    except AlreadyProvisioned:
        if name == "failed":
            context.events.tell(INFO, name, "the machine is provisioned: nothing to add")
        return 0
    except AzureInitError as error:
        context.events.tell(WARN, name, f"{error}; {error.hint}" if error.hint else str(error))
        return 0 if name == "local" else error.exit_code
    finally:
        context.events.flush()


def is_masked(machine: Machine) -> bool:
    """Masking the run's unit silences its companions too."""
    if machine.rooted:
        return False
    return any(machine.read_link(f"{directory}/{RUN_UNIT}") == "/dev/null" for directory in MASKS)


def _local(context: Context, identity: Identity) -> int:
    from azureinit.run.local import local

    best_effort(context.events, "local", lambda: local(context, identity))  # the run meets the failure and reports it
    return 0


def _failed(context: Context, identity: Identity) -> int:
    from azureinit.run.failed import failed

    return failed(context, identity)


def _resend(context: Context, identity: Identity) -> int:
    from azureinit.memory.pending import is_ready_pending

    if not is_ready_pending(context.machine, identity.instance):
        context.events.tell(INFO, "resend", "no Ready is waiting to be reported")
        return 0
    return provision(context)


def _hostname(context: Context, _identity: Identity) -> int:
    from azureinit.run.hostname_watch import watch

    return watch(context)


def _addresses(context: Context, identity: Identity) -> int:
    from azureinit.run.network_watch import watch

    return watch(context, identity)


def _disk(context: Context, identity: Identity) -> int:
    from azureinit.run.disks import disks

    return disks(context, identity)


def _network(context: Context, identity: Identity) -> int:
    from azureinit.run.userdata import userdata

    return userdata(context, identity, "network")


def _config(context: Context, identity: Identity) -> int:
    from azureinit.run.userdata import userdata

    return userdata(context, identity, "config")


def _final(context: Context, identity: Identity) -> int:
    from azureinit.run.userdata import userdata

    return userdata(context, identity, "final")


def _deadline(context: Context, identity: Identity) -> int:
    from azureinit.run.deadline import deadline

    return deadline(context, identity)


RUN: dict[str, Callable[[Context, Identity], int]] = {
    "local": _local,
    "failed": _failed,
    "resend": _resend,
    "hostname": _hostname,
    "addresses": _addresses,
    "disk": _disk,
    "network": _network,
    "config": _config,
    "final": _final,
    "deadline": _deadline,
}
