"""This machine's network, and a summary of it that is short enough for a KVP record.

Read only when the platform could not be reached. A part that cannot be read is reported; the others are still read.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.facts.diagnosis import HOSTS, diagnosis, vf_of
from azureinit.facts.leases import read_leases
from azureinit.machine.netlink import LOCAL_TABLE, MAIN_TABLE
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from azureinit.facts.leases import Lease
    from azureinit.machine import Machine
    from azureinit.machine.netlink import Address, Link, Route

    T = TypeVar("T")

RESOLV, RESOLVED = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"
STUB = "127.0.0.53"  # systemd-resolved's stub: the servers behind it are in another file
MOST_SHOWN = 24  # links, routes or leases; a machine full of containers has thousands
LONGEST_WORD = 64
FOREVER = 0xFFFFFFFF
QUIET = "no fault was found on this machine: the cause is a firewall here, or lies outside it"


class Dns(Record):
    servers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()  # the servers behind the local stub


class Silent(Record):
    """A neighbour that was asked for its hardware address and did not answer."""

    address: str
    link: str


class Network(Record):
    """A part is None where it could not be read; `problems` has the reasons."""

    links: tuple[Link, ...] | None = None
    addresses: tuple[Address, ...] | None = None
    routes: tuple[Route, ...] | None = None
    leases: tuple[Lease, ...] = ()
    dns: Dns | None = None
    silent: tuple[Silent, ...] = ()
    problems: tuple[str, ...] = ()


def read_network(machine: Machine) -> Network:
    problems: list[str] = []

    def tried(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except LocalError as error:
            problems.append(str(error))
            return None

    links = tried(lambda: read_driven_links(machine))
    leases, unread = read_leases(machine, {link.index: link.name for link in links or ()})
    return Network(
        links=links,
        addresses=tried(machine.read_addresses),
        routes=tried(machine.read_routes),
        leases=leases,
        dns=tried(lambda: _dns(machine)),
        silent=tried(lambda: parse_arp(machine.read("/proc/net/arp") or b"")) or (),
        problems=(*problems, *unread),
    )


def read_driven_links(machine: Machine) -> tuple[Link, ...]:
    return tuple(_with_driver(machine, link) for link in machine.read_links())


def _with_driver(machine: Machine, link: Link) -> Link:
    if link.kind or link.loopback:
        return replace(link, driver=link.kind)
    driver = machine.read_link(f"/sys/class/net/{link.name}/device/driver") or ""
    return replace(link, driver=driver.rpartition("/")[2])


def _dns(machine: Machine) -> Dns | None:
    data = machine.read(RESOLV)
    if data is None:
        return None
    dns = parse_resolv(data)
    behind = machine.read(RESOLVED) if STUB in dns.servers else None
    return dns if behind is None else replace(dns, behind=parse_resolv(behind).servers)


def parse_resolv(data: bytes) -> Dns:
    servers: list[str] = []
    search: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines():
        words = line.split()
        if words[:1] == ["nameserver"]:
            servers += words[1:2]
        elif words[:1] in (["search"], ["domain"]):
            search = words[1:]  # the last one counts
    return Dns(servers=tuple(servers), search=tuple(search))


def parse_arp(table: bytes) -> tuple[Silent, ...]:
    """Neighbours with flags 0: asked, without an answer."""
    rows = [line.split() for line in table.decode("utf-8", "replace").splitlines()[1:]]
    return tuple(Silent(address=row[0], link=row[5]) for row in rows if len(row) == 6 and row[2] == "0x0")


# ---- in words


def network_in_brief(network: Network, *, limit: int = 3000, hosts: tuple[str, ...] = HOSTS) -> str:
    """At most `limit` bytes of ASCII: first the probable faults, then links, routes, leases and DNS."""
    found = diagnosis(network, hosts=hosts) or (() if network.problems else (QUIET,))
    lines = [
        *found,
        *network.problems,
        *_some("links", [_link_line(link, network) for link in network.links or ()]),
        *_some("routes", _route_lines(network)),
        *_some("leases", [_lease_line(lease) for lease in network.leases] or ["no DHCP lease was found"]),
        _dns_line(network.dns),
    ]
    return _cut([_plain(line) for line in lines], limit)


def _link_line(link: Link, network: Network) -> str:
    vf = vf_of(link, network.links or ())
    addresses = [f"{one.address}/{one.prefix}" for one in network.addresses or () if one.index == link.index]
    state = "down" if not link.up else "up" if link.carrier else "up without carrier"
    parts = [state, link.mac, link.driver, f"mtu {link.mtu}", f"VF of {vf.name}" if vf else "", *addresses]
    return f"link {_word(link.name)}: {', '.join(filter(None, parts))}"


def _route_lines(network: Network) -> list[str]:
    if network.routes is None:
        return []
    names = {link.index: link.name for link in network.links or ()}
    lines = [_route_line(route, names) for route in network.routes if _is_telling(route)]
    return lines or ["no routes"]


def _is_telling(route: Route) -> bool:
    """Without the routes that every machine has, such as the loopback's."""
    everywhere = route.family == 6 and route.destination in ("fe80::", "ff00::")
    return route.table != LOCAL_TABLE and route.type not in ("local", "broadcast", "multicast") and not everywhere


def _route_line(route: Route, names: dict[int, str]) -> str:
    destination = f"{route.destination}/{route.prefix}" if route.prefix else "default"
    family = " (IPv6)" if route.family == 6 and not route.prefix else ""
    kind = f" {route.type}" if route.type != "unicast" else ""
    way = f" through {route.gateway}" if route.gateway else ""
    link = f" on {_word(names.get(route.index, str(route.index)))}" if route.index else ""
    metric = f", metric {route.metric}" if route.metric else ""
    table = f", table {route.table}" if route.table != MAIN_TABLE else ""
    return f"route {destination}{family}{kind}{way}{link}{metric}{table}"


def _lease_line(lease: Lease) -> str:
    lifetime = "for ever" if lease.lifetime == FOREVER else f"for {lease.lifetime} s" if lease.lifetime else ""
    parts = [
        lease.address,
        f"from {lease.server}" if lease.server else "",
        f"option 245 {lease.wireserver}" if lease.wireserver else "no option 245",
        lifetime,
        lease.client,
    ]
    return f"lease {_word(lease.link)}: {', '.join(filter(None, parts))}"


def _dns_line(dns: Dns | None) -> str:
    if dns is None:
        return f"dns: no {RESOLV}"
    servers = " ".join(map(_word, dns.servers[:8])) or "no server"
    behind = f" asking {' '.join(map(_word, dns.behind[:8])) or 'none'}" if STUB in dns.servers else ""
    search = f", search {' '.join(map(_word, dns.search[:8]))}" if dns.search else ""
    return f"dns: {servers}{behind}{search}"


def _some(what: str, lines: list[str]) -> list[str]:
    more = len(lines) - MOST_SHOWN
    return lines if more <= 0 else [*lines[:MOST_SHOWN], f"and {more} more {what}"]


def _word(text: str) -> str:
    return text if len(text) <= LONGEST_WORD else f"{text[:LONGEST_WORD]}..."


def _plain(line: str) -> str:
    return line if line.isascii() and line.isprintable() else ascii(line)[1:-1]


def _cut(lines: Iterable[str], limit: int) -> str:
    whole = list(lines)
    text = "\n".join(whole)
    if len(text) <= limit:
        return text
    for kept in range(len(whole) - 1, 0, -1):
        text = "\n".join((*whole[:kept], f"and {len(whole) - kept} more lines"))
        if len(text) <= limit:
            return text
    return whole[0][:limit]
