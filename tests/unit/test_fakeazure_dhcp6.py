"""DHCPv6 of the simulated platform: what it answers to each message of a client."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, strategies as st

from fakeazure.platform.dhcp6 import NotDhcp6, advertisement, answer, option, parse_options

DUID = b"\x00\x03\x00\x01\x00\x0d\x3a\x12\x34\x56"
IAID = b"\xae\x83\xd3\x26"
ADDRESS, MAC = "fd00:1::4", "00:0d:3a:12:34:56"


def message(kind: int, *options: bytes) -> bytes:
    return bytes((kind,)) + b"abc" + b"".join((option(1, DUID), *options))


def answered(data: bytes) -> tuple[str, int, dict[int, bytes]]:
    kind, reply = answer(data, address=ADDRESS, mac=MAC)
    assert reply[1:4] == b"abc"
    return kind, reply[0], parse_options(reply[4:])


def test_a_client_gets_the_interfaces_address_for_ever() -> None:
    asks = option(3, IAID + bytes(8))
    for kind, reply, name in ((1, 2, "solicit"), (3, 7, "request"), (5, 7, "request"), (6, 7, "request")):
        said, given_kind, options = answered(message(kind, asks))
        assert (said, given_kind) == (name, reply)
        assert (options[1], options[2]) == (DUID, b"\x00\x03\x00\x01\x00\x0d\x3a\x12\x34\x56")
        assert options[3][:12] == IAID + b"\xff" * 8
        assert parse_options(options[3][12:])[5] == socket.inet_pton(socket.AF_INET6, ADDRESS) + b"\xff" * 8


def test_a_client_in_a_hurry_gets_it_at_once() -> None:
    said, kind, options = answered(message(1, option(14, b""), option(3, IAID + bytes(8))))
    assert (said, kind, options[14]) == ("solicit", 7, b"")


def test_an_address_is_neither_given_to_a_release_nor_to_a_question_without_a_need_for_it() -> None:
    assert set(answered(message(8, option(3, IAID + bytes(8))))[2]) == {1, 2}
    said, kind, options = answered(message(11))
    assert (said, kind, set(options)) == ("inform", 7, {1, 2})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no message that a server answers"),
        (b"\x07abc", "no message that a server answers"),
        (b"\x01abc", "no client identifier"),
        (b"\x01abc\x00", "an option without its length"),
        (b"\x01abc\x00\x01\x00\x09x", "option 1 is cut short"),
    ],
)
def test_other_datagrams_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(NotDhcp6, match=why):
        answer(data, address=ADDRESS, mac=MAC)


@given(st.binary(max_size=200))
def test_no_datagram_breaks_the_server(data: bytes) -> None:
    try:
        kind, _reply = answer(data, address=ADDRESS, mac=MAC)
    except NotDhcp6:
        return
    assert kind in ("solicit", "request", "release", "inform")


def test_the_router_leaves_addresses_to_dhcpv6() -> None:
    packet = advertisement()
    assert (packet[0], packet[5], len(packet)) == (134, 0xC0, 16)
