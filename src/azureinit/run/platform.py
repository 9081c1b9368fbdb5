"""How a run reaches the platform: the wireserver's address, the route to it, waiting for both, and why neither came."""

from __future__ import annotations

from azureinit.addresses import WIRESERVER, has_route_to, host_of, parse_ipv4
from azureinit.errors import HttpFailed
from azureinit.machine.threads import allocate_lock
from azureinit.run.enact import best_effort, enact
from azureinit.sources.route import is_to_be_found, read_table, wait_for_route
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.errors import AzureInitError
    from azureinit.run.state import Context
    from azureinit.sources.goalstate import GoalState


class Platform:
    """`config` names the wireserver's real address once that is found."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.machine, self.events = context.machine, context.events
        self.config: Config = context.config
        self.located = False
        self._locating = allocate_lock()  # one thread searches, the others wait for its result
        self._routes: set[str] = set()  # hosts to which a route was added, or could not be
        self._told: set[str] = set()  # problems with leases: each is logged once
        self._diagnosed = False

    def wait(self, *, until: float) -> None:
        """In a boot the network may still be coming up: a request before that only adds delays."""
        self.locate(until=until)
        if self.context.booted is not None:
            host = host_of(self.config.wireserver.health_endpoint)
            wait_for_route(self.machine, host, until=until, late=lambda: self.add_route(host))

    def locate(self, *, until: float) -> None:
        """Where there is no network yet, the next request searches again."""
        if self.located or not is_to_be_found(self.machine, self.config):
            return
        with self._locating:
            if not self.located:
                best_effort(self.events, "wireserver", lambda: self._search(until))

    def _search(self, until: float) -> None:
        from azureinit.run.endpoint import Search, with_host

        found = Search(self.context, self._told).find(until=until)
        if found is None:
            return
        level = DEBUG if found.address == WIRESERVER else INFO
        text = f"the wireserver is at {found.address}: {found.how}"
        self.events.tell(level, "wireserver", text, address=found.address)
        self.config, self.located = with_host(self.config, found.address), True

    def goal_state(self, deadline: float) -> GoalState:
        from azureinit.sources.goalstate import read_goal_state, wireserver

        return read_goal_state(
            self.config,
            endpoint=wireserver(self.config),
            clock=self.machine.clock,
            deadline=deadline,
            observe=self.events.observe,
        )

    def add_route(self, host: str) -> bool:
        """Add the route to a host of the platform that a lease names and its DHCP client did not set.

        Tried once for each host, and never over an existing route. Returns False, so that the caller keeps waiting:
        the kernel announces the new one.
        """
        if host in self._routes or self.machine.rooted or parse_ipv4(host) is None:
            return False
        if not best_effort(self.events, f"route to {host}", lambda: self._add_route(host)):
            self._routes.add(host)
        return False

    def _add_route(self, host: str) -> None:
        from azureinit.plan.actions import work_left
        from azureinit.plan.route import plan_route
        from azureinit.run.endpoint import read_card, read_card_addresses, read_lease

        machine = self.machine
        card = read_card(machine)
        lease = None if card is None else read_lease(machine, card).lease
        if card is None or lease is None or lease.address not in read_card_addresses(machine, card):
            return
        plan = plan_route(host=host, lease=lease, leads=has_route_to(read_table(machine) or b"", parse_ipv4(host) or 0))
        if work_left(plan):
            self._routes.add(host)
            enact(machine, plan, events=self.events, deadline=self.context.deadline)

    def add_routes_again(self) -> None:
        """A DHCP client that renews its lease removes routes that it did not set."""
        hosts = sorted(self._routes)
        self._routes.clear()
        for host in hosts:
            self.add_route(host)

    def diagnose(self, error: AzureInitError) -> None:
        """Log the state of the network, once a run, where a host gave no answer at all."""
        if self._diagnosed or (isinstance(error.__cause__, HttpFailed) and error.__cause__.status):
            return
        self._diagnosed = True
        best_effort(self.events, "network", self._describe_network)

    def _describe_network(self) -> None:
        from azureinit.facts.diagnosis import HOSTS
        from azureinit.facts.network import network_in_brief, read_network

        hosts = (HOSTS[0], host_of(self.config.wireserver.health_endpoint)) if self.located else HOSTS
        self.events.tell(WARN, "network", network_in_brief(read_network(self.machine), hosts=hosts))
