"""The service that sends a Ready again that the platform has not accepted."""

from __future__ import annotations

from azureinit.run.enact import best_effort, enact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context

RESEND = "azure-init-resend.service"


def start_resending(context: Context) -> None:
    """A boot's run ends here. Where the service cannot be started, the next boot starts it."""
    if context.booted is None:
        return
    from azureinit.plan.units import plan_start

    plan = (plan_start("resend", RESEND, why="the platform has not accepted Ready yet"),)
    best_effort(
        context.events,
        "resend",
        lambda: enact(context.machine, plan, events=context.events, deadline=context.deadline),
    )
