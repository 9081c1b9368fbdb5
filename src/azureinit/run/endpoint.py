"""The wireserver's address, as this machine's DHCP server gives it.

In this order: the leases that DHCP clients wrote down, the routes, the DHCP server itself, the usual address. An
address other than the usual one is used only if a wireserver answers there, or if none answers at either.
"""

from __future__ import annotations

from azureinit.addresses import WIRESERVER, has_host_route, is_host_address, parse_ipv4
from azureinit.errors import LocalError
from azureinit.facts.dhcp_client import platform_link
from azureinit.facts.leases import read_standing
from azureinit.record import Record, replace
from azureinit.sources.route import read_table, wait_for_route
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.leases import Standing
    from azureinit.machine import Machine
    from azureinit.run.state import Context

LATE = 20.0  # seconds without a lease after which the DHCP server is asked directly
ASKING = 8.0
PROBING, PAUSE = 10.0, 1.0
NETWORK_MANAGER = "/run/NetworkManager"  # NetworkManager writes its leases a moment after it has set the routes
A_MOMENT, LOOKS = 0.1, 10


class Endpoint(Record):
    address: str
    how: str


class Card(Record):
    """The link that leads to the platform, or is expected to."""

    link: str
    index: int
    mac: str


def with_host(config: Config, address: str) -> Config:
    url = config.wireserver.health_endpoint.replace(f"//{WIRESERVER}", f"//{address}", 1)
    return replace(config, wireserver=replace(config.wireserver, health_endpoint=url))


def read_card(machine: Machine, table: bytes | None = None) -> Card | None:
    """The link of the best route to the platform; without a route, the first link that could have one."""
    link = platform_link(read_table(machine) or b"" if table is None else table)
    if link is not None:
        index = (machine.read(f"/sys/class/net/{link}/ifindex", limit=32) or b"").strip()
        mac = (machine.read(f"/sys/class/net/{link}/address", limit=64) or b"").decode("ascii", "replace").strip()
        return Card(link=link, index=int(index), mac=mac) if index.isdigit() else None
    from azureinit.facts.diagnosis import cards
    from azureinit.facts.network import read_driven_links

    found = sorted(cards(read_driven_links(machine)), key=lambda one: (not (one.up and one.carrier), one.index))
    return Card(link=found[0].name, index=found[0].index, mac=found[0].mac) if found else None


def read_lease(machine: Machine, card: Card) -> Standing:
    """The lease in force on that link, and what is odd about those that are written down."""

    def held() -> frozenset[str]:
        return read_card_addresses(machine, card)

    return read_standing(machine, link=card.link, index=card.index, mac=card.mac, held=held)


def read_card_addresses(machine: Machine, card: Card) -> frozenset[str]:
    return frozenset(one.address for one in machine.read_addresses() if one.index == card.index and one.family == 4)


class Search:
    """One search for the wireserver. `told`: problems with leases that earlier searches of this run have logged."""

    def __init__(self, context: Context, told: set[str]) -> None:
        self.machine, self.config, self.events = context.machine, context.config, context.events
        self.in_boot = context.booted is not None
        self.told = told

    def find(self, *, until: float) -> Endpoint | None:
        """None: there is no network yet."""
        found = self.candidate(until=until)
        if found is None or found.address == WIRESERVER:
            return found
        return self._confirmed(found, until=min(until, self.machine.clock.monotonic() + PROBING))

    def candidate(self, *, until: float) -> Endpoint | None:
        """What leases, routes and the DHCP server say. No wireserver is asked yet."""
        clock = self.machine.clock
        found, routed = self._look(until=min(until, clock.monotonic() + LATE))
        if found is None and not self._has_lease():
            found = self._ask_server(until=min(until, clock.monotonic() + ASKING))
        if found is None and not routed:
            found, routed = self._look(until=until)
        usual = Endpoint(address=WIRESERVER, how="the usual address, since no DHCP server names another")
        return found or (usual if routed else None)

    def _confirmed(self, found: Endpoint, *, until: float) -> Endpoint:
        """The usual address instead, if a wireserver answers there and none answers at the address from DHCP."""
        from azureinit.sources.goalstate import is_wireserver, wireserver

        clock = self.machine.clock
        while True:
            for address in (found.address, WIRESERVER):
                base = wireserver(with_host(self.config, address))
                if is_wireserver(self.config, base, clock=clock, deadline=until):
                    if address == found.address:
                        return found
                    why = f"no wireserver answers at {found.address} ({found.how})"
                    self.events.tell(WARN, "wireserver", f"{why}: using {WIRESERVER}")
                    return Endpoint(address=WIRESERVER, how=f"the usual address, since {why}")
            if clock.monotonic() + PAUSE >= until:
                return found
            clock.sleep(PAUSE)

    def _look(self, *, until: float) -> tuple[Endpoint | None, bool]:
        """The address by leases and routes, once there are any; and whether there is a route to the usual address."""
        if not self.in_boot:
            return self._from_lease_or_route(), True
        routed = wait_for_route(self.machine, WIRESERVER, until=until, late=self._has_lease)
        return self._from_lease_or_route() or self._from_network_manager(), routed

    def _has_lease(self) -> bool:
        card = read_card(self.machine)
        return card is not None and read_lease(self.machine, card).lease is not None

    def _from_lease_or_route(self) -> Endpoint | None:
        """A lease in force, or a host route to the usual address, which only a DHCP server can have given."""
        table = read_table(self.machine) or b""
        card = read_card(self.machine, table)
        if card is not None:
            found = read_lease(self.machine, card)
            for problem in found.told:
                if problem not in self.told:
                    self.told.add(problem)
                    self.events.tell(WARN, "wireserver", problem)
            if found.lease is not None and is_host_address(found.lease.wireserver):
                how = f"option 245 of the lease of {found.lease.link} ({found.lease.client})"
                return Endpoint(address=found.lease.wireserver, how=how)
        if has_host_route(table, parse_ipv4(WIRESERVER) or 0):
            return Endpoint(address=WIRESERVER, how="a route leads to it alone")
        return None

    def _from_network_manager(self) -> Endpoint | None:
        if not self.machine.is_dir(NETWORK_MANAGER):
            return None
        for _ in range(LOOKS):
            self.machine.clock.sleep(A_MOMENT)
            found = self._from_lease_or_route()
            if found is not None:
                return found
        return None

    def _ask_server(self, *, until: float) -> Endpoint | None:
        """Ask the DHCP server, where no client has a lease of it."""
        from azureinit.sources.dhcp import ask_server

        card = read_card(self.machine)
        link = next((one for one in self.machine.read_links() if card is not None and one.index == card.index), None)
        if card is None or link is None or len(card.mac) != 17:
            return None
        tell = self.events.tell
        if not (link.up and link.carrier):
            why = "has no carrier" if link.up else "is down"
            tell(INFO, "wireserver", f"no DHCP server was asked: {link.name} {why}")
            return None
        try:
            offer, odd = ask_server(self.machine, link=link.name, mac=card.mac, until=until)
        except LocalError as error:
            tell(INFO, "wireserver", f"no DHCP server was asked: {error}")
            return None
        for problem in odd:
            tell(WARN, "wireserver", problem)
        if offer is None:
            tell(INFO, "wireserver", f"no DHCP server answers on {link.name}")
            return None
        if not read_card_addresses(self.machine, card):
            offered = f"a DHCP server offers {offer.address} to {link.name}, and no DHCP client here takes it"
            tell(WARN, "wireserver", offered)
        if not (offer.wireserver and is_host_address(offer.wireserver)):
            return None
        how = f"option 245 of an offer on {link.name}, since no DHCP client here has a lease"
        return Endpoint(address=offer.wireserver, how=how)
