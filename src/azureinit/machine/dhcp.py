"""DHCP packets: options, classless routes, building a DISCOVER and parsing offers. Pure."""

from __future__ import annotations

import struct

from azureinit.addresses import format_ipv4
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    ClasslessRoute = tuple[str, int, str]  # destination, prefix, gateway; without a gateway, on the link itself

HEAD = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")
COOKIE = bytes((99, 130, 83, 99))
ASKING, ANSWERING, ETHERNET = 1, 2, 1
BROADCAST = 0x8000  # the server must broadcast its answer: the client has no address yet
LEAST = 300  # bytes; relays drop shorter packets
PAD, END = 0, 255
ROUTER, LEASE_TIME, OVERLOAD, KIND, SERVER, WANTED = 3, 51, 52, 53, 54, 55
ROUTES, MICROSOFT_ROUTES, WIRESERVER = 121, 249, 245
DISCOVER, OFFER = 1, 2
FILE, NAME = slice(108, 236), slice(44, 108)  # fields that options may continue in (option 52), in this order


class Reply(Record):
    """A server's message to any client."""

    kind: int
    transaction: int
    mac: bytes
    address: str  # offered or assigned
    options: dict[int, bytes]


class Offer(Record):
    address: str
    server: str = ""
    router: str = ""
    wireserver: str | None = None  # empty: option 245 is present but is not an address
    routes: tuple[ClasslessRoute, ...] = ()


def discover(*, mac: bytes, transaction: int, seconds: int) -> bytes:
    """A DISCOVER: asks for offers and accepts none."""
    none = bytes(4)
    head = HEAD.pack(
        ASKING, ETHERNET, len(mac), 0, transaction, min(seconds, 0xFFFF), BROADCAST,
        none, none, none, none, mac, b"", b"", COOKIE,
    )  # fmt: skip
    wanted = bytes((1, ROUTER, ROUTES, MICROSOFT_ROUTES, WIRESERVER))
    options = bytes((KIND, 1, DISCOVER, WANTED, len(wanted))) + wanted + bytes((END,))
    return (head + options).ljust(LEAST, b"\0")


def parse_reply(message: bytes) -> Reply | None:
    """None for anything but a DHCP server's answer to an Ethernet card."""
    if len(message) < HEAD.size:
        return None
    operation, hardware, length, _, transaction, _, _, _, given, _, _, mac, _, _, cookie = HEAD.unpack_from(message)
    if (operation, hardware, length, cookie) != (ANSWERING, ETHERNET, 6, COOKIE):
        return None
    options = parse_options(message[HEAD.size :])
    more = (options.get(OVERLOAD) or b"\0")[0]
    for bit, field in ((1, FILE), (2, NAME)):
        if more & bit:
            for code, value in parse_options(message[field]).items():
                options[code] = options.get(code, b"") + value
    kind = options.get(KIND, b"")
    return Reply(
        kind=kind[0] if len(kind) == 1 else 0,
        transaction=transaction,
        mac=mac[:length],
        address=format_ipv4(given),
        options=options,
    )


def parse_offer(message: bytes, *, mac: bytes, transaction: int) -> Offer | None:
    """None for anything but an offer to that card in that transaction."""
    reply = parse_reply(message)
    if reply is None or (reply.kind, reply.mac, reply.transaction) != (OFFER, mac, transaction):
        return None
    named = reply.options.get(WIRESERVER)
    return Offer(
        address=reply.address,
        server=format_ipv4(reply.options.get(SERVER, b"")),
        router=format_ipv4(reply.options.get(ROUTER, b"")[:4]),
        wireserver=None if named is None else format_ipv4(named),
        routes=chosen_routes(reply.options),
    )


def parse_options(field: bytes) -> dict[int, bytes]:
    """A repeated option is concatenated (RFC 3396); a truncated one is dropped."""
    found: dict[int, bytes] = {}
    place = 0
    while place < len(field) and field[place] != END:
        if field[place] == PAD:
            place += 1
            continue
        if place + 1 >= len(field):
            break
        code, end = field[place], place + 2 + field[place + 1]
        if end > len(field):
            break
        found[code] = found.get(code, b"") + field[place + 2 : end]
        place = end
    return found


def chosen_routes(options: dict[int, bytes]) -> tuple[ClasslessRoute, ...]:
    """Option 121 (RFC 3442); if it gives no routes, Microsoft's option 249 of the same form."""
    return parse_classless_routes(options.get(ROUTES, b"")) or parse_classless_routes(
        options.get(MICROSOFT_ROUTES, b"")
    )


def parse_classless_routes(data: bytes) -> tuple[ClasslessRoute, ...]:
    """A list of: prefix length, the significant bytes of the network, the gateway.

    Routes before a damaged one are kept: one of them may lead to the platform.
    """
    found = []
    place = 0
    while place < len(data):
        prefix = data[place]
        size = (prefix + 7) // 8
        end = place + 1 + size + 4
        if prefix > 32 or end > len(data):
            break
        number = int.from_bytes(data[place + 1 : end - 4].ljust(4, b"\0"), "big")
        number &= 0xFFFFFFFF << 32 - prefix & 0xFFFFFFFF  # RFC 3442: ignore bits beyond the prefix
        gateway = data[end - 4 : end]
        found.append((format_ipv4(number.to_bytes(4, "big")), prefix, format_ipv4(gateway) if any(gateway) else ""))
        place = end
    return tuple(found)
