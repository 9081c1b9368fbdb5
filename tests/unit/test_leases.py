"""DHCP leases in the format of each client, and which of them is in force."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.addresses import is_host_address, parse_ipv4
from azureinit.facts.dhclient import octets, parse_blocks, parse_expiry
from azureinit.facts.leases import FOREVER, Lease, Standing, parse_leases, read_standing
from azureinit.machine import Machine
from support.dhcp_messages import answer
from support.wire import Ticking

MAC = "00:0d:3a:12:34:56"
ROUTES = (
    ("0.0.0.0", 0, "10.0.0.1"),
    ("168.63.129.16", 32, "10.0.0.1"),
    ("169.254.169.254", 32, "10.0.0.1"),
)
# As systemd 257, NetworkManager 1.42 and 1.52, and dhclient 4.4 wrote them down.
NETWORKD = b"""\
# This is private data. Do not parse.
ADDRESS=10.0.0.4
NETMASK=255.255.255.0
ROUTER=10.0.0.1
SERVER_ADDRESS=168.63.129.16
T1=infinity
T2=infinity
LIFETIME=infinity
DNS=168.63.129.17
CLASSLESS_ROUTES=0.0.0.0/0,10.0.0.1 168.63.129.16/32,10.0.0.1 169.254.169.254/32,10.0.0.1
CLIENTID=ff922f61d900020000ab1108fe466c1b60eee9
OPTION_245=a83f8110
OPTION_249=000a00000220a83f81100a000002
"""
NETWORK_MANAGER = b"""\
[device]
managed=true
perm-hw-addr-fake=00:0D:3A:12:34:56
route-metric-default-effective=100

[dhcp4]
dhcp4.dhcp_client_identifier=01:00:0d:3a:12:34:56
dhcp4.dhcp_lease_time=4294967295
dhcp4.dhcp_server_identifier=168.63.129.16
dhcp4.domain_name_servers=168.63.129.17
dhcp4.ip_address=10.0.0.4
dhcp4.ms_classless_static_routes=0.0.0.0/0 10.0.0.2
dhcp4.private_245=a8:3f:81:10
dhcp4.rfc3442_classless_static_routes=0.0.0.0/0 10.0.0.1 168.63.129.16/32 10.0.0.1 169.254.169.254/32 10.0.0.1
dhcp4.routers=10.0.0.1
dhcp4.subnet_mask=255.255.255.0
"""
DHCLIENT = b"""\
default-duid "\\000\\001\\000\\001{;";
lease {
  interface "eth0";
  fixed-address 10.0.0.4;
  option subnet-mask 255.255.255.0;
  option dhcp-lease-time 4294967295;
  option routers 10.0.0.1;
  option domain-name-servers 168.63.129.17;
  option dhcp-server-identifier 168.63.129.16;
  option rfc3442-classless-static-routes 0,10,0,0,1,32,168,63,129,16,10,0,0,1,32,169,254,169,254,10,0,0,1;
  option unknown-245 a8:3f:81:10;
  option unknown-249 0:a:0:0:2;
  option domain-name "odd; } \\"names\\" # all";  # a remark; }
  renew 4 2162/12/23 11:19:05;
  expire 4 2162/12/23 11:19:05;
}
"""


@pytest.mark.parametrize("data", [NETWORKD, NETWORK_MANAGER, DHCLIENT])
def test_each_client_keeps_the_wireserver_and_the_routes_and_the_name_server_is_neither(data: bytes) -> None:
    (lease,) = parse_leases(data, client="c", link="eth0")
    assert (lease.address, lease.server, lease.wireserver) == ("10.0.0.4", "168.63.129.16", "168.63.129.16")
    assert lease.routes == ROUTES
    assert lease.lifetime == FOREVER
    assert (lease.link, lease.odd) == ("eth0", "")


def test_a_packet_that_was_kept_tells_whose_it_is() -> None:
    options = b"\x35\x01\x05\x33\x04\x00\x00\x0e\x10\xf5\x04\xa8\x3f\x81\x10\xf9\x05\x00\x0a\x00\x00\x01\xff"
    (lease,) = parse_leases(answer(options), client="dhcpcd", link="eth0", written=1000.0)
    assert lease == Lease(
        link="eth0", client="dhcpcd", address="10.0.0.4", wireserver="168.63.129.16", lifetime=3600, expires=4600.0,
        routes=ROUTES[:1], mac=MAC,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "routes"),
    [
        ((b"", b""), ROUTES),
        ((b"CLASSLESS_ROUTES", b"NOTHING"), (("0.0.0.0", 0, "10.0.0.2"), ("168.63.129.16", 32, "10.0.0.2"))),
        ((b"0.0.0.0/0,10.0.0.1 ", b"0.0.0.0/0,0.0.0.0 "), (("0.0.0.0", 0, ""), *ROUTES[1:])),
        ((b"0.0.0.0/0,10", b"0.0.0.0/33,10"), (("0.0.0.0", 0, "10.0.0.2"), ("168.63.129.16", 32, "10.0.0.2"))),
    ],
)
def test_microsofts_routes_stand_in_for_others_that_are_missing(
    changed: tuple[bytes, bytes], routes: tuple[tuple[str, int, str], ...]
) -> None:
    (lease,) = parse_leases(NETWORKD.replace(*changed), client="c", link="eth0")
    assert lease.routes == routes


GIVEN = "10.0.0.1"


@pytest.mark.parametrize(
    ("value", "routes"),
    [
        # Red Hat's dhclient: prefix and octets of the network, a blank, the gateway; commas between routes.
        ("0 10.0.0.1,32.168.63.129.16 10.0.0.1", ROUTES[:2]),
        ("0 10.0.0.1, 32.168.63.129.16 10.0.0.1, 32.169.254.169.254 10.0.0.1", ROUTES),
        ("24.172.19.4 172.19.4.1,12.10.16 10.0.0.1", (("172.19.4.0", 24, "172.19.4.1"), ("10.16.0.0", 12, GIVEN))),
        ("0 10.0.0.1", ROUTES[:1]),
        # Debian's, and options that a client has no name for.
        ("0,10,0,0,1,32,168,63,129,16,10,0,0,1", ROUTES[:2]),
        ("0:a:0:0:1:20:a8:3f:81:10:a:0:0:1", ROUTES[:2]),
        # What stands before the error counts.
        ("0 10.0.0.1,32.168.63.129.16 10.0.0.1,24.10.0 10.0", ROUTES[:2]),
        ("0 10.0.0.1,33.168.63.129.16 10.0.0.1", ROUTES[:1]),
        ("0 10.0.0.1,32.168.63.129.256 10.0.0.1", ROUTES[:1]),
        ("0,10,0,0,1,32,168,63,129,sixteen,10,0,0,1", ROUTES[:1]),
        ("0,10,0,0,1,8,10,10,0,0", ROUTES[:1]),
        ("0:a:0:0:1:20:a8:3f:81:xx:a:0:0:1", ROUTES[:1]),
        ("0.0.0.0/0,10.0.0.1 168.63.129.16/32,10.0.0.1 169.254.169.254/99,10.0.0.1", ROUTES[:2]),
        # Nothing does: then the router is the way.
        ("32,169,254,169,254,10,0,0", (("0.0.0.0", 0, "10.0.0.7"),)),
        ("33,0", (("0.0.0.0", 0, "10.0.0.7"),)),
        ("routes", (("0.0.0.0", 0, "10.0.0.7"),)),
    ],
)
@pytest.mark.parametrize("name", ["classless-static-routes", "rfc3442-classless-static-routes", "unknown-121"])
def test_routes_are_read_in_each_form_up_to_the_first_error(
    name: str, value: str, routes: tuple[tuple[str, int, str], ...]
) -> None:
    text = f"lease {{\n fixed-address 10.0.0.4;\n option routers 10.0.0.7;\n option {name} {value};\n}}\n"
    (lease,) = parse_leases(text.encode(), client="dhclient", link="eth0")
    assert lease.routes == routes


@pytest.mark.parametrize("blank", ["\x1f", "\x1c", "\x85", "\u2003", "\u00a0"])
def test_what_only_python_takes_for_a_blank_is_none(blank: str) -> None:
    (lease,) = parse_leases(f"ip_address=10.0.0.4\nprivate_245=a{blank}:3f:81:10\n".encode(), client="c", link="eth0")
    assert lease.wireserver == "" and lease.odd


def test_without_routes_the_router_is_the_way() -> None:
    data = b"ADDRESS=10.0.0.4\nROUTER=10.0.0.1 10.0.0.9\n"
    assert parse_leases(data, client="c", link="eth0")[0].routes == ROUTES[:1]
    assert parse_leases(b"ADDRESS=10.0.0.4\nROUTER=x\n", client="c", link="eth0")[0].routes == ()


@pytest.mark.parametrize(
    ("said", "address", "odd"),
    [
        ("option unknown-245 a8:3f:81:5;", "168.63.129.5", ""),  # dhclient leaves a zero out
        ('option unknown-245 "defg";', "100.101.102.103", ""),  # and takes what can be printed for text
        (r'option unknown-245 "\250?\201\020";', "168.63.129.16", ""),
        (r'option option-245 "\"\\;}";', "34.92.59.125", ""),
        ("option unknown-245 a8:3f:81:10:11;", "", "'a8:3f:81:10:11'"),
        ("option unknown-245 a8:3f:81;", "", "'a8:3f:81'"),
        ("option unknown-245 a8:3f:81:1000;", "", "'a8:3f:81:1000'"),
        ('option unknown-245 "";', "", "'\"'"),
        ("option unknown-245;", "", ""),
        ("option domain-name-servers 10.0.0.9;", "", ""),
    ],
)
def test_dhclient_writes_four_bytes_in_many_ways(said: str, address: str, odd: str) -> None:
    data = f'lease {{ interface "eth0"; fixed-address 10.0.0.4; {said} }}'.encode()
    (lease,) = parse_leases(data, client="dhclient", link="")
    assert (lease.wireserver, lease.odd) == (address, odd)


def test_other_blocks_are_not_leases() -> None:
    text = 'lease6 { interface "eth0"; ia-na 1 { iaaddr fd00::1 { starts 1; } } } lease { interface "eth1"; { x y; } }'
    assert list(parse_blocks(text)) == [{"interface": '"eth1'}]


# ---- for how long


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("never", None),
        ("0 never", None),
        ("epoch 1709294400", 1709294400.0),
        ("5 2024/03/01 12:00:00", 1709294400.0),
        ("5 2024/03/01 12:00:00 UTC", 1709294400.0),
        ("4 1970/01/01 00:00:00", 0.0),
        ("4 2024/13/01 00:00:00", 0.0),
        ("tomorrow", 0.0),
        ("epoch soon", 0.0),
        ("", 0.0),
    ],
)
def test_when_a_lease_ends(said: str, seconds: float | None) -> None:
    assert parse_expiry(said) == seconds


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2999, 12, 31)))
def test_every_day_has_its_number(day: datetime) -> None:
    whole = day.replace(microsecond=0)
    assert parse_expiry(f"1 {whole:%Y/%m/%d %H:%M:%S}") == whole.replace(tzinfo=timezone.utc).timestamp()


@given(st.text(max_size=40))
def test_no_value_is_a_traceback(text: str) -> None:
    assert (parse_expiry(text) is None) == ("never" in text.split()[:2])
    assert octets(text) is None or len(octets(text) or b"") <= max(1, len(text))
    for block in parse_blocks("lease {" + text):
        assert isinstance(block, dict)
    list(parse_blocks(text))


PIECES = st.sampled_from(
    [NETWORKD, DHCLIENT, NETWORK_MANAGER, b"lease {", b"}", b"option unknown-245 ", b'"', b"\\", b";"]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=300)), max_size=6).map(b"".join))
def test_whatever_a_file_holds_only_addresses_come_out(data: bytes) -> None:
    for lease in parse_leases(data, client="c", link="l", written=5.0):
        assert parse_ipv4(lease.address)
        assert lease.wireserver == "" or parse_ipv4(lease.wireserver) is not None
        for destination, prefix, gateway in lease.routes:
            assert parse_ipv4(destination) is not None and 0 <= prefix <= 32
            assert gateway == "" or parse_ipv4(gateway)


@pytest.mark.parametrize(
    "address", ["", "0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"]
)
def test_nobody_is_there(address: str) -> None:
    assert not is_host_address(address)
    assert is_host_address("168.63.129.16") and is_host_address("10.0.0.1") and is_host_address("169.254.169.254")


# ---- which of them is in force

HELD = frozenset({"10.0.0.4"})
Stand = Callable[..., Standing]


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    def read(*files: tuple[str, bytes], held: frozenset[str] = HELD, at: float = 2e9, written: float = 2e9) -> Standing:
        for path, data in files:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            os.utime(file, (written, written))
        clock = Ticking()
        clock.now = lambda: at  # type: ignore[method-assign]
        machine = Machine(root=str(tmp_path), clock=clock, environ={})
        return read_standing(machine, link="eth0", index=2, mac=MAC, held=lambda: held)

    return read


def lease(
    *, wireserver: str = "a8:3f:81:10", link: str = "eth0", address: str = "10.0.0.4", end: str = "never"
) -> bytes:
    said = f"option unknown-245 {wireserver};" if wireserver else ""
    return f'lease {{ interface "{link}"; fixed-address {address}; {said} expire {end}; }}\n'.encode()


def test_networkd_s_own_is_taken_and_no_other_link_s(stand: Stand) -> None:
    other = NETWORKD.replace(b"a83f8110", b"0a060606")
    found = stand(("run/systemd/netif/leases/3", other), ("run/systemd/netif/leases/2", NETWORKD)).lease
    assert found is not None and (found.link, found.wireserver) == ("eth0", "168.63.129.16")


def test_what_this_boot_wrote_goes_before_what_outlives_boots(stand: Stand) -> None:
    old = ("var/lib/dhcp/dhclient.eth0.leases", lease(wireserver="a:6:6:6"))
    found = stand(old, ("run/NetworkManager/devices/2", NETWORK_MANAGER)).lease
    assert found is not None and found.client == "NetworkManager"


@pytest.mark.parametrize(
    "data",
    [
        lease(link="eth9"),
        lease(address="10.0.0.9"),
        lease(end="4 2020/01/02 03:04:05"),
        lease(end="garbage"),
        b"lease {",
        b"",
    ],
)
def test_a_lease_that_is_another_s_or_over_does_not_count(stand: Stand, data: bytes) -> None:
    assert stand(("var/lib/dhcp/dhclient.leases", data)).lease is None


def test_a_file_of_another_link_does_not_count_whatever_is_in_it(stand: Stand) -> None:
    assert stand(("var/lib/dhcpcd/eth9.lease", answer(b"\xf5\x04\xa8\x3f\x81\x10\xff"))).lease is None
    assert stand(("var/lib/NetworkManager/internal-x-eth9.lease", b"ADDRESS=10.0.0.4\n")).lease is None


def test_a_packet_for_another_card_does_not_count(stand: Stand) -> None:
    data = answer(b"\xf5\x04\xa8\x3f\x81\x10\xff", mac=bytes.fromhex("000d3a999999"))
    assert stand(("var/lib/dhcpcd/eth0.lease", data)).lease is None


def test_where_no_end_is_said_it_is_so_long_after_the_file_was_written(stand: Stand) -> None:
    data = answer(b"\x33\x04\x00\x00\x0e\x10\xf5\x04\xa8\x3f\x81\x10\xff")
    assert stand(("var/lib/dhcpcd/eth0.lease", data), at=2e9 + 3599).lease is not None
    assert stand(("var/lib/dhcpcd/eth0.lease", data), at=2e9 + 3600).lease is None


def test_the_last_that_is_in_force_is_the_one(stand: Stand) -> None:
    data = (
        lease(wireserver="a:1:1:1")
        + lease(wireserver="a:2:2:2")
        + lease(wireserver="a:3:3:3", end="4 2020/01/02 03:04:05")
    )
    found = stand(("var/lib/dhcp/dhclient.eth0.leases", data)).lease
    assert found is not None and found.wireserver == "10.2.2.2"


@pytest.mark.parametrize(("said", "told"), [("0:0:0:0", "0.0.0.0"), ("ff:ff:ff:ff", "255.255.255.255"),
                                            ("e0:0:0:1", "224.0.0.1"), ("1:2:3:4:5", "'1:2:3:4:5'")])  # fmt: skip
def test_garbage_is_told_and_the_lease_is_one_without_a_wireserver(stand: Stand, said: str, told: str) -> None:
    found = stand(("var/lib/dhcp/dhclient.eth0.leases", lease(wireserver=said)))
    assert found.told == (f"option 245 of the lease of eth0 (dhclient) is not a wireserver: {told}",)
    assert found.lease is not None and not is_host_address(found.lease.wireserver)


def test_a_lease_without_a_wireserver_is_a_lease_all_the_same(stand: Stand) -> None:
    """NetworkManager keeps no more of one that it will ask for again."""
    found = stand(("var/lib/NetworkManager/internal-2f4b0b0e-eth0.lease", b"ADDRESS=10.0.0.4\n")).lease
    assert found == Lease(link="eth0", client="NetworkManager", address="10.0.0.4")


def test_a_file_that_cannot_be_read_is_told_and_hides_no_other(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "var/lib/dhcp/dhclient.eth1.leases").mkdir(parents=True)
    found = stand(("var/lib/dhcp/dhclient.eth0.leases", lease()))
    assert found.lease is not None
    assert found.told == (f"cannot read {tmp_path}/var/lib/dhcp/dhclient.eth1.leases: Is a directory",)
