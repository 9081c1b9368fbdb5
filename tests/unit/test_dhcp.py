"""DHCP messages and their packets: the exact bytes that are sent, and which answers are accepted."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from azureinit.machine.dhcp import (
    chosen_routes,
    discover,
    parse_classless_routes,
    parse_offer,
    parse_options,
    parse_reply,
)
from azureinit.machine.packets import checksum, parse_udp, udp_packet
from support.dhcp_messages import MAC, XID, answer

WIRESERVER, GATEWAY = bytes((168, 63, 129, 16)), bytes((10, 0, 0, 1))
OFFER = b"\x35\x01\x02"


def test_what_is_sent_asks_for_all_that_we_need_and_takes_nothing() -> None:
    sent = discover(mac=MAC, transaction=XID, seconds=3)
    assert sent[:12] == struct.pack("!BBBBIHH", 1, 1, 6, 0, XID, 3, 0x8000)
    assert sent[12:28] == bytes(16)
    assert sent[28:44] == MAC.ljust(16, b"\0")
    assert sent[236:240] == b"\x63\x82\x53\x63"
    assert parse_options(sent[240:]) == {53: b"\x01", 55: bytes((1, 3, 121, 249, 245))}
    assert len(sent) == 300


def test_an_offer_is_read() -> None:
    routes = b"\x00" + GATEWAY + b"\x20" + WIRESERVER + GATEWAY
    data = OFFER + b"\x36\x04" + WIRESERVER + b"\x00\x03\x04" + GATEWAY + b"\xf5\x04" + WIRESERVER
    offer = parse_offer(answer(data + b"\x79" + bytes((len(routes),)) + routes + b"\xff"), mac=MAC, transaction=XID)
    assert offer is not None
    assert (offer.address, offer.server, offer.router) == ("10.0.0.4", "168.63.129.16", "10.0.0.1")
    assert offer.wireserver == "168.63.129.16"
    assert offer.routes == (("0.0.0.0", 0, "10.0.0.1"), ("168.63.129.16", 32, "10.0.0.1"))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (answer(OFFER + b"\xff", xid=XID + 1), "somebody else's question"),
        (answer(OFFER + b"\xff", mac=bytes(6)), "somebody else's card"),
        (answer(OFFER + b"\xff", operation=1), "a question itself"),
        (answer(OFFER + b"\xff", cookie=b"BOOT"), "not DHCP"),
        (answer(b"\x35\x01\x05\xff"), "an acknowledgement"),
        (answer(b"\x35\x00\xff"), "no kind"),
        (answer(b"\x35\x02\x02\x02\xff"), "two kinds"),
        (answer(b"\xff"), "none at all"),
        (answer(b"")[:239], "cut short"),
        (b"", "nothing"),
    ],
)
def test_what_is_no_offer_to_us_is_none(message: bytes, why: str) -> None:
    assert parse_offer(message, mac=MAC, transaction=XID) is None, why


@pytest.mark.parametrize(
    ("option", "wireserver"),
    [
        (b"", None),
        (b"\xf5\x00", ""),
        (b"\xf5\x05\x01\x02\x03\x04\x05", ""),
        (b"\xf5\x04\x00\x00\x00\x00", "0.0.0.0"),
        (b"\xf5\x02\xa8\x3f\xf5\x02\x81\x10", "168.63.129.16"),  # in two parts
        (b"\xf5\x04\xa8\x3f\x81", None),  # cut short: what was before it counts
    ],
)
def test_option_245_is_four_bytes_or_told_not_to_be(option: bytes, wireserver: str | None) -> None:
    offer = parse_offer(answer(OFFER + option), mac=MAC, transaction=XID)
    assert offer is not None and offer.wireserver == wireserver


@pytest.mark.parametrize(
    ("overload", "file", "name", "found"),
    [
        (1, b"\xf5\x04" + WIRESERVER + b"\xff", b"", "168.63.129.16"),
        (2, b"", b"\xf5\x04" + WIRESERVER + b"\xff", "168.63.129.16"),
        (3, b"\xf5\x02" + WIRESERVER[:2] + b"\xff", b"\xf5\x02" + WIRESERVER[2:] + b"\xff", "168.63.129.16"),
        (0, b"\xf5\x04" + WIRESERVER + b"\xff", b"", None),  # a file's name, not options
    ],
)
def test_options_go_on_in_the_fields_that_are_lent_to_them(
    overload: int, file: bytes, name: bytes, found: str | None
) -> None:
    message = answer(OFFER + bytes((52, 1, overload)) + b"\xff", file=file, name=name)
    offer = parse_offer(message, mac=MAC, transaction=XID)
    assert offer is not None and offer.wireserver == found


@pytest.mark.parametrize(
    ("data", "routes"),
    [
        (b"", ()),
        (b"\x00" + GATEWAY, (("0.0.0.0", 0, "10.0.0.1"),)),
        (b"\x18\x0a\x00\x05" + bytes(4), (("10.0.5.0", 24, ""),)),
        (b"\x11\x0a\x01\xff" + GATEWAY, (("10.1.128.0", 17, "10.0.0.1"),)),  # bits behind the prefix do not count
        (b"\x20" + WIRESERVER + GATEWAY, (("168.63.129.16", 32, "10.0.0.1"),)),
        (b"\x21" + WIRESERVER + GATEWAY, ()),
        (b"\x00" + GATEWAY + b"\x20" + WIRESERVER + GATEWAY[:3], (("0.0.0.0", 0, "10.0.0.1"),)),
        (b"\x00" + GATEWAY + b"\xff" + WIRESERVER + GATEWAY, (("0.0.0.0", 0, "10.0.0.1"),)),
        (b"\x00", ()),
    ],
)
def test_classless_routes(data: bytes, routes: tuple[tuple[str, int, str], ...]) -> None:
    assert parse_classless_routes(data) == routes


def test_microsofts_routes_count_only_where_there_are_no_others() -> None:
    ours, theirs = b"\x00" + GATEWAY, b"\x00\x0a\x00\x00\x02"
    assert chosen_routes({121: ours, 249: theirs}) == (("0.0.0.0", 0, "10.0.0.1"),)
    assert chosen_routes({121: b"\x21", 249: theirs}) == (("0.0.0.0", 0, "10.0.0.2"),)
    assert chosen_routes({249: theirs}) == (("0.0.0.0", 0, "10.0.0.2"),)
    assert chosen_routes({}) == ()


ADDRESSES = st.integers(0, 2**32 - 1).map(lambda number: number.to_bytes(4, "big"))


@given(st.lists(st.tuples(st.integers(0, 32), ADDRESSES, ADDRESSES), max_size=8))
def test_whatever_routes_are_packed_are_the_ones_read(routes: list[tuple[int, bytes, bytes]]) -> None:
    packed = b"".join(bytes((p,)) + network[: (p + 7) // 8] + gateway for p, network, gateway in routes)
    found = parse_classless_routes(packed)
    assert [(prefix, gateway) for _network, prefix, gateway in found] == [
        (p, ".".join(map(str, gateway)) if any(gateway) else "") for p, _network, gateway in routes
    ]


@given(st.one_of(st.binary(max_size=600), st.binary(max_size=300).map(answer), st.binary(max_size=120).map(
    lambda data: answer(OFFER + b"\x34\x01\x03" + data, file=data, name=data[:64]))))  # fmt: skip
def test_no_answer_is_a_traceback(message: bytes) -> None:
    reply = parse_reply(message)
    if reply is not None:
        offer = parse_offer(message, mac=reply.mac, transaction=reply.transaction)
        assert offer is None or offer.address.count(".") == 3


@given(st.dictionaries(st.integers(1, 254), st.binary(max_size=255), max_size=8), st.integers(0, 3))
def test_options_come_out_as_they_went_in(options: dict[int, bytes], pads: int) -> None:
    packed = b"".join(bytes(pads) + bytes((code, len(value))) + value for code, value in options.items())
    assert parse_options(packed + b"\xff\x01\x02") == options
    assert parse_options(packed) == options


# ---- what carries it


@given(st.binary(max_size=700))
def test_a_packet_of_ours_is_whole_and_undamaged(content: bytes) -> None:
    packet = udp_packet(content, source=67, destination=68)
    assert parse_udp(packet, port=68) == content
    assert parse_udp(packet + bytes(7), port=68) == content  # Ethernet fills up what is short
    assert parse_udp(packet, port=67) is None
    assert parse_udp(packet[:-1], port=68) is None
    assert packet[12:20] == bytes(4) + b"\xff" * 4


@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_bit_that_fell_over_is_noticed_wherever_it_is(content: bytes, data: st.DataObject) -> None:
    packet = bytearray(udp_packet(content, source=67, destination=68))
    place = data.draw(st.integers(0, len(packet) - 1))
    packet[place] ^= 1 << data.draw(st.integers(0, 7))
    if bytes(packet[26:28]) != bytes(2):  # no checksum is no claim
        assert parse_udp(bytes(packet), port=68) is None


def test_a_checksum_that_is_not_there_or_not_yet_is_not_checked() -> None:
    packet = bytearray(udp_packet(b"offer", source=67, destination=68))
    packet[26:28] = b"\x12\x34"
    assert parse_udp(bytes(packet), port=68) is None
    assert parse_udp(bytes(packet), port=68, summed=False) == b"offer"
    packet[26:28] = bytes(2)
    assert parse_udp(bytes(packet), port=68) == b"offer"


def test_a_piece_of_a_packet_is_no_packet() -> None:
    packet = bytearray(udp_packet(b"offer", source=67, destination=68))
    packet[6:8] = b"\x20\x00"
    packet[10:12] = bytes(2)
    packet[10:12] = checksum(bytes(packet[:20])).to_bytes(2, "big")
    assert parse_udp(bytes(packet), port=68) is None


@given(st.binary(max_size=100))
def test_no_packet_is_a_traceback(packet: bytes) -> None:
    for data in (packet, b"\x45" + packet, b"\x4f" + packet):
        assert parse_udp(data, port=68) is None or data[9] == 17


def test_the_checksum_is_that_of_rfc_1071() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
    assert checksum(b"\x01") == 0xFEFF
