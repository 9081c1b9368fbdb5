"""The kernel's links, addresses and routes over rtnetlink, without a child process.

The parsers are pure and take complete answers. Truncated messages and unknown types are skipped.
"""

from __future__ import annotations

import os
import struct

from azureinit.errors import LocalError
from azureinit.machine import sockets
from azureinit.machine.files import local_error
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GET_LINK, GET_ADDRESS, GET_ROUTE = 18, 22, 26
NEW = {GET_LINK: 16, GET_ADDRESS: 20, GET_ROUTE: 24}
REQUEST_DUMP = 0x301
INTERRUPTED = 0x10  # NLM_F_DUMP_INTR: something changed during the dump, which may be incomplete
ERROR, DONE = 2, 3
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
SHAPES = {GET_LINK: "=BxHiII", GET_ADDRESS: "=BBBBI", GET_ROUTE: "=BBBBBBBBI"}
HOP = struct.Struct("=HBBi")  # one next hop of a multipath route: length, flags, weight, link
# Attribute numbers of links, addresses and routes.
MAC, NAME, MTU, MASTER, STATE, INFO, CARRIER = 1, 3, 4, 10, 16, 18, 33
INFO_KIND = 1
FAR_END, NEAR_END = 1, 2
DESTINATION, OUT, GATEWAY, METRIC, HOPS, TABLE, VIA = 1, 4, 5, 6, 9, 15, 18
PATIENCE = 2.0  # seconds; the kernel answers at once or not at all
TRIES = 3
MOST_BYTES = 4 << 20
PIECE = 1 << 16

UP, LOOPBACK = 0x1, 0x8
CLONED = 0x200  # a cached route
MAIN_TABLE, LOCAL_TABLE = 254, 255
STATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
TYPES = ("unspec", "unicast", "local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit",
         "throw", "nat")  # fmt: skip


class Link(Record):
    index: int
    name: str
    mac: str  # empty if it has none
    mtu: int
    up: bool  # administratively up, whatever the carrier
    carrier: bool
    loopback: bool
    state: str  # operational state
    kind: str = ""  # veth, bridge, vlan ...; empty for a real card
    master: int = 0  # the master's index
    driver: str = ""  # not from netlink: filled in by facts/network.py


class Address(Record):
    index: int  # the link's
    family: int  # 4 or 6
    address: str
    prefix: int
    scope: str


class Route(Record):
    family: int
    destination: str  # "0.0.0.0" or "::" for the default
    prefix: int
    type: str  # unicast, local, blackhole ...
    table: int
    index: int = 0  # the link's; 0 for none
    gateway: str = ""
    metric: int = 0
    scope: str = "global"


def read_links() -> tuple[Link, ...]:
    return parse_links(_ask(GET_LINK, "links"))


def read_addresses() -> tuple[Address, ...]:
    return parse_addresses(_ask(GET_ADDRESS, "addresses"))


def read_routes() -> tuple[Route, ...]:
    return parse_routes(_ask(GET_ROUTE, "routes"))


def _ask(kind: int, what: str) -> bytes:
    """The complete answer; repeated if the kernel reports a change during the dump."""
    answer = b""
    try:
        kernel = sockets.socket(sockets.AF_NETLINK, sockets.SOCK_RAW | sockets.SOCK_CLOEXEC, sockets.NETLINK_ROUTE)
        try:
            kernel.settimeout(PATIENCE)
            kernel.bind((0, 0))
            for sequence in range(1, TRIES + 1):
                everything = bytes(_size(kind))
                length = HEADER.size + len(everything)
                kernel.send(HEADER.pack(length, kind, REQUEST_DUMP, sequence, 0) + everything)
                answer, changed = read_answer(kernel, sequence)
                if not changed:
                    break
        finally:
            kernel.close()
    except OSError as error:
        raise local_error(error, "ask the kernel for its", what) from error
    return answer


def read_answer(kernel: sockets.socket, sequence: int) -> tuple[bytes, bool]:
    data = b""
    changed = False
    while len(data) < MOST_BYTES:
        piece = kernel.recv(PIECE)
        data += piece  # newer kernels end a short answer in the same piece
        for kind, flags, number, body in messages_in(piece):
            if number != sequence:
                continue  # the rest of an answer to an earlier request
            changed = changed or bool(flags & INTERRUPTED)
            if kind in (ERROR, DONE):
                failed = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                if failed > 0:
                    raise OSError(failed, os.strerror(failed))
                return data, changed
    raise LocalError(f"the kernel's answer is larger than {MOST_BYTES} bytes")


# ---- parsing


def parse_links(answer: bytes) -> tuple[Link, ...]:
    return tuple(_link(fixed, parts) for fixed, parts in _told(answer, GET_LINK))


def parse_addresses(answer: bytes) -> tuple[Address, ...]:
    found = (_address(fixed, parts) for fixed, parts in _told(answer, GET_ADDRESS))
    return tuple(address for address in found if address is not None)


def parse_routes(answer: bytes) -> tuple[Route, ...]:
    return tuple(route for fixed, parts in _told(answer, GET_ROUTE) for route in _routes(fixed, parts))


def _told(answer: bytes, asked: int) -> Iterator[tuple[tuple[int, ...], dict[int, bytes]]]:
    """Each message of the requested type: its fixed part, and its attributes by number."""
    size = _size(asked)
    for kind, _flags, _sequence, body in messages_in(answer):
        if kind == NEW[asked] and len(body) >= size:
            # Attributes begin at the next multiple of four, which all three fixed parts end at.
            yield struct.unpack_from(SHAPES[asked], body), attributes_in(body[size:])


def _size(kind: int) -> int:
    return struct.calcsize(SHAPES[kind])


def messages_in(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    place = 0
    while place + HEADER.size <= len(data):
        length, kind, flags, sequence, _port = HEADER.unpack_from(data, place)
        if length < HEADER.size or place + length > len(data):
            return
        yield kind, flags, sequence, data[place + HEADER.size : place + length]
        place += _aligned(length)


def attributes_in(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    place = 0
    while place + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, place)
        if length < 4 or place + length > len(data):
            break
        found[kind & 0x3FFF] = data[place + 4 : place + length]  # the top two bits are flags
        place += _aligned(length)
    return found


def _aligned(length: int) -> int:
    return length + 3 & ~3


def _link(fixed: tuple[int, ...], parts: dict[int, bytes]) -> Link:
    _family, _hardware, index, flags, _change = fixed
    state = (parts.get(STATE) or b"\0")[0]
    return Link(
        index=index,
        name=_text(parts.get(NAME, b"")),
        mac=parts[MAC].hex(":") if any(parts.get(MAC, b"")) else "",
        mtu=number_in(parts.get(MTU, b"")),
        up=bool(flags & UP),
        carrier=parts.get(CARRIER, b"\1") != b"\0",
        loopback=bool(flags & LOOPBACK),
        state=STATES[state] if state < len(STATES) else str(state),
        kind=_text(attributes_in(parts.get(INFO, b"")).get(INFO_KIND, b"")),
        master=number_in(parts.get(MASTER, b"")),
    )


def _address(fixed: tuple[int, ...], parts: dict[int, bytes]) -> Address | None:
    family, prefix, _flags, scope, index = fixed
    shown = ip_text(
        parts.get(NEAR_END) or parts.get(FAR_END) or b""
    )  # on a point-to-point link, this machine is the near end
    if not shown or family not in (sockets.AF_INET, sockets.AF_INET6):
        return None
    return Address(
        index=index,
        family=ip_version(family),
        address=shown,
        prefix=prefix,
        scope=SCOPES.get(scope, str(scope)),
    )


def _routes(fixed: tuple[int, ...], parts: dict[int, bytes]) -> Iterator[Route]:
    """One for each next hop of a multipath route."""
    family, prefix, _source, _tos, table, _protocol, scope, type_, flags = fixed
    if family not in (sockets.AF_INET, sockets.AF_INET6) or flags & CLONED:
        return
    route = Route(
        family=ip_version(family),
        destination=ip_text(parts.get(DESTINATION, b"")) or ("0.0.0.0" if family == sockets.AF_INET else "::"),
        prefix=prefix,
        type=TYPES[type_] if type_ < len(TYPES) else str(type_),
        table=number_in(parts.get(TABLE, b"")) or table,
        metric=number_in(parts.get(METRIC, b"")),
        scope=SCOPES.get(scope, str(scope)),
    )
    fields = route.as_dict()
    for index, hop in _hops(parts.get(HOPS, b"")) or [(number_in(parts.get(OUT, b"")), parts)]:
        yield Route(**{**fields, "index": index, "gateway": _gateway(hop)})


def _hops(data: bytes) -> list[tuple[int, dict[int, bytes]]]:
    found = []
    place = 0
    while place + HOP.size <= len(data):
        length, _flags, _weight, index = HOP.unpack_from(data, place)
        if length < HOP.size or place + length > len(data):
            break
        found.append((index, attributes_in(data[place + HOP.size : place + length])))
        place += _aligned(length)
    return found


def _gateway(parts: dict[int, bytes]) -> str:
    return ip_text(parts.get(GATEWAY, b"")) or ip_text(
        parts.get(VIA, b"")[2:]
    )  # a gateway of another family, which the first two bytes name


def ip_text(data: bytes) -> str:
    family = {4: sockets.AF_INET, 16: sockets.AF_INET6}.get(len(data))
    return "" if family is None else sockets.inet_ntop(family, data)


def ip_version(family: int) -> int:
    return 4 if family == sockets.AF_INET else 6


def number_in(data: bytes) -> int:
    return int(struct.unpack("=I", data)[0]) if len(data) == 4 else 0


def _text(data: bytes) -> str:
    return data.split(b"\0")[0].decode("utf-8", "replace")
