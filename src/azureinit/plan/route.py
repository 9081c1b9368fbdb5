"""Routes to the platform: one that a lease has and the DHCP client did not set, and one past another NIC's."""

from __future__ import annotations

from azureinit.addresses import WIRESERVER, parse_ipv4
from azureinit.backends.route import FIRST_METRIC, ip_route
from azureinit.plan.actions import Satisfied, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.leases import Lease
    from azureinit.facts.nics import Nics
    from azureinit.plan.actions import Plan


def plan_route(*, host: str, lease: Lease, leads: bool) -> Plan:
    """To that host alone. `leads`: a route exists already, which is not changed."""
    name = f"route to {host}"
    if leads:
        return (Satisfied(name=name, why="there is one"),)
    found = narrowest(host, lease)
    if found is None:
        return ()
    why = f"{lease.client} has a lease of {lease.link} with that route, and did not set it"
    did = f"added a route to {host} by {found[2]}: {why}"
    return (Step(name=name, why=why, did=did, ways=(ip_route(host=host, link=lease.link, gateway=found[2]),)),)


def plan_way(nics: Nics, *, primary: str, configured: frozenset[str]) -> Plan:
    """To the wireserver by the primary NIC, where another one that azure-init does not configure has a route to it.

    Azure's DNS server has the same address, and network managers add a route to it on every NIC; Azure answers only the
    primary. `primary`: its MAC address. `configured`: names of links.
    """
    nic = next((one for one in nics.nics if one.link.mac == primary and one.to_platform and one.router), None)
    taken = nics.wireserver
    if nic is None or not nics.live or taken in ("", nic.link.name) or taken in configured:
        return ()
    link = nic.link.name
    why = f"the kernel reaches it by {taken}, which other configuration gives that route, and Azure answers only {link}"
    way = ip_route(host=WIRESERVER, link=link, gateway=nic.router, metric=FIRST_METRIC)
    did = f"added a route to {WIRESERVER} by {link}: {why}"
    return (Step(name=f"route to {WIRESERVER}", why=why, did=did, ways=(way,)),)


def narrowest(host: str, lease: Lease) -> tuple[str, int, str] | None:
    fitting = [route for route in lease.routes if _is_inside(host, network=route[0], prefix=route[1])]
    return max(fitting, key=lambda route: route[1], default=None)


def _is_inside(host: str, *, network: str, prefix: int) -> bool:
    one, other = parse_ipv4(host), parse_ipv4(network)
    return one is not None and other is not None and one ^ other < 1 << 32 - prefix
