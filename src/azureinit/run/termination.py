"""Ends without a verdict: SIGTERM before it, and errors of a VM that waits in a pool.

While the system goes down nothing is reported, and the next boot decides. Otherwise the failure is reported, within
TimeoutStopSec of the unit less two seconds; one that is being reported is sent once more: a duplicate is harmless. Once
Ready is on its way, or a failure was accepted, SIGTERM ends the process at once.
"""

from __future__ import annotations

from azureinit.machine.service import is_service
from azureinit.machine.signals import default_sigterm, handle_sigterm, ignore_sigterm
from azureinit.record import replace
from azureinit.run.recall import waits_in_pool
from azureinit.run.state import Stopped
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from azureinit.run.channels import Channels
    from azureinit.run.state import Context, Outcome

REPORT_SECS = 18.0  # TimeoutStopSec=20 in azure-init.service, less two


class SigtermStops:
    """A block that SIGTERM ends by raising Stopped; only in a service, since at a terminal it ends any program.

    `always`: also elsewhere. The block runs programs, which end with it.
    """

    def __init__(self, context: Context, *, applies: bool = True, always: bool = False) -> None:
        machine = context.machine
        self.applies = applies and (is_service(machine) or (always and not machine.rooted))
        self.clock = machine.clock

    def __enter__(self) -> None:
        if self.applies:
            handle_sigterm(self._stop)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.applies and not isinstance(error, Stopped):
            default_sigterm()

    def _stop(self) -> NoReturn:
        ignore_sigterm()  # the failure is being reported: another one changes nothing
        raise Stopped(self.clock.monotonic())


def is_silent(context: Context, outcome: Outcome) -> bool:
    """Whether nothing is reported."""
    if outcome.stopped is None:
        waits = outcome.known.waits
        if not (_is_reported_in_pool(context, outcome) if waits is None else waits):
            return False
        if has_customer(context):
            told = "this VM has a customer, whose data this run could not use: the failure is the customer's"
            context.events.tell(WARN, "provision", told)
            return False
        told = f"{outcome.failure}, in a pool after its Ready: nothing is reported, and the next start continues"
        context.events.tell(WARN, "provision", told)
        return True
    if outcome.settled is None and context.unmounted is None and waits_in_pool(context, outcome.known.identity):
        context.events.tell(WARN, "provision", f"{outcome.failure}, in a pool: the next start continues")
        return True
    from azureinit.facts.system_state import is_stopping

    if not is_stopping(context.machine):
        return False
    context.events.tell(WARN, "provision", f"{outcome.failure}, and the system is going down: the next boot decides")
    return True


def has_customer(context: Context) -> bool:
    """Whether the customer's data are there. Errors of the pool are reported then: the customer waits for a verdict."""
    from azureinit.sources.reprovision import DATA, PAUSE_SECS, ask_once

    clock = context.machine.clock
    try:
        clock.sleep(PAUSE_SECS)  # the run may have asked a moment ago
    except OSError:
        pass  # perhaps the error that has ended the run
    return ask_once(context.config, clock=clock).kind == DATA


def _is_reported_in_pool(context: Context, outcome: Outcome) -> bool:
    """Whether a start of this VM that failed before it came to the wait had one before it that did."""
    if outcome.settled is not None or context.again or context.unmounted is not None:
        return False
    from azureinit.memory.pool import WAITING, read_marker

    marker = read_marker(context.machine, context.config.azure_init_data_dir.path)
    return marker is not None and marker.state == WAITING and marker.is_of(outcome.known.identity.vm_id)


def bound(context: Context, channels: Channels, outcome: Outcome) -> tuple[Context, Channels]:
    """The time that systemd gives a unit which it stops, and channels that wait for no thread of the stopped run."""
    if outcome.stopped is None:
        return context, channels
    context = replace(context, config=channels.platform.config, ends=outcome.stopped + REPORT_SECS)
    from azureinit.run.channels import open_channels

    return context, open_channels(context)
