"""Why the platform cannot be reached: faults of this machine's network, in sentences, the likeliest first. Pure."""

from __future__ import annotations

from azureinit.addresses import IMDS, WIRESERVER, is_link_local, parse_ipv4
from azureinit.machine.netlink import LOCAL_TABLE, MAIN_TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azureinit.facts.network import Network
    from azureinit.machine.netlink import Link, Route

HOSTS = (IMDS, WIRESERVER)
SYNTHETIC = "hv_netvsc"  # Hyper-V's own card; a faster one with the same MAC does its work underneath
INSIDE = ("veth", "macvlan", "ipvlan")  # what a container has for a card


def diagnosis(network: Network, *, hosts: tuple[str, ...] = HOSTS) -> tuple[str, ...]:
    """Empty where no fault is found or nothing is known."""
    if network.links is None:
        return ()
    found = cards(network.links)
    if not found:
        others = sorted(link.name for link in network.links if not link.loopback)
        return (f"no network interface but {' and '.join(('lo', *others[:4]))}",)
    troubles = [trouble for link in found if (trouble := _trouble(link, network))]
    if len(troubles) == len(found):
        return tuple(troubles)  # without an address there is no route either: that needs no sentence
    return (*_ways(network, hosts), *_silent(network, hosts), *_leases(network, hosts), *troubles)


def cards(links: Iterable[Link]) -> list[Link]:
    """Links to the outside: physical ones, bonds and bridges of them, and a container's own."""
    known = tuple(links)
    rest = [link for link in known if not link.loopback and vf_of(link, known) is None]
    above = {link.master for link in rest if not link.kind}
    found = [link for link in rest if link.index in above or not (link.kind or link.master)]
    return found or [link for link in rest if link.kind in INSIDE and not link.master]


def vf_of(link: Link, links: Iterable[Link]) -> Link | None:
    """The link that a virtual function belongs to: same MAC; a virtual function has no address."""
    for other in links:
        if other.index != link.index and link.mac and other.mac == link.mac and not (link.kind or other.kind):
            below = other.driver == SYNTHETIC and link.driver != SYNTHETIC
            if below or link.master == other.index:
                return other
    return None


def _trouble(link: Link, network: Network) -> str | None:
    if not link.up:
        return f"{link.name} is down: nothing has brought it up"
    if not link.carrier:
        return f"{link.name} has no carrier"
    if network.addresses is None:
        return None
    own = [one.address for one in network.addresses if one.index == link.index and one.family == 4]
    if any(not is_link_local(parse_ipv4(address) or 0) for address in own):
        return None
    lease = next((lease for lease in network.leases if lease.link == link.name), None)
    why = f"though {lease.client} has a lease of {lease.address}" if lease else "no DHCP lease"
    if own:
        return f"{link.name} has only the link-local address {own[0]}: {why}"
    return f"{link.name} has no IPv4 address: {why}"


def _ways(network: Network, hosts: tuple[str, ...]) -> Iterator[str]:
    """One sentence for all hosts with the same fault."""
    told: dict[str, list[str]] = {}
    for host in hosts:
        sentence = _way_trouble(network, host)
        if sentence:
            told.setdefault(sentence, []).append(host)
    for sentence, of in told.items():
        yield sentence.format(" and ".join(of))


def _way_trouble(network: Network, host: str) -> str | None:
    """A sentence with a placeholder for the hosts."""
    if network.routes is None or parse_ipv4(host) is None:
        return None
    route = way_to(host, network.routes)
    if route is None:
        bare = not any(route.family == 4 and not route.prefix for route in network.routes)
        return "no route to {}" + (": there is no default route" if bare else "")
    if route.type == "local":
        return "{} is configured as an address of this machine"
    named = f"the {f'route {route.destination}/{route.prefix}' if route.prefix else 'default route'} to {{}}"
    if route.type != "unicast":
        return f"{named} is of type {route.type}: it leads nowhere"
    link = next((link for link in network.links or () if link.index == route.index), None)
    name = (link.name if link else f"link {route.index}").replace("{", "{{").replace("}", "}}")
    if link and not (link.up and link.carrier):
        return f"{named} leads through {name}, which is {'without carrier' if link.up else 'down'}"
    if not route.gateway:
        return f"{named} has no gateway, only {name} itself"
    if not _is_near(route, network.routes):
        return f"{named} goes through {route.gateway}, not a gateway that {name} can reach"
    return None


def way_to(host: str, routes: Iterable[Route]) -> Route | None:
    """The route that the kernel would choose; its rules for several tables are not evaluated."""
    number = parse_ipv4(host)
    fitting = [route for route in routes if number is not None and _covers(route, number)]
    # Broadcast and multicast routes do not count; own addresses are those of the local table.
    usable = [route for route in fitting if route.type == "local" or route.table != LOCAL_TABLE]
    return max(
        usable,
        key=lambda route: (route.table == LOCAL_TABLE, route.prefix, route.table == MAIN_TABLE, -route.metric),
        default=None,
    )


def _covers(route: Route, number: int) -> bool:
    own = parse_ipv4(route.destination) if route.family == 4 and route.prefix <= 32 else None
    return own is not None and own ^ number < 1 << 32 - route.prefix


def _is_near(route: Route, routes: Iterable[Route]) -> bool:
    """Whether a route without a gateway leads to this gateway over the same link."""
    gateway = parse_ipv4(route.gateway)
    if gateway is None:
        return True  # of another family
    return any(
        near.index == route.index and not near.gateway and near.prefix and _covers(near, gateway) for near in routes
    )


def _silent(network: Network, hosts: tuple[str, ...]) -> Iterator[str]:
    ways = [way_to(host, network.routes or ()) for host in hosts]
    gateways = {way.gateway for way in ways if way and way.gateway}
    for one in network.silent:
        if one.address in gateways:
            yield f"the gateway {one.address} does not answer on {one.link}"
        elif one.address in hosts:
            yield f"{one.address} does not answer on {one.link}"


def _leases(network: Network, hosts: tuple[str, ...]) -> Iterator[str]:
    for lease in network.leases:
        if lease.wireserver and lease.wireserver not in hosts:
            yield f"the lease of {lease.link} names {lease.wireserver} as the wireserver (option 245)"
