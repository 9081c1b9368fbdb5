"""DHCP leases from the files of this machine's DHCP client, and the one that is in force on a link.

The format is recognised by the content, not by the path: NetworkManager writes its own format, or dhclient's where that
is its client.
"""

from __future__ import annotations

from azureinit.addresses import format_ipv4, is_host_address, parse_ipv4
from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from azureinit.machine import Machine
    from azureinit.machine.dhcp import ClasslessRoute

# Client, directory, and the suffix of file names; a name that is only a number is a link's index.
PLACES = (
    ("systemd-networkd", "/run/systemd/netif/leases", ""),
    ("NetworkManager", "/run/NetworkManager/devices", ""),
    ("NetworkManager", "/var/lib/NetworkManager", ".lease"),
    ("dhclient", "/var/lib/dhcp", ".leases"),
    ("dhclient", "/var/lib/dhclient", ".leases"),
    ("dhclient", "/var/lib/dhclient", ".lease"),
    ("dhcpcd", "/var/lib/dhcpcd", ".lease"),
    ("dhcpcd", "/var/lib/dhcpcd5", ".lease"),
    ("dhcpcd", "/var/db/dhcpcd", ".lease"),
)
THIS_BOOT = "/run/"  # files elsewhere may be of another boot, or of another machine
MOST_FILES, MOST_BYTES = 64, 1 << 20  # of one place; of one file
NAMES = {
    "address": ("ADDRESS", "ip_address", "fixed-address"),
    "server": ("SERVER_ADDRESS", "dhcp_server_identifier", "dhcp-server-identifier"),
    "wireserver": ("OPTION_245", "private_245", "unknown-245", "option-245"),
    "lifetime": ("LIFETIME", "dhcp_lease_time", "dhcp-lease-time"),
    "expiry": ("expire",),
    "router": ("ROUTER", "routers"),
    "routes": ("CLASSLESS_ROUTES", "ROUTES", "OPTION_121", "rfc3442_classless_static_routes",
               "rfc3442-classless-static-routes", "classless-static-routes", "unknown-121", "option-121"),
    "microsoft": ("OPTION_249", "ms_classless_static_routes", "ms-classless-static-routes", "unknown-249",
                  "option-249"),
}  # fmt: skip
PREFIX = "dhcp4."  # of NetworkManager's keys, from 1.40 on
FOREVER = 0xFFFFFFFF
COOKIE, OPTIONS = bytes((99, 130, 83, 99)), 240  # in a DHCP packet, before its options


class Lease(Record):
    link: str
    client: str
    address: str
    server: str = ""
    wireserver: str = ""  # option 245
    lifetime: int | None = None  # seconds
    expires: float | None = None  # seconds since 1970; None: never, or not stated
    routes: tuple[ClasslessRoute, ...] = ()  # of option 121, else 249, else the default through the router
    mac: str = ""  # of the interface that the lease is for, where stated
    router: str = ""  # option 3, whether or not option 121 overrides it
    odd: str = ""  # the content of option 245 where it is not an address


class Standing(Record):
    """The lease in force on a link, and why others were not used."""

    lease: Lease | None
    told: tuple[str, ...] = ()


def read_leases(machine: Machine, links: Mapping[int, str]) -> tuple[tuple[Lease, ...], tuple[str, ...]]:
    """The leases, and what could not be read. `links`: link names by index."""
    found: dict[tuple[str, str], Lease] = {}
    problems: list[str] = []
    for place in PLACES:
        for lease in _leases(machine, place, links, problems):
            found[lease.link, lease.client] = lease
    return tuple(found.values()), tuple(problems)


def read_standing(machine: Machine, *, link: str, index: int, mac: str, held: Callable[[], frozenset[str]]) -> Standing:
    """The newest lease of the first client whose lease names a wireserver; else of the first client that has a lease.

    `held`: the link's addresses. A lease from a file that survives a boot counts only while its address is one of them.
    """
    without: Lease | None = None
    told: list[str] = []
    for place in PLACES:
        chosen: Lease | None = None
        for lease in _leases(machine, place, {index: link}, told):
            if lease.link != link or (lease.mac and mac and lease.mac != mac):
                continue
            kept = not place[1].startswith(THIS_BOOT)
            over = lease.expires is not None and lease.expires <= machine.clock.now()
            if kept and (over or lease.address not in held()):
                continue
            if lease.odd or (lease.wireserver and not is_host_address(lease.wireserver)):
                odd = lease.odd or lease.wireserver
                told.append(f"option 245 of the lease of {link} ({lease.client}) is not a wireserver: {odd}")
            elif lease.wireserver:
                chosen = lease
            without = without or lease
        if chosen is not None:
            return Standing(lease=chosen, told=tuple(told))
    return Standing(lease=without, told=tuple(told))


def _leases(
    machine: Machine, place: tuple[str, str, str], links: Mapping[int, str], problems: list[str]
) -> Iterator[Lease]:
    client, directory, ending = place
    try:
        names = machine.names(directory) or ()
    except LocalError as error:
        problems.append(str(error))
        return
    for name in [name for name in names if name.endswith(ending)][:MOST_FILES]:
        path = f"{directory}/{name}"
        try:
            found = machine.read_with_status(path, limit=MOST_BYTES)
        except LocalError as error:
            problems.append(str(error))
            continue
        if found is not None:
            link = link_of(name.removesuffix(ending), links)
            yield from parse_leases(found[0], client=client, link=link, written=found[1].st_mtime)


def link_of(name: str, links: Mapping[int, str]) -> str:
    """`3`, `eth0`, `dhclient-eth0` or `internal-<uuid>-eth0`."""
    if name.isascii() and name.isdigit():
        return links.get(int(name[:10]), name)
    known = [link for link in links.values() if link and (name == link or name.endswith((f"-{link}", f".{link}")))]
    return max(known, key=len, default=name)


def parse_leases(data: bytes, *, client: str, link: str, written: float = 0.0) -> list[Lease]:
    """In the order of the file: of two leases of one link the later counts. `written`: the file's time."""
    if data[OPTIONS - len(COOKIE) : OPTIONS] == COOKIE:
        lease = _packet(data, client=client, link=link, written=written)
        found = [] if lease is None else [lease]
    elif b"lease {" in data:
        from azureinit.facts.dhclient import QUOTED, parse_blocks

        blocks = parse_blocks(data.decode("utf-8", "replace"))
        named = ((values.get("interface", link).removeprefix(QUOTED), values) for values in blocks)
        found = [_lease(values, client=client, link=name, written=written) for name, values in named]
    else:
        found = [_lease(_pairs(data), client=client, link=link, written=written)]
    return [lease for lease in found if parse_ipv4(lease.address)]  # 0.0.0.0 does not count as an address


def _lease(values: Mapping[str, str], *, client: str, link: str, written: float) -> Lease:
    said = {field: next((values[name] for name in names if name in values), "") for field, names in NAMES.items()}
    wireserver = _address(said["wireserver"])
    lifetime = _lifetime(said["lifetime"])
    expires = _end(written, lifetime)
    if said["expiry"]:
        from azureinit.facts.dhclient import parse_expiry

        expires = parse_expiry(said["expiry"])
    return Lease(
        link=link,
        client=client,
        address=said["address"],
        server=said["server"] if parse_ipv4(said["server"]) else "",
        wireserver=wireserver,
        lifetime=lifetime,
        expires=expires,
        routes=_routes(said["routes"]) or _routes(said["microsoft"]) or _default(said["router"]),
        router=_router(said["router"]),
        odd=ascii(said["wireserver"][:40]) if said["wireserver"] and not wireserver else "",
    )


def _lifetime(text: str) -> int | None:
    if text == "infinity":
        return FOREVER
    return int(text[:10]) if text.isascii() and text.isdigit() else None


def _end(written: float, lifetime: int | None) -> float | None:
    """Where the lease states no date: the file is written at every renewal."""
    return None if lifetime is None or lifetime >= FOREVER else written + lifetime


def _address(value: str) -> str:
    """`a83f8110`, `a8:3f:81:10`, four letters in quotes, or an address already."""
    if len(value) == 8 and value.isalnum():  # the most frequent form, without importing a module
        try:
            return format_ipv4(bytes.fromhex(value))
        except ValueError:
            return ""
    if not value or parse_ipv4(value) is not None:
        return value
    from azureinit.facts.dhclient import octets

    return format_ipv4(octets(value) or b"")


def _routes(value: str) -> tuple[ClasslessRoute, ...]:
    """`0.0.0.0/0,10.0.0.1 168.63.129.16/32,10.0.0.1`, the same without commas, or the option's bytes in numbers.

    Routes before a malformed one count.
    """
    if not value:
        return ()
    if "/" not in value:
        from azureinit.facts.dhclient import route_octets
        from azureinit.machine.dhcp import parse_classless_routes

        return parse_classless_routes(route_octets(value))
    words = value.replace(",", " ").split()
    found = []
    for network, gateway in zip(words[::2], words[1::2]):
        destination, _, prefix = network.partition("/")
        number = int(prefix) if prefix.isascii() and prefix.isdigit() and len(prefix) < 3 else 33
        if parse_ipv4(destination) is None or parse_ipv4(gateway) is None or number > 32:
            break
        found.append((destination, number, gateway if parse_ipv4(gateway) else ""))
    return tuple(found)


def _default(router: str) -> tuple[ClasslessRoute, ...]:
    gateway = _router(router)
    return (("0.0.0.0", 0, gateway),) if gateway else ()


def _router(value: str) -> str:
    """The first of a list."""
    gateway = "".join(value.replace(",", " ").split()[:1])
    return gateway if parse_ipv4(gateway) else ""


def _pairs(data: bytes) -> dict[str, str]:
    """KEY=VALUE, one per line."""
    lines = data.decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines)
    return {key.strip().removeprefix(PREFIX): value.strip() for key, equals, value in pairs if equals}


def _packet(data: bytes, *, client: str, link: str, written: float) -> Lease | None:
    """dhcpcd's file: the server's reply as a packet."""
    from azureinit.machine.dhcp import LEASE_TIME, ROUTER, SERVER, WIRESERVER, chosen_routes, parse_reply

    reply = parse_reply(data)
    if reply is None:
        return None
    options = reply.options
    lifetime = int.from_bytes(options[LEASE_TIME], "big") if len(options.get(LEASE_TIME, b"")) == 4 else None
    wireserver = format_ipv4(options.get(WIRESERVER, b""))
    return Lease(
        link=link,
        client=client,
        address=reply.address,
        server=format_ipv4(options.get(SERVER, b"")),
        wireserver=wireserver,
        lifetime=lifetime,
        expires=_end(written, lifetime),
        routes=chosen_routes(options) or _default(format_ipv4(options.get(ROUTER, b"")[:4])),
        mac=reply.mac.hex(":"),
        router=format_ipv4(options.get(ROUTER, b"")[:4]),
        odd=f"{len(options[WIRESERVER])} bytes" if WIRESERVER in options and not wireserver else "",
    )
