"""The wait of a VM in a pool for its customer's data: the requests, and what is told of them."""

from __future__ import annotations

from azureinit.addresses import host_of
from azureinit.machine.service import notify
from azureinit.plan.pool import MOVED, PAUSE_SECS, POLL, RECONFIGURE, answered, begin, blocked, next_of, reconfigured
from azureinit.run.pool_links import is_power_of_two
from azureinit.sources.pps import SAVABLE
from azureinit.sources.reprovision import DATA, REFUSED, SILENT, UNUSABLE, ask_once
from azureinit.sources.route import has_route
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.pool import Marker
    from azureinit.plan.pool import Pool
    from azureinit.record import Secret
    from azureinit.run.pool_links import PoolLinks
    from azureinit.run.state import Context
    from azureinit.sources.reprovision import Answer
    from azureinit.telemetry.events import Span

KEEP_SECS = 86400.0  # asked of the service manager again and again; it survives a clock that jumps at a resume
LONGEST_WAIT = 60.0
MOST_STAGES, MOST_WORDS = 32, 24  # lines about stages and different answers, before only powers of two are logged
# Events by the names that cloud-init gives them.
DETACH, ATTACH, SWITCH = "wait-for-nic-detach", "wait-for-nic-attach", "wait-for-media-disconnect-connect"
LEASE, DATA_FROM_IMDS, READ_OVF = (
    "obtain-dhcp-lease",
    "get-reprovision-data-from-imds",
    "reprovisioning-read-azure-ovf",
)


def keep_alive(context: Context, status: str) -> None:
    notify(context.machine, f"EXTEND_TIMEOUT_USEC={round(KEEP_SECS * 1e6)}\nSTATUS={status}")


class PoolWait:
    """The wait for the customer's data, and what is told of it."""

    def __init__(self, context: Context, links: PoolLinks, marker: Marker) -> None:
        self.context, self.machine, self.events = context, context.machine, context.events
        self.links, self.marker = links, marker
        self.begun = self.machine.clock.monotonic()
        self.span: Span | None = None
        self.stages = 0
        self.told: set[str] = set()
        self.last = "not asked yet"

    def for_data(self, *, recovered: bool = False, pause: float = 0.0) -> Secret:
        """Returns the customer's ovf-env.xml."""
        clock, config = self.machine.clock, self.context.config
        host = host_of(config.imds.endpoint)
        slow = config.boot.pool_poll_secs if self.links.watch is not None else PAUSE_SECS  # nothing can announce a move
        pool = begin(self.links.nic, now=clock.monotonic(), recovered=recovered, pause=pause, slow_secs=slow)
        self.events.tell(INFO, "waiting", "waiting in a pool for a customer: logins are held until then")
        self.events.flush()
        while True:
            self._show(pool)
            now = clock.monotonic()
            do = next_of(pool, now=now)
            if do.do == POLL and not has_route(self.machine, host):
                pool = blocked(pool, now=now)
            elif do.do == POLL:
                answer = ask_once(config, clock=clock)
                self._tell(answer, pool)
                if answer.kind == DATA and answer.medium is not None and answer.medium.document is not None:
                    self._end_stage(pool.polls + 1)
                    self.links.close()
                    return answer.medium.document
                pool = answered(pool, heard=answer.kind != SILENT, pause=answer.pause, now=clock.monotonic())
            elif do.do == RECONFIGURE:
                self.links.reconfigure(pool.nic)
                pool = reconfigured(pool, now=clock.monotonic())
            else:
                pool = self.links.wait(pool, min(do.until - now, LONGEST_WAIT))

    def _show(self, pool: Pool) -> None:
        """The stage as an event with a beginning and an end; bounded, since links can flap."""
        stage = _stage(self.marker.type, pool)
        if self.span is None or self.span.name != stage:
            self.stages += 1
            if self.stages <= MOST_STAGES or is_power_of_two(self.stages):
                self._end_stage(pool.polls)
                self.span = self.events.step(stage)
                self.span.__enter__()
                self.events.flush()
        waited = self.machine.clock.monotonic() - self.begun
        status = f"in a pool for {_duration(waited)}, {pool.polls} requests for a customer's data; {self.last}"
        keep_alive(self.context, status)

    def _end_stage(self, polls: int) -> None:
        if self.span is not None:
            self.span.text = f"{self.span.name}: ended after {polls} request{'' if polls == 1 else 's'}"
            self.span.__exit__(None, None, None)
            self.span = None

    def _tell(self, answer: Answer, pool: Pool) -> None:
        """The 1st, 2nd, 4th, 8th ... request, and every answer that did not occur before."""
        self.last, number = answer.told, pool.polls + 1
        new = answer.told not in self.told and len(self.told) < MOST_WORDS
        if not new and not is_power_of_two(number):
            return
        self.told.add(answer.told)
        waited = _duration(self.machine.clock.monotonic() - self.begun)
        level = WARN if new and answer.kind in (UNUSABLE, REFUSED) else INFO
        text = f"in a pool for {waited}: request {number} to IMDS got {answer.told}"
        self.events.tell(level, "waiting", text)
        self.events.flush()


def _stage(kind: str, pool: Pool) -> str:
    if pool.phase == MOVED:
        return DATA_FROM_IMDS if pool.heard else LEASE
    if kind == SAVABLE:
        return ATTACH if pool.gone else DETACH
    return SWITCH


def _duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86400)
    return f"{days} d {rest // 3600} h" if days else f"{rest // 3600} h {rest % 3600 // 60} min {rest % 60} s"
