"""Where the wireserver is, and the way to it, as this machine's DHCP server says: looked up once a run.

First what its DHCP client wrote down, then what its routes tell, then the server itself; else the usual address. An
address other than the usual one is used only if it answers, or if neither does.
"""

from __future__ import annotations

from azureinit.addresses import WIRESERVER, has_host_route, has_route_to, is_host_address, parse_ipv4
from azureinit.errors import LocalError
from azureinit.facts.dhcp_client import platform_link
from azureinit.facts.leases import read_standing
from azureinit.record import Record, replace
from azureinit.sources.route import is_to_be_found, read_table, wait_for_route
from azureinit.telemetry.events import DEBUG, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.leases import Standing
    from azureinit.machine import Machine
    from azureinit.run.engine import Walk

LATE = 20.0  # seconds; who has no lease by then may have nobody to take one
ASKING = 8.0
PROBING, PAUSE = 10.0, 1.0
NETWORK_MANAGER = "/run/NetworkManager"  # which writes its leases down a moment after it has set the routes
A_MOMENT, LOOKS = 0.1, 10


class Endpoint(Record):
    address: str
    how: str


class Card(Record):
    """The link that leads to the platform, or is to."""

    link: str
    index: int
    mac: str


def locate(walk: Walk, *, until: float) -> None:
    """From here on the configuration names it; where nothing is known yet, the next report looks again."""
    with walk.locating:
        if walk.located or not is_to_be_found(walk.machine, walk.config):
            return
        try:
            found = find_endpoint(walk, until=until)
        except Exception as error:  # noqa: BLE001 - the usual address is right nearly everywhere
            walk.events.tell(WARN, "wireserver", f"not looked for: {type(error).__name__}: {error}")
            return
        if found is None:
            return
        if found.address != WIRESERVER:
            found = _confirmed(walk, found, until=min(until, walk.machine.clock.monotonic() + PROBING))
        level = DEBUG if found.address == WIRESERVER else INFO
        walk.events.tell(
            level, "wireserver", f"the wireserver is at {found.address}: {found.how}", address=found.address
        )
        walk.config = with_host(walk.config, found.address)
        walk.located = True


def with_host(config: Config, address: str) -> Config:
    url = config.wireserver.health_endpoint.replace(f"//{WIRESERVER}", f"//{address}", 1)
    return replace(config, wireserver=replace(config.wireserver, health_endpoint=url))


def _confirmed(walk: Walk, found: Endpoint, *, until: float) -> Endpoint:
    """The usual address instead, where a wireserver answers there and none does at the address that DHCP names."""
    from azureinit.sources.goalstate import is_wireserver, wireserver

    clock = walk.machine.clock
    while True:
        for address in (found.address, WIRESERVER):
            base = wireserver(with_host(walk.config, address))
            if is_wireserver(walk.config, base, clock=clock, deadline=until):
                if address == found.address:
                    return found
                why = f"no wireserver answers at {found.address} ({found.how})"
                walk.events.tell(WARN, "wireserver", f"{why}: using {WIRESERVER}")
                return Endpoint(address=WIRESERVER, how=f"the usual address, since {why}")
        if clock.monotonic() + PAUSE >= until:
            return found
        clock.sleep(PAUSE)


def find_endpoint(walk: Walk, *, until: float) -> Endpoint | None:
    """None: there is no network yet to be found in."""
    clock = walk.machine.clock
    found, way = _look(walk, until=min(until, clock.monotonic() + LATE))
    if found is None and _lease(walk.machine) is None:
        found = asked(walk, until=min(until, clock.monotonic() + ASKING))
    if found is None and not way:
        found, way = _look(walk, until=until)
    usual = Endpoint(address=WIRESERVER, how="the usual address, since no DHCP server names another")
    return found or (usual if way else None)


def _look(walk: Walk, *, until: float) -> tuple[Endpoint | None, bool]:
    """What this machine was told, once it can have been; and whether there is a way to the usual address."""
    if walk.context.booted is None:
        return told(walk), True
    way = wait_for_route(walk.machine, WIRESERVER, until=until, late=lambda: _lease(walk.machine) is not None)
    return told(walk) or _told_in_a_moment(walk), way


def _lease(machine: Machine) -> object:
    card = read_card(machine)
    return None if card is None else standing(machine, card).lease


def told(walk: Walk) -> Endpoint | None:
    """By a lease in force, or by a route to the usual address alone, which a DHCP server must have given."""
    machine = walk.machine
    table = read_table(machine) or b""
    card = read_card(machine, table)
    if card is not None:
        found = standing(machine, card)
        for problem in found.told:
            if problem not in walk.warned:
                walk.warned.add(problem)
                walk.events.tell(WARN, "wireserver", problem)
        if found.lease is not None and is_host_address(found.lease.wireserver):
            how = f"option 245 of the lease of {found.lease.link} ({found.lease.client})"
            return Endpoint(address=found.lease.wireserver, how=how)
    if has_host_route(table, parse_ipv4(WIRESERVER) or 0):
        return Endpoint(address=WIRESERVER, how="a route leads to it alone")
    return None


def _told_in_a_moment(walk: Walk) -> Endpoint | None:
    if not walk.machine.is_dir(NETWORK_MANAGER):
        return None
    for _ in range(LOOKS):
        walk.machine.clock.sleep(A_MOMENT)
        found = told(walk)
        if found is not None:
            return found
    return None


def standing(machine: Machine, card: Card) -> Standing:
    def held() -> frozenset[str]:
        return _addresses(machine, card)

    return read_standing(machine, link=card.link, index=card.index, mac=card.mac, held=held)


def _addresses(machine: Machine, card: Card) -> frozenset[str]:
    return frozenset(one.address for one in machine.read_addresses() if one.index == card.index and one.family == 4)


def read_card(machine: Machine, table: bytes | None = None) -> Card | None:
    """That of the best route to the platform; where there is none, the first one that could have it."""
    link = platform_link(read_table(machine) or b"" if table is None else table)
    if link is not None:
        index = (machine.read(f"/sys/class/net/{link}/ifindex", limit=32) or b"").strip()
        mac = (machine.read(f"/sys/class/net/{link}/address", limit=64) or b"").decode("ascii", "replace").strip()
        return Card(link=link, index=int(index), mac=mac) if index.isdigit() else None
    from azureinit.facts.diagnosis import cards
    from azureinit.facts.network import read_driven_links

    found = sorted(cards(read_driven_links(machine)), key=lambda one: (not (one.up and one.carrier), one.index))
    return Card(link=found[0].name, index=found[0].index, mac=found[0].mac) if found else None


def asked(walk: Walk, *, until: float) -> Endpoint | None:
    """Of the DHCP server, where nobody has a lease of it."""
    from azureinit.sources.dhcp import ask_server

    card = read_card(walk.machine)
    link = next((one for one in walk.machine.read_links() if card is not None and one.index == card.index), None)
    if card is None or link is None or len(card.mac) != 17:
        return None
    if not (link.up and link.carrier):
        why = "has no carrier" if link.up else "is down"
        walk.events.tell(INFO, "wireserver", f"no DHCP server was asked: {link.name} {why}")
        return None
    try:
        offer, odd = ask_server(walk.machine, link=link.name, mac=card.mac, until=until)
    except LocalError as error:
        walk.events.tell(INFO, "wireserver", f"no DHCP server was asked: {error}")
        return None
    for problem in odd:
        walk.events.tell(WARN, "wireserver", problem)
    if offer is None:
        walk.events.tell(INFO, "wireserver", f"no DHCP server answers on {link.name}")
        return None
    if not _addresses(walk.machine, card):
        told = f"a DHCP server offers {offer.address} to {link.name}, and nobody on this machine takes it"
        walk.events.tell(WARN, "wireserver", told)
    if not (offer.wireserver and is_host_address(offer.wireserver)):
        return None
    how = f"option 245 of an offer on {link.name}, for nobody here has a lease"
    return Endpoint(address=offer.wireserver, how=how)


def mend(walk: Walk, host: str) -> bool:
    """A route to a host of the platform's, where a lease in force tells the way and its client did not set it.

    Tried once for each host, and never over a route that is there. False: the kernel announces it, if it came to be.
    """
    if host in walk.mended or walk.machine.rooted or parse_ipv4(host) is None:
        return False
    try:
        _mend(walk, host)
    except Exception as error:  # noqa: BLE001 - there was no way before either
        walk.mended.add(host)
        walk.events.tell(WARN, f"route to {host}", f"{type(error).__name__}: {error}")
    return False


def _mend(walk: Walk, host: str) -> None:
    from azureinit.apply.executor import apply_step
    from azureinit.memory.journal import MemoryJournal
    from azureinit.plan.actions import Step
    from azureinit.plan.route import plan_route

    machine = walk.machine
    card = read_card(machine)
    lease = None if card is None else standing(machine, card).lease
    if card is None or lease is None or lease.address not in _addresses(machine, card):
        return
    table = read_table(machine) or b""
    for step in plan_route(host=host, lease=lease, leads=has_route_to(table, parse_ipv4(host) or 0)):
        if isinstance(step, Step):
            walk.mended.add(host)
            apply_step(machine, step, journal=MemoryJournal(), deadline=walk.context.deadline)
            walk.events.tell(INFO, step.name, step.did)
