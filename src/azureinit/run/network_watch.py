"""The addresses stage: NICs and addresses that change while the machine runs. Off unless network.watch is set.

IMDS is asked once in network.watch_secs, and soon after a NIC was attached or removed. All that has to survive a
restart is in the record of memory/network.py and in the network files; in memory there are only IMDS's last answers.
"""

from __future__ import annotations

from azureinit.addresses import host_of, is_loopback, parse_ipv4
from azureinit.errors import AzureInitError, LocalError
from azureinit.facts.diagnosis import way_to
from azureinit.facts.nics import read_nic_links, read_nics
from azureinit.http import jitter
from azureinit.machine.signals import handle_sigterm
from azureinit.plan.network_answers import Due, Seen, due, is_same, nics_in_brief
from azureinit.plan.network_layout import primary_of
from azureinit.record import replace
from azureinit.run.enact import each_by_itself, enact
from azureinit.run.network import plan_answer
from azureinit.run.network_jobs import RECORD
from azureinit.run.state import Stopped
from azureinit.sources.network_metadata import query_network
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.nics import Nics
    from azureinit.machine import Machine
    from azureinit.machine.link_events import LinkWatch
    from azureinit.memory.instance import Instance
    from azureinit.plan.actions import Plan, Step
    from azureinit.run.state import Context, Identity
    from azureinit.sources.network_metadata import NetworkMetadata

NAME = "network watch"
ANSWER_SECS = 30.0  # for one request
STEP_SECS = 120.0
SHORTEST = 1.0  # seconds between two requests, whatever the configuration says
LONGEST = 900.0  # between two requests while IMDS fails
MOST_RETRY_AFTER = 3600.0
CONFIRM = 5.0  # between the first two requests after a start, and between two after a NIC has changed
DEBOUNCE, LONGEST_DEBOUNCE = 1.0, 30.0
MOST_TOLD = 64  # different warnings in the life of one process


def watch(context: Context, identity: Identity) -> int:
    """Returns where there is nothing to watch, and after SIGTERM."""
    instance = identity.instance
    reason = _why_not(context, instance)
    if reason or instance is None:
        context.events.tell(INFO, NAME, f"changes of the network are not followed: {reason}")
        return 0
    from azureinit.machine.link_events import LinkWatch

    stop = Stop(context.machine)
    handle_sigterm(stop)
    try:
        with LinkWatch() as kernel:  # listens before the first look
            watcher = Watcher(context, instance, stop)
            while True:
                watcher.wait(kernel, watcher.look())
    except Stopped:
        return 0


def _why_not(context: Context, instance: Instance | None) -> str:
    settings = context.config.network
    if not settings.watch or not settings.configure:
        return f"network.{'configure' if settings.watch else 'watch'} is false"
    if context.machine.rooted:
        return "this tree is not the running system"
    return "" if instance is not None else "the id of this VM is not known, and what is set could not be recorded"


class Stop:
    """SIGTERM ends the process at once, or after the steps that are being carried out."""

    def __init__(self, machine: Machine) -> None:
        self.clock = machine.clock
        self.asked = self.busy = False

    def __call__(self) -> None:
        self.asked = True
        self.check()

    def check(self) -> None:
        if self.asked and not self.busy:
            raise Stopped(self.clock.monotonic())

    def hold(self, work: Callable[[], object]) -> None:
        self.busy = True
        try:
            work()
        finally:
            self.busy = False
        self.check()


class Pace:
    """When IMDS may be asked. Times are on the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.interval = max(seconds, SHORTEST)
        self.not_before = self.last = 0.0
        self.failures = 0
        self.hurried = 0  # requests in a row that did not wait for the interval

    def answered(self, now: float) -> float:
        """Returns when the next request is due."""
        self.failures, self.last, self.not_before = 0, now, 0.0
        return now + self.interval * jitter()

    def failed(self, now: float, retry_after: float) -> float:
        self.failures += 1
        pause = min(_doubled(self.interval, self.failures), max(LONGEST, self.interval)) * jitter()
        self.last, self.not_before = now, now + max(pause, min(retry_after, MOST_RETRY_AFTER))
        return self.not_before

    def sooner(self, now: float) -> float:
        """The earliest moment for a request that does not wait for the interval. Each of them in a row doubles the
        pause, so that a link that comes and goes costs no more requests than the interval does."""
        pause = min(_doubled(CONFIRM, self.hurried), self.interval)
        self.hurried += 1
        return max(now, self.last + pause, self.not_before)

    def calm(self) -> None:
        self.hurried = 0


class Watcher:
    def __init__(self, context: Context, instance: Instance, stop: Stop) -> None:
        self.context, self.machine, self.config, self.instance = context, context.machine, context.config, instance
        self.stop = stop
        self.pace = Pace(context.config.network.watch_secs)
        self.seen = Seen()
        self.primary = ""  # the MAC address
        self.links: frozenset[object] = frozenset()
        self.brief: tuple[object, ...] | None = None  # the NICs as the last plan left them; None: that plan is not done
        self.tries = 0  # of the plan that is not done
        self.told: set[str] = set()
        self.debounce = DEBOUNCE

    # ---- asking

    def look(self) -> float:
        """Ask IMDS, and carry out what follows. Returns when the next request is due."""
        clock, events = self.machine.clock, self.context.events
        try:
            self.links = self._links()
            nics = read_nics(self.machine)
            self._check_way(nics)
            answer = query_network(self.config, clock=clock, deadline=clock.monotonic() + ANSWER_SECS, attempts=1)
        except AzureInitError as error:
            at = self.pace.failed(clock.monotonic(), getattr(error.__cause__, "retry_after", 0.0))
            if _is_power_of_two(self.pace.failures):
                events.tell(WARN, NAME, f"{error}; asked again in {at - clock.monotonic():.0f} s")
                events.flush()
            return at
        if self.pace.failures:
            events.tell(INFO, NAME, f"IMDS answers again; requests that failed: {self.pace.failures}")
        at, waits = self.pace.answered(clock.monotonic()), self.answered(answer, nics)
        events.flush()
        return self.pace.sooner(clock.monotonic()) if waits else at

    def _check_way(self, nics: Nics) -> None:
        """IMDS answers only the primary NIC."""
        host = host_of(self.config.imds.endpoint)
        address, primary = parse_ipv4(host), self.primary or primary_of(nics).primary
        if address is None or is_loopback(address):
            return
        way = way_to(host, self.machine.read_routes())
        if way is None:
            raise LocalError(f"there is no route to IMDS ({host})")
        taken = next((nic.link for nic in nics.nics if nic.link.index == way.index), None)
        if taken is not None and primary and taken.mac != primary:
            raise LocalError(f"the route to IMDS leaves by {taken.name}, which is not the primary NIC: not asked")

    def answered(self, answer: NetworkMetadata, nics: Nics) -> bool:
        """True: the next request does not wait for the interval."""
        self._tell(*answer.warnings)
        found = due(self.seen, answer)
        self.seen = replace(self.seen, last=answer)
        if found is None:
            return False
        settled = self.seen.settled is not None and is_same(self.seen.settled, found.answer)
        return not (settled and self.brief == nics_in_brief(nics)) and self._follow(found, nics)

    # ---- following

    def _follow(self, found: Due, nics: Nics) -> bool:
        """Plan, and carry it out. True: a second answer is awaited."""
        from azureinit.plan.actions import Caution, work_left

        if not self._is_primary_known(nics):
            return False
        self.brief = None
        whole = replace(found, confirmed=True)
        try:
            if found.tentative and work_left(self._plan(whole)):
                return True
            plan = self._plan(found)
            self._tell(*(item.why for item in plan if isinstance(item, Caution)))
            if work_left(plan) and not self._enact(found):
                return False
            if not work_left(self._plan(whole)):  # else something waits for an answer without warnings
                self.tries, self.seen = 0, replace(self.seen, settled=found.answer)
                self.brief = nics_in_brief(read_nics(self.machine))
        except AzureInitError as error:
            self._tell(str(error))
        return False

    def _is_primary_known(self, nics: Nics) -> bool:
        """While the primary NIC has no lease, another one could pass for it. It stays the same as long as a VM runs."""
        choice = primary_of(nics)
        self.primary = self.primary or choice.primary
        if choice.primary != self.primary:
            self._tell(f"the primary NIC was {self.primary}, and is not certain now: nothing is changed")
        return choice.primary == self.primary

    def _plan(self, found: Due) -> Plan:
        return plan_answer(self.machine, self.config, self.instance, found.answer, confirmed=found.confirmed)

    def _enact(self, found: Due) -> bool:
        """False: it failed, or another azure-init is working. Later looks try again, less and less often."""
        self.tries += 1
        if not _is_power_of_two(self.tries):
            return False
        unlock = self.machine.try_lock(f"{self.instance.data_dir.rstrip('/')}/lock")
        if unlock is None:
            self.tries = 0
            return False
        outcome: list[bool] = []
        try:
            plan = self._plan(found)  # again: the process that held the lock may have changed something
            self.stop.hold(lambda: outcome.append(self._carry_out(plan)))
        finally:
            unlock()
        return outcome == [True]

    def _carry_out(self, plan: Plan) -> bool:
        from azureinit.plan.actions import work_left

        return each_by_itself(work_left(plan), self._do, record=RECORD)

    def _do(self, step: Step) -> bool:
        try:
            until = self.machine.clock.monotonic() + STEP_SECS
            enact(self.machine, (step,), events=self.context.events, deadline=until)
        except AzureInitError:  # the executor has logged it
            return False
        return True

    # ---- waiting

    def wait(self, kernel: LinkWatch, at: float) -> None:
        """Until a request is due: at that time, or sooner if a NIC was attached or removed."""
        clock, quiet, calm = self.machine.clock, True, True
        while (left := at - clock.monotonic()) > 0:
            if not clock.wait(kernel.wait, left):
                continue
            quiet = False
            clock.sleep(min(self.debounce, max(at - clock.monotonic(), 0.0)))
            clock.wait(kernel.wait, 0.0)  # what came in the meantime
            self.debounce = min(2 * self.debounce, LONGEST_DEBOUNCE)
            if self._have_links_changed():
                calm = False
                at = min(at, self.pace.sooner(clock.monotonic()))
            else:
                self._follow_again()
        self.debounce = DEBOUNCE if quiet else self.debounce
        if calm:
            self.pace.calm()

    def _follow_again(self) -> None:
        """A lease has come, or a manager has taken a link: the same answer may lead to more now. IMDS is not asked."""
        settled = self.seen.settled
        if settled is None:
            return
        try:
            nics = read_nics(self.machine)
        except AzureInitError as error:
            self._tell(str(error))
            return
        if self.brief != nics_in_brief(nics):
            self._follow(Due(answer=settled), nics)
            self.context.events.flush()

    def _have_links_changed(self) -> bool:
        try:
            before, self.links = self.links, self._links()
        except AzureInitError as error:  # as before, until the kernel can be asked
            self._tell(str(error))
            return False
        return self.links != before

    def _links(self) -> frozenset[object]:
        """Without virtual functions, bridges and the links of containers."""
        return frozenset((link.index, link.mac, link.driver) for link in read_nic_links(self.machine))

    def _tell(self, *texts: str) -> None:
        """Each text once in the life of the process."""
        for text in texts:
            if text not in self.told and len(self.told) < MOST_TOLD:
                self.told.add(text)
                self.context.events.tell(WARN, NAME, text)


def _doubled(seconds: float, times: int) -> float:
    return seconds * float(1 << min(times, 16))


def _is_power_of_two(number: int) -> bool:
    return number & number - 1 == 0
