"""The DHCP server: its parser, and its replies byte by byte."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakeazure.platform.dhcp import NotDhcp, Offer, Question, answer, offers_for, parse_options, parse_request
from fakeazure.platform.vm import Interface, Leases, Vm

pytestmark = pytest.mark.newer

MAC = "00:0d:3a:12:34:56"
OFFER = Offer()
WIRESERVER = bytes((168, 63, 129, 16))
GATEWAY = bytes((10, 0, 0, 1))
ROUTES = b"\x00" + GATEWAY + b"\x20" + WIRESERVER + GATEWAY + b"\x20" + bytes((169, 254, 169, 254)) + GATEWAY


def datagram(options: bytes, *, address: str = "0.0.0.0", operation: int = 1) -> bytes:
    own = bytes(map(int, address.split(".")))
    head = struct.pack("!BBBBIHH", operation, 1, 6, 0, 0xCAFE, 0, 0x8000) + own + bytes(12)
    return head + bytes.fromhex(MAC.replace(":", "")).ljust(16, b"\0") + bytes(192) + b"\x63\x82\x53\x63" + options


def ask(kind: str, **values: Any) -> Question:
    return Question(kind=kind, mac=MAC, transaction=0xCAFE, **values)


def answered(question: Question, offer: Offer = OFFER) -> tuple[bytes, dict[int, bytes]]:
    data = answer(question, offer)
    assert data is not None
    return data, parse_options(data[240:])


def test_a_request_is_read_with_the_name_that_the_machine_gives_itself() -> None:
    options = b"\x35\x01\x03" + b"\x00\x00" + b"\x32\x04\x0a\x00\x00\x04" + b"\x0c\x05web-1" + b"\x37\x03\x01\x79\xf5"
    options += b"\x36\x04" + WIRESERVER + b"\xff\x99\x99"
    assert parse_request(datagram(options, address="10.0.0.9")) == Question(
        kind="request",
        mac=MAC,
        transaction=0xCAFE,
        flags=0x8000,
        address="10.0.0.9",
        requested="10.0.0.4",
        server="168.63.129.16",
        hostname="web-1",
        wanted=(1, 121, 245),
    )


def test_an_option_in_two_parts_is_one() -> None:
    assert parse_options(b"\x0c\x02we\x00\x0c\x03b-1\xff") == {12: b"web-1"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "too short"),
        (datagram(b"")[:239], "too short"),
        (datagram(b"\x35\x01\x01\xff", operation=2), "no request from an Ethernet card"),
        (datagram(b"\x35\x01\x01\xff").replace(b"\x63\x82\x53\x63", b"BOOT"), "no request from an Ethernet card"),
        (datagram(b"\xff"), "no kind of request that a server answers"),
        (datagram(b"\x35\x01\x05\xff"), "no kind of request that a server answers"),
        (datagram(b"\x35\x01\x01\x0c"), "an option without its length"),
        (datagram(b"\x35\x01\x01\x0c\x05web"), "option 12 is cut short"),
        (datagram(b"\x35\x01\x03\x32\x03\x0a\x00\x00\xff"), "an address that is not four bytes long"),
    ],
)
def test_what_is_no_request_is_named(data: bytes, why: str) -> None:
    with pytest.raises(NotDhcp, match=why):
        parse_request(data)


@given(st.binary(max_size=400) | st.binary(max_size=200).map(datagram))
def test_no_datagram_is_fatal(data: bytes) -> None:
    try:
        question = parse_request(data)
    except NotDhcp:
        return
    reply = answer(question, OFFER)
    assert reply is None or reply[4:8] == data[4:8]


def test_an_offer_is_azures_to_the_byte() -> None:
    data, options = answered(ask("discover", flags=0x8000))
    assert data[:12] == struct.pack("!BBBBIHH", 2, 1, 6, 0, 0xCAFE, 0, 0x8000)
    assert data[12:28] == bytes(4) + bytes((10, 0, 0, 4)) + bytes(8)
    assert data[28:34].hex(":") == MAC
    assert data[236:240] == b"\x63\x82\x53\x63"
    assert options == {
        53: b"\x02",
        54: WIRESERVER,
        1: b"\xff\xff\xff\x00",
        3: GATEWAY,
        6: WIRESERVER,
        15: OFFER.domain.encode(),
        51: b"\xff" * 4,
        58: b"\xff" * 4,
        59: b"\xff" * 4,
        121: ROUTES,
        249: ROUTES,
        245: WIRESERVER,
    }
    assert OFFER.domain.endswith(".internal.cloudapp.net")


def test_no_answer_is_shorter_than_old_clients_bear() -> None:
    refusal, _ = answered(ask("request", requested="10.9.9.9"))
    assert len(refusal) == 300


def test_a_request_for_the_offered_address_is_granted_and_for_another_refused() -> None:
    data, options = answered(ask("request", requested="10.0.0.4", server="168.63.129.16"))
    assert (options[53], data[16:20]) == (b"\x05", bytes((10, 0, 0, 4)))
    data, options = answered(ask("request", requested="192.168.1.7"))
    assert options == {53: b"\x06", 54: WIRESERVER}
    assert data[12:20] == bytes(8)


def test_a_renewal_is_granted_by_the_address_that_the_machine_has() -> None:
    data, options = answered(ask("request", address="10.0.0.4"))
    assert (options[53], data[12:16], data[16:20]) == (b"\x05", bytes((10, 0, 0, 4)), bytes((10, 0, 0, 4)))


def test_who_only_informs_itself_gets_no_address_and_no_lease() -> None:
    data, options = answered(ask("inform", address="10.0.0.4"))
    assert data[16:20] == bytes(4)
    assert options[245] == WIRESERVER
    assert not {51, 58, 59} & options.keys()


def test_a_release_and_anothers_offer_are_not_answered() -> None:
    assert answer(ask("release", address="10.0.0.4"), OFFER) is None
    assert answer(ask("request", requested="10.0.0.4", server="10.0.0.2"), OFFER) is None


def test_a_lease_that_ends_is_renewed_at_half_and_rebound_at_seven_eighths() -> None:
    _, options = answered(ask("discover"), Offer(seconds=800))
    assert [int.from_bytes(options[code]) for code in (51, 58, 59)] == [800, 400, 700]


def test_a_host_name_is_sent_only_where_it_is_asked_for() -> None:
    assert answered(ask("discover"), Offer(hostname="web-1"))[1][12] == b"web-1"


def test_a_wireserver_elsewhere_is_in_option_245_and_in_the_routes_and_the_server_stays_where_it_is() -> None:
    (offer,) = offers_for(Vm(), wireserver="10.7.7.7").values()
    _, options = answered(ask("discover"), offer)
    assert (options[245], options[54], options[6]) == (bytes((10, 7, 7, 7)), WIRESERVER, WIRESERVER)
    assert options[121] == options[249] == ROUTES.replace(WIRESERVER, bytes((10, 7, 7, 7)))
    granted, _ = answered(ask("request", requested="10.0.0.4", server="168.63.129.16"), offer)
    assert granted[16:20] == bytes((10, 0, 0, 4))


def test_an_option_can_be_left_out_or_lie() -> None:
    (offer,) = offers_for(Vm(), leases=Leases(omit=(245, 121))).values()
    assert {3, 249} == {3, 121, 245, 249} & answered(ask("discover"), offer)[1].keys()
    (offer,) = offers_for(Vm(), leases=Leases(wireserver="255.255.255.255")).values()
    assert answered(ask("discover"), offer)[1][245] == b"\xff" * 4


def test_a_machines_interfaces_are_known_by_their_addresses_and_only_the_primary_one_has_routes() -> None:
    vm = Vm(nics=(Interface(address="10.1.2.70", prefix=26), Interface(mac="00:0D:3A:AA:BB:CC")))
    first, second = offers_for(vm).items()
    assert first == (vm.interfaces[0].mac, Offer(address="10.1.2.70", gateway="10.1.2.65/26"))
    assert second == ("00:0d:3a:aa:bb:cc", Offer(address="10.0.0.5", routes=()))
    options = answered(ask("discover"), first[1])[1]
    assert (options[1], options[3]) == (b"\xff\xff\xff\xc0", bytes((10, 1, 2, 65)))
    options = answered(ask("discover"), second[1])[1]
    assert not {121, 249} & options.keys()
    assert (options[3], options[6]) == (bytes((10, 0, 0, 1)), WIRESERVER)  # a router and a name server, as on Azure
    assert [options[code] for code in (51, 58, 59)] == [b"\xff" * 4] * 3


def test_the_primary_interface_need_not_be_the_first_and_a_lease_may_lack_a_router() -> None:
    vm = Vm(nics=(Interface(router=False), Interface(primary=True)))
    first, second = (answered(ask("discover"), offer)[1].keys() for offer in offers_for(vm).values())
    assert {3, 121, 249} & first == set()
    assert {3, 121, 249} & second == {3, 121, 249}
