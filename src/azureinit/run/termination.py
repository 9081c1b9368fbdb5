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


def raise_on_sigterm(context: Context) -> None:
    """Only for a service: at a terminal SIGTERM ends the program as it ends any other."""

    def stop() -> NoReturn:
        ignore_sigterm()
        raise Stopped

    if is_service(context.machine):
        handle_sigterm(stop)


def is_silent(context: Context, failure: AzureInitError | None) -> bool:
    """Whether nothing is reported. From here on another SIGTERM has no verdict to prevent."""
    if not isinstance(failure, Terminated):
        if is_service(context.machine):
            default_sigterm()
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
