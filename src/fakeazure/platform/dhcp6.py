"""IPv6 behind one interface: router advertisements, and a DHCPv6 server that gives out the interface's address."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from fakeazure.platform.addresses import ROUTER6
from fakeazure.platform.events import Lease
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.vm import Interface

SERVER_PORT = 547
ALL_NODES, ALL_ROUTERS, ALL_SERVERS = "ff02::1", "ff02::2", "ff02::1:2"
SOLICITATION, ADVERTISEMENT = 133, 134  # ICMPv6
MANAGED = 0xC0  # addresses and other settings come from DHCPv6
ROUTER_SECS = 9000
ADVERTISE_SECS = 200.0  # without a solicitation, as routers do
FOR_EVER = 0xFFFFFFFF

SOLICIT, ADVERTISE, REQUEST, CONFIRM, RENEW, REBIND, REPLY, RELEASE, DECLINE, INFORM = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)
KINDS = {SOLICIT: "solicit", REQUEST: "request", CONFIRM: "request", RENEW: "request", REBIND: "request",
         RELEASE: "release", DECLINE: "release", INFORM: "inform"}  # fmt: skip
CLIENT_ID, SERVER_ID, ADDRESSES, ADDRESS, RAPID_COMMIT = 1, 2, 3, 5, 14
HEAD = struct.Struct("!HH")


class NotDhcp6(ValueError):
    """Not a message of a DHCPv6 client."""


def parse_options(field: bytes) -> dict[int, bytes]:
    """The first of each kind."""
    options: dict[int, bytes] = {}
    while field:
        if len(field) < HEAD.size:
            raise NotDhcp6("an option without its length")
        code, length = HEAD.unpack_from(field)
        value = field[HEAD.size : HEAD.size + length]
        if len(value) < length:
            raise NotDhcp6(f"option {code} is cut short")
        options.setdefault(code, value)
        field = field[HEAD.size + length :]
    return options


def option(code: int, value: bytes) -> bytes:
    return HEAD.pack(code, len(value)) + value


def answer(message: bytes, *, address: str, mac: str) -> tuple[str, bytes]:
    """The kind of the message, in the ledger's words, and the reply."""
    if len(message) < 4 or message[0] not in KINDS:
        raise NotDhcp6("no message that a server answers")
    options = parse_options(message[4:])
    if CLIENT_ID not in options:
        raise NotDhcp6("no client identifier")
    rapid = message[0] == SOLICIT and RAPID_COMMIT in options
    kind = ADVERTISE if message[0] == SOLICIT and not rapid else REPLY
    server = struct.pack("!HH", 3, 1) + bytes.fromhex(mac.replace(":", ""))
    reply = bytes((kind,)) + message[1:4] + option(CLIENT_ID, options[CLIENT_ID]) + option(SERVER_ID, server)
    if rapid:
        reply += option(RAPID_COMMIT, b"")
    if len(options.get(ADDRESSES, b"")) >= 4 and KINDS[message[0]] != "release":
        given = socket.inet_pton(socket.AF_INET6, address) + struct.pack("!II", FOR_EVER, FOR_EVER)
        times = struct.pack("!II", FOR_EVER, FOR_EVER)
        reply += option(ADDRESSES, options[ADDRESSES][:4] + times + option(ADDRESS, given))
    return KINDS[message[0]], reply


def advertisement() -> bytes:
    """A router without prefixes: addresses come from DHCPv6 alone, as on Azure. The kernel adds the checksum."""
    return struct.pack("!BBHBBHII", ADVERTISEMENT, 0, 0, 64, MANAGED, ROUTER_SECS, 0, 0)


class Ipv6:
    """Answers on one device. Records every DHCPv6 message."""

    def __init__(self, device: str, nic: Interface, ledger: Ledger) -> None:
        self._device, self._nic, self._ledger = device, nic, ledger
        self._index = socket.if_nametoindex(device)
        self._router = self._open(socket.SOCK_RAW, socket.IPPROTO_ICMPV6, group=ALL_ROUTERS)
        self._server = self._open(socket.SOCK_DGRAM, 0, group=ALL_SERVERS)
        self._server.bind(("::", SERVER_PORT))
        self._stopped, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="fakeazure-ipv6", daemon=True)

    def _open(self, kind: int, protocol: int, *, group: str) -> socket.socket:
        one = socket.socket(socket.AF_INET6, kind, protocol)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self._device.encode() + b"\0")
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)  # others are not believed
        member = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", self._index)
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
        one.setblocking(False)
        return one

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self._thread.join()
        for one in (self._stopped, self._router, self._server):
            one.close()

    def _serve(self) -> None:
        work: dict[socket.socket, Callable[[], None]] = {self._router: self._solicited, self._server: self._attend}
        while self._stopped not in (ready := select.select((*work, self._stopped), (), (), ADVERTISE_SECS)[0]):
            # Other datagrams, and a device that is down, are ignored.
            with contextlib.suppress(OSError, NotDhcp6):
                for one in ready:
                    work[one]()
                if not ready:
                    self._advertise()

    def _solicited(self) -> None:
        if self._router.recv(1500)[:1] == bytes((SOLICITATION,)):
            self._advertise()

    def _advertise(self) -> None:
        source = socket.inet_pton(socket.AF_INET6, ROUTER6) + struct.pack("@I", self._index)
        control = [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, source)]
        self._router.sendmsg([advertisement()], control, 0, (ALL_NODES, 0, 0, self._index))

    def _attend(self) -> None:
        message, sender = self._server.recvfrom(4096)
        kind, reply = answer(message, address=self._nic.ipv6[0], mac=self._nic.mac)
        now = self._ledger.now()
        self._ledger.add(Lease(t=now, kind=kind, mac=self._nic.mac, address=self._nic.ipv6[0]))
        self._server.sendto(reply, sender)
