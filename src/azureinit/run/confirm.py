"""The media alone were applied: logins are released, and Ready waits for IMDS to agree."""

from __future__ import annotations

from azureinit.addresses import host_of
from azureinit.memory.pending import READY, Pending
from azureinit.record import replace
from azureinit.run.early import Early
from azureinit.run.gather import gather
from azureinit.run.recall import recall
from azureinit.run.saving import keep_pending
from azureinit.run.settle import settle
from azureinit.run.state import Knowing, known_of
from azureinit.sources.route import has_route
from azureinit.telemetry.events import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.logins import Logins
    from azureinit.run.platform import Platform
    from azureinit.run.state import Context, Settled
    from azureinit.run.waiting import Waiting

LEAST_TIME = 20.0  # to ask and do everything again


def confirm(context: Context, settled: Settled, *, platform: Platform, waiting: Waiting, logins: Logins) -> Settled:
    """Once there is a network, ask and do everything again. Until then Ready is pending, also for later boots."""
    asked = settled.asked
    if context.booted is None:
        return settled
    with Knowing(known_of(asked)):
        logins.release("provisioned from the media alone")
        keep_pending(context, asked.identity, Pending(verdict=READY, unconfirmed=True))
        until = context.work_deadline
        waiting.begin("the network: the media alone were applied, and IMDS has to agree before Ready is sent")
        try:
            platform.wait(until=until)
        finally:
            waiting.end()
        left = until - context.machine.clock.monotonic()
        if left < LEAST_TIME or not has_route(context.machine, host_of(context.config.imds.endpoint)):
            return settled
        context.events.tell(INFO, "network", "there is a network now: asking IMDS whether it agrees with the media")
        memory = replace(recall(context, asked.identity), unconfirmed=asked.unconfirmed)
        again = gather(context, asked.identity, memory, Early(), platform=platform, waiting=waiting)
    return settle(context, again, logins=logins)
