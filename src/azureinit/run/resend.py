"""The service that sends a Ready again that the platform has not accepted."""

from __future__ import annotations

from azureinit.memory.pending import READY, Pending
from azureinit.memory.pool import begun_moment
from azureinit.record import replace
from azureinit.run.enact import best_effort, enact
from azureinit.run.saving import keep_pending
from azureinit.run.stages import find_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context, Identity

START_SECS = 10.0


def start_resending(context: Context) -> None:
    """A boot's run ends here. Where the service cannot be started, the next boot starts it."""
    if context.booted is None:
        return
    from azureinit.plan.units import plan_start

    plan = (plan_start("resend", find_stage("resend").unit, why="the platform has not accepted Ready yet"),)
    until = context.machine.clock.monotonic() + START_SECS  # Ready is sent until the deadline: that may be over
    best_effort(context.events, "resend", lambda: enact(context.machine, plan, events=context.events, deadline=until))


def resend_unanswered(context: Context, identity: Identity) -> None:
    """For a process that died while it reported Ready: whether the platform has accepted it is not known. A second
    Ready is harmless, and a failure would contradict the first one."""
    keep_pending(context, identity, Pending(verdict=READY))
    start_resending(replace(context, booted=begun_moment(context.machine)))
