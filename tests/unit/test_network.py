"""The summary and diagnosis of the network for failure reports; lease files, netlink, and the kernel log."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.addresses import parse_ipv4
from azureinit.facts.diagnosis import HOSTS, cards, diagnosis, vf_of, way_to
from azureinit.facts.leases import Lease, link_of, parse_leases, read_leases
from azureinit.facts.network import QUIET, Dns, Network, Silent, network_in_brief, parse_arp, parse_resolv
from azureinit.machine import Machine
from azureinit.machine.kmsg import last_lines, parse_record, read_kernel_log
from azureinit.machine.netlink import Address, Link, Route, parse_addresses, parse_links, parse_routes
from azureinit.record import replace

MAC = "00:0d:3a:12:34:56"
LO = Link(index=1, name="lo", mac="", mtu=65536, up=True, carrier=True, loopback=True, state="unknown")
ETH0 = Link(
    index=2, name="eth0", mac=MAC, mtu=1500, up=True, carrier=True, loopback=False, state="up", driver="hv_netvsc"
)
VF = replace(ETH0, index=3, name="eth1", driver="mlx5_core", master=2)
ADDRESS = Address(index=2, family=4, address="10.0.0.4", prefix=24, scope="global")
DEFAULT = Route(
    family=4, destination="0.0.0.0", prefix=0, type="unicast", table=254, index=2, gateway="10.0.0.1", metric=100
)
SUBNET = replace(DEFAULT, destination="10.0.0.0", prefix=24, gateway="")
LEASE = Lease(
    link="eth0",
    client="systemd-networkd",
    address="10.0.0.4",
    server="168.63.129.16",
    wireserver="168.63.129.16",
    lifetime=0xFFFFFFFF,
)
FINE = Network(
    links=(LO, ETH0, VF),
    addresses=(ADDRESS,),
    routes=(DEFAULT, SUBNET),
    leases=(LEASE,),
    dns=Dns(servers=("168.63.129.16",), search=("x.internal.cloudapp.net",)),
)
TO_BOTH = "the default route to 169.254.169.254 and 168.63.129.16"


def test_a_healthy_machine_in_brief() -> None:
    assert network_in_brief(FINE) == "\n".join(
        (
            QUIET,
            "link lo: up, mtu 65536",
            f"link eth0: up, {MAC}, hv_netvsc, mtu 1500, 10.0.0.4/24",
            f"link eth1: up, {MAC}, mlx5_core, mtu 1500, VF of eth0",
            "route default through 10.0.0.1 on eth0, metric 100",
            "route 10.0.0.0/24 on eth0, metric 100",
            "lease eth0: 10.0.0.4, from 168.63.129.16, option 245 168.63.129.16, for ever, systemd-networkd",
            "dns: 168.63.129.16, search x.internal.cloudapp.net",
        )
    )


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({}, ()),
        ({"links": None}, ()),
        ({"links": (LO,)}, ("no network interface but lo",)),
        ({"links": (LO, replace(ETH0, name="docker0", kind="bridge"))}, ("no network interface but lo and docker0",)),
        ({"links": (LO, replace(ETH0, up=False))}, ("eth0 is down: nothing has brought it up",)),
        ({"links": (LO, replace(ETH0, carrier=False))}, ("eth0 has no carrier",)),
        ({"addresses": (), "leases": ()}, ("eth0 has no IPv4 address: no DHCP lease",)),
        ({"addresses": ()}, ("eth0 has no IPv4 address: though systemd-networkd has a lease of 10.0.0.4",)),
        (
            {"addresses": (replace(ADDRESS, address="169.254.7.7"),), "leases": ()},
            ("eth0 has only the link-local address 169.254.7.7: no DHCP lease",),
        ),
        ({"routes": ()}, ("no route to 169.254.169.254 and 168.63.129.16: there is no default route",)),
        (
            {"routes": (replace(DEFAULT, destination="169.254.0.0", prefix=16, gateway="10.0.0.1"), SUBNET)},
            ("no route to 168.63.129.16: there is no default route",),
        ),
        (
            {"routes": (DEFAULT, SUBNET, replace(DEFAULT, destination="169.254.0.0", prefix=16, gateway=""))},
            ("the route 169.254.0.0/16 to 169.254.169.254 has no gateway, only eth0 itself",),
        ),
        (
            {"routes": (replace(DEFAULT, gateway="10.9.9.9"), SUBNET)},
            (f"{TO_BOTH} goes through 10.9.9.9, not a gateway that eth0 can reach",),
        ),
        (
            {"routes": (DEFAULT, SUBNET, replace(DEFAULT, destination="168.63.129.16", prefix=32, type="blackhole"))},
            ("the route 168.63.129.16/32 to 168.63.129.16 is of type blackhole: it leads nowhere",),
        ),
        (
            {"routes": (DEFAULT, SUBNET, replace(SUBNET, destination=HOSTS[0], prefix=32, type="local", table=255))},
            ("169.254.169.254 is configured as an address of this machine",),
        ),
        (
            {
                "links": (LO, ETH0, replace(ETH0, index=7, name="eth7", mac="00:0d:3a:00:00:07", carrier=False)),
                "routes": (replace(DEFAULT, index=7), replace(SUBNET, index=7)),
            },
            (f"{TO_BOTH} leads through eth7, which is without carrier", "eth7 has no carrier"),
        ),
        ({"silent": (Silent(address="10.0.0.1", link="eth0"),)}, ("the gateway 10.0.0.1 does not answer on eth0",)),
        ({"silent": (Silent(address="10.0.0.77", link="eth0"),)}, ()),
        (
            {"leases": (replace(LEASE, wireserver="10.1.1.1"),)},
            ("the lease of eth0 names 10.1.1.1 as the wireserver (option 245)",),
        ),
        ({"addresses": None, "routes": None, "problems": ("cannot ask",)}, ()),
    ],
)
def test_the_cause_can_be_read_at_once(changes: dict[str, object], sentences: tuple[str, ...]) -> None:
    network = replace(FINE, **changes)
    assert diagnosis(network) == sentences
    assert network_in_brief(network).splitlines()[: len(sentences)] == list(sentences)


def test_a_second_card_without_an_address_is_not_the_first_suspect() -> None:
    idle = replace(ETH0, index=9, name="eth9", mac="00:0d:3a:00:00:09", up=False)
    network = replace(FINE, links=(LO, idle, ETH0), routes=())
    assert [sentence.split()[0] for sentence in diagnosis(network)] == ["no", "eth9"]


def test_a_virtual_function_is_not_asked_for_an_address() -> None:
    assert vf_of(VF, (ETH0, VF)) == ETH0 and vf_of(ETH0, (ETH0, VF)) is None
    assert vf_of(replace(VF, master=0), (ETH0, VF)) == ETH0
    assert cards((LO, ETH0, VF)) == [ETH0]


def test_the_link_that_real_ones_are_a_part_of_is_the_one_that_counts() -> None:
    bond = replace(ETH0, index=5, name="bond0", kind="bond", driver="bond")
    halves = tuple(replace(ETH0, index=n, name=f"eth{n}", master=5, driver="virtio_net") for n in (6, 7))
    assert cards((LO, bond, *halves)) == [bond]
    assert cards((LO, replace(ETH0, kind="veth"), replace(ETH0, index=8, kind="ifb"))) == [replace(ETH0, kind="veth")]


def test_the_longest_prefix_then_the_smallest_metric_is_the_way() -> None:
    worse = replace(DEFAULT, metric=200, gateway="10.0.0.2")
    host = replace(DEFAULT, destination="168.63.129.16", prefix=32, metric=900, gateway="10.0.0.3")
    assert way_to("168.63.129.16", (worse, DEFAULT, host)) == host
    assert way_to("169.254.169.254", (worse, DEFAULT, host)) == DEFAULT
    assert way_to("fe80::1", (DEFAULT,)) is None


def test_what_could_not_be_read_is_told_and_nothing_is_concluded_from_it() -> None:
    network = Network(problems=("cannot ask the kernel for its links: Too many open files",))
    assert network_in_brief(network) == (
        "cannot ask the kernel for its links: Too many open files\nno DHCP lease was found\ndns: no /etc/resolv.conf"
    )


def test_a_machine_full_of_containers_is_cut_with_a_note() -> None:
    many = tuple(replace(ETH0, index=n, name=f"veth{n}", kind="veth") for n in range(10, 5000))
    text = network_in_brief(replace(FINE, links=(LO, ETH0, *many)))
    assert "and 4968 more links" in text and "route default" in text and len(text) <= 3000
    assert network_in_brief(FINE, limit=200).endswith("more lines")
    assert QUIET.startswith(network_in_brief(FINE, limit=20))


WORDS = st.text(max_size=80)


@given(WORDS, WORDS, st.integers(16, 400))
def test_strange_names_stay_on_their_lines_and_inside_the_limit(name: str, word: str, limit: int) -> None:
    network = replace(
        FINE,
        links=(LO, replace(ETH0, name=name)),
        leases=(replace(LEASE, link=word, wireserver="10.1.1.1"),),
        routes=(SUBNET, replace(DEFAULT, gateway="")),
        dns=Dns(servers=(word,), search=(name,)),
    )
    whole = network_in_brief(network, limit=1 << 20)
    assert whole.isascii() and all(line.isprintable() for line in whole.split("\n"))
    assert len(network_in_brief(network, limit=limit).encode()) <= limit


# ---- leases

NETWORKD = b"""\
# This is private data. Do not parse.
ADDRESS=10.0.0.4
NETMASK=255.255.255.0
ROUTER=10.0.0.1
SERVER_ADDRESS=168.63.129.16
LIFETIME=4294967295
OPTION_245=a83f8110
CLIENTID=ff405663a200020000ab11332859494d7a8b4c
"""
DEVICE = b"""\
[device]
managed=1
connection-uuid=2f4b0b0e-2b6c-4b3e-9d9a-6e5d0a1c7b11

[dhcp4]
dhcp_lease_time=86400
dhcp_server_identifier=168.63.129.16
ip_address=10.0.0.4
private_245=a8:3f:81:10
"""
DHCLIENT = b"""\
lease {
  interface "eth0";
  fixed-address 10.0.0.9;
}
lease {
  interface "eth0";
  fixed-address 10.0.0.4;
  option subnet-mask 255.255.255.0;
  option dhcp-lease-time 4294967295;
  option dhcp-server-identifier 168.63.129.16;
  option unknown-245 a8:3f:81:10;
  option domain-name "secret; not } shown";
  expire never;
}
"""


def packet() -> bytes:
    head = bytearray(240)
    head[:3] = bytes((2, 1, 6))
    head[16:20] = bytes((10, 0, 0, 4))
    head[236:240] = bytes((99, 130, 83, 99))
    server = bytes((168, 63, 129, 16))
    return bytes(head) + b"\0\x36\4" + server + b"\xf5\4" + server + b"\x33\4\xff\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("path", "data", "lifetime"),
    [
        ("run/systemd/netif/leases/2", NETWORKD, 0xFFFFFFFF),
        ("run/NetworkManager/devices/2", DEVICE, 86400),
        ("var/lib/NetworkManager/internal-2f4b0b0e-2b6c-4b3e-9d9a-6e5d0a1c7b11-eth0.lease", NETWORKD, 0xFFFFFFFF),
        ("var/lib/NetworkManager/dhclient-2f4b0b0e-2b6c-4b3e-9d9a-6e5d0a1c7b11-eth0.lease", DHCLIENT, 0xFFFFFFFF),
        ("var/lib/dhcp/dhclient.eth0.leases", DHCLIENT, 0xFFFFFFFF),
        ("var/lib/dhclient/dhclient--eth0.lease", DHCLIENT, 0xFFFFFFFF),
        ("var/lib/dhcpcd/eth0.lease", packet(), 0xFFFFFFFF),
    ],
)
def test_each_client_s_lease_is_read(tmp_path: Path, path: str, data: bytes, lifetime: int) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    ((lease,), problems) = read_leases(Machine(root=str(tmp_path)), {1: "lo", 2: "eth0"})
    assert problems == ()
    assert replace(lease, routes=(), router="", expires=None, mac="") == replace(
        LEASE, client=lease.client, lifetime=lifetime
    )
    assert lease.client.lower() in path.lower() or lease.client in ("systemd-networkd", "dhclient")


def test_a_lease_file_that_cannot_be_read_does_not_hide_the_next(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dhcp/dhclient.eth1.leases").mkdir(parents=True)
    (tmp_path / "var/lib/dhcp/dhclient.eth0.leases").write_bytes(DHCLIENT)
    leases, problems = read_leases(Machine(root=str(tmp_path)), {})
    assert [lease.link for lease in leases] == ["eth0"]
    assert problems == (f"cannot read {tmp_path}/var/lib/dhcp/dhclient.eth1.leases: Is a directory",)


def test_what_is_no_lease_gives_none() -> None:
    for data in (b"", b"[device]\nmanaged=1\n", b"ADDRESS=0.0.0.0\n", b"ADDRESS=ten\n", b"lease {}", packet()[:239]):
        assert parse_leases(data, client="c", link="l") == []


def test_a_file_s_name_tells_its_link() -> None:
    links = {1: "lo", 2: "eth0", 3: "vlan-eth0"}
    assert [link_of(name, links) for name in ("2", "77", "dhclient-eth0", "x-vlan-eth0", "eth0", "eth00")] == [
        "eth0",
        "77",
        "eth0",
        "vlan-eth0",
        "eth0",
        "eth00",
    ]


PIECES = st.sampled_from([NETWORKD, DHCLIENT, packet(), b"lease {", b"}", b"ADDRESS=", b"10.0.0.4", b"=", b";", b"\n"])


@given(st.lists(st.one_of(PIECES, st.binary(max_size=300)), max_size=6).map(b"".join))
def test_whatever_a_lease_file_holds_only_addresses_and_numbers_come_out(data: bytes) -> None:
    for lease in parse_leases(data, client="c", link="l"):
        assert parse_ipv4(lease.address)
        for text in (lease.server, lease.wireserver):
            assert text == "" or parse_ipv4(text) is not None


def test_an_address_is_four_small_numbers() -> None:
    assert parse_ipv4("168.63.129.16") == 0xA83F8110
    for text in ("", "1.2.3", "1.2.3.256", "1.2.3.4.5", "1.2.3.-4", "1.2.3.٣", "1.2.3.4444", "::1"):
        assert parse_ipv4(text) is None


# ---- resolv.conf and the neighbours


def test_resolv_conf() -> None:
    data = (
        b"# x\ndomain old\nnameserver 1.1.1.1\nnameserver 127.0.0.53 # c\nsearch a b\noptions edns0\n\xff\nnameserver\n"
    )
    assert parse_resolv(data) == Dns(servers=("1.1.1.1", "127.0.0.53"), search=("a", "b"))


def test_the_servers_behind_the_stub_are_shown() -> None:
    dns = Dns(servers=("127.0.0.53",), search=("a",), behind=("168.63.129.16",))
    assert network_in_brief(replace(FINE, dns=dns)).endswith("dns: 127.0.0.53 asking 168.63.129.16, search a")


def test_only_neighbours_that_never_answered_are_silent() -> None:
    table = (
        b"IP address       HW type     Flags       HW address            Mask     Device\n"
        b"10.0.0.1         0x1         0x0         00:00:00:00:00:00     *        eth0\n"
        b"10.0.0.2         0x1         0x2         12:34:56:78:9a:bc     *        eth0\nhalf a\n"
    )
    assert parse_arp(table) == (Silent(address="10.0.0.1", link="eth0"),)


@given(st.binary(max_size=400))
def test_no_answer_of_a_kernel_is_too_strange(data: bytes) -> None:
    for parse in (parse_links, parse_addresses, parse_routes):
        assert len(parse(data)) <= len(data) // 4
    assert len(parse_arp(data)) <= len(data.decode("utf-8", "replace").splitlines())
    assert isinstance(parse_resolv(data), Dns)


@given(st.sampled_from([16, 20, 24]), st.binary(max_size=200), st.lists(st.binary(max_size=20), max_size=8))
def test_a_message_of_the_right_kind_with_anything_in_it_is_no_trouble(
    kind: int, body: bytes, more: list[bytes]
) -> None:
    parts = b"".join(
        (len(one) + 4).to_bytes(2, "little") + bytes((n, 0)) + one + bytes(-len(one) % 4) for n, one in enumerate(more)
    )
    content = body + bytes(-len(body) % 4) + parts
    message = (16 + len(content)).to_bytes(4, "little") + kind.to_bytes(2, "little") + bytes(10) + content
    for parse in (parse_links, parse_addresses, parse_routes):
        assert len(parse(message * 2)) % 2 == 0, "the same twice"


# ---- the kernel's messages


def test_a_record_becomes_a_line() -> None:
    record = b"6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n DEVICE=+net:eth0\n"
    assert parse_record(record) == b"[    5.140900] NET: Registered\n"
    assert parse_record(b"6,1,-;x") is None and parse_record(b"") is None and parse_record(b"no record") is None


class Device:
    """Gives what it is told to, an error too."""

    def __init__(self, *given: bytes | OSError) -> None:
        self.given = list(given)

    def read(self) -> bytes:
        one = self.given.pop(0)
        if isinstance(one, OSError):
            raise one
        return one


def test_overwritten_records_are_passed_over_and_the_newest_kept() -> None:
    def device() -> Device:
        return Device(
            b"6,1,1000000,-;one\n",
            BrokenPipeError(errno.EPIPE, "gone"),
            b"garbage",
            b"6,9,2000000,-;two\n",
            b"6,10,3000000,-;three\n",
            BlockingIOError(errno.EAGAIN, "end"),
        )

    whole = b"[    1.000000] one\n[    2.000000] two\n[    3.000000] three\n"
    assert last_lines(device().read, limit=1000, late=lambda: False) == whole
    assert last_lines(device().read, limit=40, late=lambda: False) == whole[19:]
    assert last_lines(device().read, limit=5, late=lambda: False) == b""
    assert last_lines(device().read, limit=1000, late=lambda: True) == b""


@given(st.binary(max_size=200))
def test_no_record_is_too_strange(record: bytes) -> None:
    line = parse_record(record)
    assert line is None or (line.startswith(b"[") and line.count(b"\n") == 1)


def test_a_kernel_log_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_kernel_log(Machine(kernel=str(tmp_path)), limit=100) is None
    (tmp_path / "dev/kmsg").mkdir(parents=True)
    assert read_kernel_log(Machine(kernel=str(tmp_path)), limit=100) is None
