"""The DHCP server: address, routes, and the wireserver's address in option 245."""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import struct
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from fakeazure.platform.addresses import GATEWAY, IMDS, WIRESERVER, gateway_for
from fakeazure.platform.events import Lease
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.vm import Leases, Vm

SERVER_PORT, CLIENT_PORT = 67, 68
HEAD = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")
COOKIE = bytes((99, 130, 83, 99))
ASKING, ANSWERING = 1, 2
ETHERNET, MAC_LENGTH = 1, 6
LEAST = 300  # bytes; relays and old clients drop shorter packets
FOR_EVER = 0xFFFFFFFF  # Azure's leases do not end
BROADCAST, NO_ADDRESS = "255.255.255.255", "0.0.0.0"

KINDS = {1: "discover", 3: "request", 7: "release", 8: "inform"}
OFFER, ACK, NAK = 2, 5, 6
PAD, END = 0, 255
MASK, ROUTER, DNS, HOST_NAME, DOMAIN = 1, 3, 6, 12, 15
REQUESTED, SECONDS, KIND, SERVER, WANTED, RENEWAL, REBINDING = 50, 51, 53, 54, 55, 58, 59
ROUTES, MICROSOFT_ROUTES, ENDPOINT = 121, 249, 245


class NotDhcp(ValueError):
    """Not a request of a DHCP client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The lease of one interface."""

    address: str = "10.0.0.4"
    gateway: str = GATEWAY  # with the length of the subnet's prefix
    wireserver: str = WIRESERVER
    server: str = WIRESERVER  # the DHCP server, also the name server
    domain: str = "fakeazure0000000000000000a.ax.internal.cloudapp.net"
    hostname: str | None = None  # Azure sends none
    router: bool = True
    routes: tuple[str, ...] = ("0.0.0.0/0", f"{WIRESERVER}/32", f"{IMDS}/32")  # all through the gateway
    seconds: int = FOR_EVER
    omit: tuple[int, ...] = ()  # options that are not sent


def offers_for(vm: Vm, *, wireserver: str = WIRESERVER, leases: Leases | None = None) -> dict[str, Offer]:
    """MAC address -> offer. Only the primary interface gets the routes of option 121, as on Azure."""
    offers = {}
    leases = leases or Leases()
    for interface in vm.interfaces:
        offers[interface.mac.lower()] = Offer(
            address=interface.address,
            gateway=gateway_for(interface),
            wireserver=leases.wireserver or wireserver,
            router=interface.router,
            routes=("0.0.0.0/0", f"{wireserver}/32", f"{IMDS}/32") if interface.primary else (),
            omit=leases.omit,
        )
    return offers


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A client's message."""

    kind: str
    mac: str
    transaction: int
    flags: int = 0
    address: str = NO_ADDRESS  # its current address
    relay: str = NO_ADDRESS
    requested: str | None = None  # the address it requests
    server: str | None = None  # the server it has chosen
    hostname: str = ""
    wanted: tuple[int, ...] = ()  # the options it requests


def parse_request(datagram: bytes) -> Question:
    if len(datagram) < HEAD.size:
        raise NotDhcp("too short")
    head = HEAD.unpack_from(datagram)
    operation, hardware, length, _, transaction, _, flags, address, _, _, relay, mac, _, _, cookie = head
    if (operation, hardware, length, cookie) != (ASKING, ETHERNET, MAC_LENGTH, COOKIE):
        raise NotDhcp("no request from an Ethernet card")
    options = parse_options(datagram[HEAD.size :])
    kind = KINDS.get(int.from_bytes(options.get(KIND, b"")))
    if kind is None:
        raise NotDhcp("no kind of request that a server answers")
    return Question(
        kind=kind,
        mac=mac[:MAC_LENGTH].hex(":"),
        transaction=transaction,
        flags=flags,
        address=socket.inet_ntoa(address),
        relay=socket.inet_ntoa(relay),
        requested=dotted(options.get(REQUESTED)),
        server=dotted(options.get(SERVER)),
        hostname=options.get(HOST_NAME, b"").decode("utf-8", "replace").rstrip("\0"),
        wanted=tuple(options.get(WANTED, b"")),
    )


def parse_options(field: bytes) -> dict[int, bytes]:
    """Repeated options are concatenated (RFC 3396)."""
    options: dict[int, bytes] = {}
    position = 0
    while position < len(field) and field[position] != END:
        if field[position] == PAD:
            position += 1
            continue
        if position + 1 >= len(field):
            raise NotDhcp("an option without its length")
        code, length = field[position], field[position + 1]
        value = field[position + 2 : position + 2 + length]
        if len(value) < length:
            raise NotDhcp(f"option {code} is cut short")
        options[code] = options.get(code, b"") + value
        position += 2 + length
    return options


def dotted(value: bytes | None) -> str | None:
    if value is None:
        return None
    if len(value) != 4:
        raise NotDhcp("an address that is not four bytes long")
    return socket.inet_ntoa(value)


def answer(question: Question, offer: Offer) -> bytes | None:
    """The reply; None: no reply."""
    if question.kind == "discover":
        return reply(question, OFFER, address=offer.address, options=granted(offer))
    if question.kind == "inform":
        return reply(question, ACK, address=NO_ADDRESS, options=parameters(offer))
    if question.kind != "request" or question.server not in (None, offer.server):
        return None
    if (question.requested or question.address) != offer.address:
        return reply(question, NAK, address=NO_ADDRESS, options={SERVER: packed(offer.server)})
    return reply(question, ACK, address=offer.address, options=granted(offer))


def granted(offer: Offer) -> dict[int, bytes]:
    span = struct.Struct("!I")
    half, most = offer.seconds // 2, offer.seconds * 7 // 8
    if offer.seconds == FOR_EVER:
        half = most = FOR_EVER
    times = {SECONDS: span.pack(offer.seconds), RENEWAL: span.pack(half), REBINDING: span.pack(most)}
    return parameters(offer) | times


def parameters(offer: Offer) -> dict[int, bytes]:
    gateway = ipaddress.IPv4Interface(offer.gateway)
    options = {
        SERVER: packed(offer.server),
        MASK: gateway.netmask.packed,
        DNS: packed(offer.server),
        DOMAIN: offer.domain.encode("ascii"),
        ENDPOINT: packed(offer.wireserver),
    }
    if offer.router:
        options[ROUTER] = gateway.packed
    if offer.routes:
        routes = packed_routes(offer.routes, gateway=gateway.ip)
        options |= {ROUTES: routes, MICROSOFT_ROUTES: routes}
    if offer.hostname is not None:
        options[HOST_NAME] = offer.hostname.encode("ascii")
    return {code: value for code, value in options.items() if code not in offer.omit}


def packed_routes(routes: Iterable[str], *, gateway: ipaddress.IPv4Address) -> bytes:
    """RFC 3442: the prefix length, as many bytes of the network as that needs, and the router."""
    networks = [ipaddress.IPv4Network(route) for route in routes]
    return b"".join(
        bytes((one.prefixlen,)) + one.network_address.packed[: (one.prefixlen + 7) // 8] + gateway.packed
        for one in networks
    )


def packed(address: str) -> bytes:
    return socket.inet_aton(address)


def reply(question: Question, kind: int, *, address: str, options: Mapping[int, bytes]) -> bytes:
    own = packed(question.address if kind != NAK else NO_ADDRESS)
    mac = bytes.fromhex(question.mac.replace(":", ""))
    nothing = packed(NO_ADDRESS)
    head = HEAD.pack(
        ANSWERING, ETHERNET, MAC_LENGTH, 0, question.transaction, 0, question.flags,
        own, packed(address), nothing, packed(question.relay), mac, b"", b"", COOKIE,
    )  # fmt: skip
    body = b"".join(bytes((code, len(value))) + value for code, value in {KIND: bytes((kind,)), **options}.items())
    return (head + body + bytes((END,))).ljust(LEAST, b"\0")


class Dhcp:
    """Answers on one device, by MAC address; unknown clients get no answer. Records every request."""

    def __init__(self, device: str, leases: Mapping[str, Offer], ledger: Ledger) -> None:
        self._leases, self._ledger = leases, ledger
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._socket.bind(("", SERVER_PORT))
        self._socket.setblocking(False)
        self._stopped, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="fakeazure-dhcp", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self._thread.join()
        self._stopped.close()
        self._socket.close()

    def _serve(self) -> None:
        while self._stopped not in select.select((self._socket, self._stopped), (), ())[0]:
            with contextlib.suppress(OSError, NotDhcp):  # other datagrams, and a device that is down, are ignored
                self._attend(parse_request(self._socket.recv(4096)))

    def _attend(self, question: Question) -> None:
        offer = self._leases.get(question.mac)
        datagram = answer(question, offer) if offer else None
        refused = datagram is None or is_refusal(datagram)
        given = offer.address if offer and (question.kind == "release" or not refused) else ""
        self._ledger.add(
            Lease(
                t=self._ledger.now(),
                kind=question.kind,
                mac=question.mac,
                address=given,
                hostname=question.hostname,
            )
        )
        if datagram:
            # A client that renews listens at its address; one without an address receives only broadcasts.
            everybody = refused or question.address == NO_ADDRESS
            self._socket.sendto(datagram, (BROADCAST if everybody else question.address, CLIENT_PORT))


def is_refusal(datagram: bytes) -> bool:
    return parse_options(datagram[HEAD.size :])[KIND] == bytes((NAK,))
