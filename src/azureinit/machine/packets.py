"""UDP broadcasts on a link that has no address yet, over a packet socket.

This module builds and checks headers and checksums itself. The kernel's network configuration is neither used nor
changed.
"""

from __future__ import annotations

import os
import socket
import struct

from azureinit.machine.files import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IPV4 = 0x0800  # EtherType
UDP = 17
IP_HEAD = struct.Struct("!BBHHHBBH4s4s")
UDP_HEAD = struct.Struct("!HHHH")
VERSION_AND_LENGTH, LIFE = 0x45, 64
FRAGMENT = 0x3FFF  # mask: more fragments follow, or this is not the first
ANY_ADDRESS, BROADCAST = bytes(4), b"\xff" * 4
EVERY_CARD = b"\xff" * 6
SERVER, CLIENT = 67, 68
PACKET, AUXDATA = 263, 8
UNSUMMED = 0x8  # TP_STATUS_CSUMNOTREADY: sent on this computer, and no card has filled in the checksum
LARGEST = 1 << 16


class Broadcast:
    """UDP from the DHCP client's port to the server's, and the answers."""

    def __init__(self, link: str) -> None:
        self.link = link
        try:
            self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, socket.htons(IPV4))
        except OSError as error:
            raise local_error(error, "open a packet socket on", link) from error
        try:
            self.wire.setsockopt(PACKET, AUXDATA, 1)
            self.wire.bind((link, IPV4))
        except OSError as error:
            self.wire.close()
            raise local_error(error, "listen on", link) from error

    def __enter__(self) -> Broadcast:
        return self

    def __exit__(self, *_: Any) -> None:
        self.wire.close()

    def send(self, content: bytes) -> None:
        packet = udp_packet(content, source=CLIENT, destination=SERVER)
        try:
            self.wire.sendto(packet, (self.link, IPV4, 0, 0, EVERY_CARD))
        except OSError as error:
            raise local_error(error, "send on", self.link) from error

    def receive(self, seconds: float) -> bytes | None:
        """The content of one datagram for the client's port; None for any other packet and after a timeout."""
        self.wire.settimeout(seconds or 0.001)
        try:
            packet, about, _flags, _sender = self.wire.recvmsg(LARGEST, socket.CMSG_SPACE(32))
        except OSError as error:
            if error.errno is None:  # a timeout; before Python 3.10 it is not a TimeoutError
                return None
            raise local_error(error, "listen on", self.link) from error
        return parse_udp(packet, port=CLIENT, summed=not _is_unsummed(about))


def new_transaction() -> int:
    return int.from_bytes(os.urandom(4), "big")


def _is_unsummed(about: list[tuple[int, int, bytes]]) -> bool:
    return any(
        level == PACKET and kind == AUXDATA and len(data) >= 4 and struct.unpack_from("=I", data)[0] & UNSUMMED
        for level, kind, data in about
    )


# ---- IPv4 and UDP


def udp_packet(content: bytes, *, source: int, destination: int) -> bytes:
    length = UDP_HEAD.size + len(content)
    bare = UDP_HEAD.pack(source, destination, length, 0)
    sum_ = checksum(_pseudo(ANY_ADDRESS, BROADCAST, length) + bare + content) or 0xFFFF  # 0 means: no checksum
    udp = UDP_HEAD.pack(source, destination, length, sum_) + content
    fields = (VERSION_AND_LENGTH, 0, IP_HEAD.size + length, 0, 0, LIFE, UDP)
    head = IP_HEAD.pack(*fields, checksum(IP_HEAD.pack(*fields, 0, ANY_ADDRESS, BROADCAST)), ANY_ADDRESS, BROADCAST)
    return head + udp


def parse_udp(packet: bytes, *, port: int, summed: bool = True) -> bytes | None:
    """The content of a complete datagram for that port with a valid checksum; None for any other packet."""
    if len(packet) < IP_HEAD.size or packet[0] >> 4 != 4:
        return None
    size = (packet[0] & 0xF) * 4
    _, _, total, _, fragment, _, protocol, _, source, destination = IP_HEAD.unpack_from(packet)
    if size < IP_HEAD.size or not size + UDP_HEAD.size <= total <= len(packet) or fragment & FRAGMENT:
        return None
    if protocol != UDP or checksum(packet[:size]):
        return None
    udp = packet[size:total]  # Ethernet pads short packets
    _, to, length, sum_ = UDP_HEAD.unpack_from(udp)
    if to != port or not UDP_HEAD.size <= length <= len(udp):
        return None
    if summed and sum_ and checksum(_pseudo(source, destination, length) + udp[:length]):
        return None
    return udp[UDP_HEAD.size : length]


def _pseudo(source: bytes, destination: bytes, length: int) -> bytes:
    """The pseudo header, which the checksum covers too."""
    return source + destination + struct.pack("!BBH", 0, UDP, length)


def checksum(data: bytes) -> int:
    """RFC 1071; zero for data that includes its correct checksum."""
    even = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(even) // 2}H", even))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
