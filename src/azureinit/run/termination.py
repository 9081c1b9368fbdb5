"""SIGTERM before the verdict.

While the system goes down nothing is reported, and the next boot decides. Otherwise the failure is reported, within
TimeoutStopSec of the unit less two seconds. Once a verdict is on its way, SIGTERM ends the process at once.
"""

from __future__ import annotations

from azureinit.errors import Terminated
from azureinit.machine.service import is_service
from azureinit.machine.signals import default_sigterm, handle_sigterm, ignore_sigterm
from azureinit.record import replace
from azureinit.run.channels import open_channels
from azureinit.run.state import Stopped
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from azureinit.errors import AzureInitError
    from azureinit.run.channels import Channels
    from azureinit.run.state import Context

REPORT_SECS = 18.0  # TimeoutStopSec=20 in azure-init.service, less two


class SigtermStops:
    """A block that SIGTERM ends by raising Stopped; only in a service, since at a terminal it ends any program."""

    def __init__(self, context: Context) -> None:
        self.applies = is_service(context.machine)

    def __enter__(self) -> None:
        if self.applies:
            handle_sigterm(_stop)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.applies and not isinstance(error, Stopped):
            default_sigterm()


def _stop() -> NoReturn:
    ignore_sigterm()  # the failure is being reported: another one changes nothing
    raise Stopped


def is_silent(context: Context, failure: AzureInitError | None) -> bool:
    """Whether nothing is reported."""
    if not isinstance(failure, Terminated):
        return False
    from azureinit.facts.system_state import is_stopping

    if not is_stopping(context.machine):
        return False
    context.events.tell(WARN, "provision", f"{failure}, and the system is going down: the next boot decides")
    return True


def bound(context: Context, channels: Channels, failure: AzureInitError | None) -> tuple[Context, Channels]:
    """The time that systemd gives a unit which it stops."""
    if not isinstance(failure, Terminated):
        return context, channels
    ends = context.machine.clock.monotonic() + REPORT_SECS
    context = replace(context, config=channels.platform.config, ends=ends)
    return context, open_channels(context)
