"""The links of a machine in a pool: which one leads to the platform, what the kernel announces, and a new lease."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.facts.diagnosis import cards
from azureinit.facts.network import read_driven_links
from azureinit.machine.link_events import GONE, LOST, ROUTE
from azureinit.plan.pool import Nic, Seen, lost, routed, seen
from azureinit.run.enact import best_effort, enact, tell_cautions
from azureinit.run.endpoint import read_card
from azureinit.telemetry.events import INFO, Events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine.link_events import Change, LinkWatch
    from azureinit.machine.netlink import Link
    from azureinit.plan.pool import Pool
    from azureinit.run.state import Context

MANAGER_SECS = 60.0
ANEW_SECS = 5.0
MOST_TOLD = 32
MOST_RECONFIGURED = 4  # of which every one is told; later the 8th, 16th, 32nd ...
INSIDE = ("", "veth", "macvlan", "ipvlan")  # kinds of cards: a real one, and a container's own


class PoolLinks:
    def __init__(self, context: Context) -> None:
        self.context, self.machine, self.events = context, context.machine, context.events
        self.watch: LinkWatch | None = None
        self.nic: Nic | None = None
        self.told = 0
        self.reconfigured = 0
        self._quiet = Events(clock=self.machine.clock)
        self._early: list[Change] = []
        if not self.machine.rooted:
            best_effort(self.events, "links", self._open, then="the customer's data are asked for every second")

    def _listen(self) -> None:
        self.watch = self.machine.watch_links()

    def _open(self) -> None:
        self._listen()
        card = read_card(self.machine)
        link = next((one for one in self.machine.read_links() if card is not None and one.name == card.link), None)
        if link is not None:
            self.nic = Nic(index=link.index, mac=link.mac, kind=link.kind)

    def close(self) -> None:
        if self.watch is not None:
            self.watch.__exit__()
            self.watch = None

    def moved(self) -> bool:
        """Whether the link has been removed by now. What was announced is kept for `wait`."""
        if self.watch is None:
            return False
        self._early += self.watch.wait(0.0)
        nic = self.nic
        return any(
            change.kind == GONE and change.link is not None and nic is not None and change.link.index == nic.index
            for change in self._early
        )

    def wait(self, pool: Pool, seconds: float) -> Pool:
        """The pool after the next announcements, or after this time."""
        clock = self.machine.clock
        if self.watch is None:
            clock.sleep(seconds)
            if not self.machine.rooted:
                best_effort(self._quiet, "links", self._listen)
            return pool
        changes, self._early = tuple(self._early), []
        try:
            for change in changes or clock.wait(self.watch.wait, seconds):
                pool = self._after(pool, change, clock.monotonic())
        except AzureInitError as error:  # the wait goes on: the data are asked for in any case
            self.close()
            self._tell(f"{error}; listening anew")
            clock.sleep(min(seconds, ANEW_SECS))
            best_effort(self._quiet, "links", self._listen)
        return pool

    def _after(self, pool: Pool, change: Change, now: float) -> Pool:
        if change.kind == ROUTE:
            return routed(pool)
        if change.kind == LOST:
            links = read_driven_links(self.machine)
            known = cards(links)
            return lost(pool, tuple(_seen(link, card=link in known) for link in links), now=now)
        if change.link is None:
            return pool
        gone = change.kind == GONE
        noticed = _seen(change.link, card=not gone and self._is_card(change.link, pool.nic), gone=gone)
        after = seen(pool, noticed, now=now)
        if (after.phase, after.since, after.gone, after.down) != (pool.phase, pool.since, pool.gone, pool.down):
            link = change.link
            what = "was removed" if after.gone else "went down" if after.down else "is there: asking for the data"
            self._tell(f"{link.name} (index {link.index}, {link.mac or 'no MAC'}) {what}")
        return after

    def _is_card(self, link: Link, nic: Nic | None) -> bool:
        """Of the kind of the watched link, and not the virtual function of another: by driver and MAC."""
        if link.loopback or link.master or link.kind not in ((nic.kind,) if nic is not None else INSIDE):
            return False
        links = read_driven_links(self.machine)
        driven = next((one for one in links if one.index == link.index), None)
        if driven is None:  # it has gone since
            return nic is not None and link.index == nic.index
        return any(one.index == link.index for one in cards(links))

    def _tell(self, text: str) -> None:
        """A link can flap for days."""
        self.told += 1
        if self.told <= MOST_TOLD:
            self.events.tell(INFO, "link", text)

    def reconfigure(self, nic: Nic | None) -> None:
        """A manager that has not noticed the move keeps the old lease, which does not expire."""
        if self.machine.rooted or nic is None:
            return
        self.reconfigured += 1
        number = self.reconfigured
        events = self.events if number <= MOST_RECONFIGURED or is_power_of_two(number) else self._quiet
        best_effort(events, "network", lambda: self._reconfigure(nic, events))

    def _reconfigure(self, nic: Nic, events: Events) -> None:
        from azureinit.facts.dhcp_client import read_manager
        from azureinit.plan.reconnect import plan_reconnect

        name = next((link.name for link in self.machine.read_links() if link.index == nic.index), None)
        if name is None:
            return
        plan = plan_reconnect(read_manager(self.machine, link=name, index=nic.index))
        tell_cautions(plan, events)
        until = self.machine.clock.monotonic() + MANAGER_SECS
        enact(self.machine, plan, events=events, deadline=until)


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _seen(link: Link, *, card: bool, gone: bool = False) -> Seen:
    return Seen(index=link.index, mac=link.mac, card=card, state=link.state, gone=gone)
