"""Addresses, URLs and the kernel's route table: parsed and formatted in one place. Pure."""

from __future__ import annotations

from sys import byteorder

from azureinit.errors import HttpFailed
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WIRESERVER = "168.63.129.16"  # the usual address; a DHCP server may name another one (option 245)
IMDS = "169.254.169.254"
ROUTE_TABLE = "/proc/net/route"
MOST_TABLE_BYTES = 1 << 22

LINK_LOCAL = 169 << 8 | 254  # the first two bytes of 169.254.0.0/16
LOOPBACK = 127
FIRST_MULTICAST = 224
ROUTE_UP = 0x1
HOST_MASK = 0xFFFFFFFF
# IPv6 prefixes that an IPv4 address follows: ::ffff:0:0/96, ::/96, 64:ff9b::/96; and 2002::/16, which has it in front.
EMBEDDING = (bytes(10) + b"\xff\xff", bytes(12), bytes.fromhex("0064ff9b") + bytes(8))
SIX_TO_FOUR = b"\x20\x02"


# ---- IPv4


def parse_ipv4(text: str) -> int | None:
    """The address as a number; None for anything but four decimal bytes with dots between them."""
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return int.from_bytes(bytes(numbers), "big") if max(numbers) < 256 else None


def format_ipv4(octets: bytes) -> str:
    """Dotted decimal; empty unless there are exactly four bytes."""
    return ".".join(map(str, octets)) if len(octets) == 4 else ""


def is_host_address(text: str) -> bool:
    """True for a unicast address of another machine: not 0.0.0.0/8, not loopback, not multicast or reserved."""
    number = parse_ipv4(text)
    return number is not None and number >> 24 not in (0, LOOPBACK) and number >> 24 < FIRST_MULTICAST


def is_loopback(number: int) -> bool:
    return number >> 24 == LOOPBACK


def is_link_local(number: int) -> bool:
    return number >> 16 == LINK_LOCAL


def is_of_platform(packed: bytes) -> bool:
    """Whether an address, 4 or 16 bytes, is link-local or the wireserver's. IPv6 may have an IPv4 address in it."""
    if len(packed) == 16:
        if packed[0] == 0xFE and packed[1] & 0xC0 == 0x80:
            return True
        if packed.startswith(EMBEDDING):
            packed = packed[12:]
        elif packed.startswith(SIX_TO_FOUR):
            packed = packed[2:6]
    if len(packed) != 4:
        return False
    number = int.from_bytes(packed, "big")
    return is_link_local(number) or number == parse_ipv4(WIRESERVER)


# ---- URLs


def parse_url(url: str, *, secure: bool = False) -> tuple[str, int, str]:
    """Host, port and path of a plain http:// URL, with `secure` of an https:// one; HttpFailed for any other text."""
    wanted, usual = ("https", "443") if secure else ("http", "80")
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.partition(":")
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        colon, port = port[:1], port[1:]
    plain = url.isascii() and url.isprintable() and " " not in url and not set(authority) & set("@?#")
    if scheme != wanted or not plain or not host or colon not in ("", ":"):
        raise HttpFailed(f"not a plain {wanted}:// URL: {url!r}", endpoint=url)
    port = port if colon else usual
    if not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65536:
        raise HttpFailed(f"not a plain {wanted}:// URL: {url!r}", endpoint=url)
    return host, int(port), slash + path or "/"


def join_url(base: str, location: str) -> str:
    """Where a redirect leads to: `location` is a URL, or a path on the host of `base`."""
    location = location.partition("#")[0]
    if "://" in location.partition("?")[0]:
        return location
    scheme, _, rest = base.partition("://")
    if location.startswith("//"):
        return f"{scheme}:{location}"
    authority, _, path = rest.partition("?")[0].partition("/")
    if location[:1] in ("", "?"):
        location = f"/{path}{location}"
    elif not location.startswith("/"):
        location = f"/{''.join(path.rpartition('/')[:2])}{location}"
    return f"{scheme}://{authority}{location}"


def host_of(url: str) -> str:
    """The host name or address; empty where `parse_url` would raise."""
    try:
        return parse_url(url)[0]
    except HttpFailed:
        return ""


def base_of(url: str) -> str:
    """Scheme, host and port, without the path."""
    scheme, mark, rest = url.partition("://")
    return scheme + mark + rest.partition("/")[0]


def path_of(url: str) -> str:
    """The path without its leading slash and without the query."""
    return url.partition("?")[0].partition("://")[2].partition("/")[2]


# ---- /proc/net/route


class RouteRow(Record):
    """One row of the kernel's IPv4 table. `destination`, `gateway` and `mask` are in the byte order of the table."""

    link: str
    destination: int
    gateway: int  # 0: the destination is on the link itself
    metric: int
    mask: int


def parse_route_rows(table: bytes) -> Iterator[RouteRow]:
    """The routes that are up, in the table's order. Malformed rows are skipped."""
    for line in table.decode("ascii", "replace").split("\n")[1:]:
        fields = line.split()
        try:
            destination, gateway, flags, mask = (int(fields[at], 16) for at in (1, 2, 3, 7))
            metric = int(fields[6])
        except (ValueError, IndexError):
            continue
        if flags & ROUTE_UP:
            yield RouteRow(link=fields[0], destination=destination, gateway=gateway, metric=metric, mask=mask)


def rows_to(table: bytes, address: int) -> list[RouteRow]:
    """Every route whose network contains the address."""
    # The kernel prints addresses in network byte order, as numbers of this machine.
    number = int.from_bytes(address.to_bytes(4, "big"), byteorder)
    return [row for row in parse_route_rows(table) if number & row.mask == row.destination]


def has_route_to(table: bytes, address: int) -> bool:
    """Whether the table reaches the address: through a gateway, by a host route, or on a network that contains it.

    Azure's own addresses are on no local network, so for them a network route without a gateway does not count.
    """
    may_be_local = address != parse_ipv4(WIRESERVER) and not is_link_local(address)
    return any(row.gateway or row.mask == HOST_MASK or (may_be_local and row.mask) for row in rows_to(table, address))


def has_host_route(table: bytes, address: int) -> bool:
    """Whether there is a route to exactly that address. Only a DHCP server or an operator can have given one."""
    return any(row.mask == HOST_MASK for row in rows_to(table, address))


def best_link_to(table: bytes, address: int) -> str | None:
    """The link of the best route to the address: the longest prefix, then the lowest metric."""
    rows = [(-bin(row.mask).count("1"), row.metric, row.link) for row in rows_to(table, address)]
    return min(rows)[2] if rows else None
