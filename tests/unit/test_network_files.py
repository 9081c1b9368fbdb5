"""Several NICs and addresses: IMDS's document, the layout that follows from it, and each manager's files."""

from __future__ import annotations

import random
from typing import Any

import pytest

from azureinit.backends.network_files import File, files_of, profile_uuid
from azureinit.facts.link_managers import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, SCRIPTS
from azureinit.plan.network_layout import Layout, NicState, choose_primary, first_address, lay_out
from azureinit.sources.metadata import is_simple
from azureinit.sources.network_metadata import Nic, parse_mac, parse_network

A, B = "00:0d:3a:12:34:56", "00:0d:3a:12:34:57"


def entry(mac: str = A, *ipv4: str, ipv6: tuple[str, ...] = (), prefix: Any = "24") -> dict[str, Any]:
    subnet = ipv4[0].rpartition(".")[0] + ".0" if ipv4 else "10.0.9.0"
    return {
        "macAddress": mac.replace(":", "").upper(),
        "ipv4": {
            "ipAddress": [{"privateIpAddress": one, "publicIpAddress": "52.1.2.3"} for one in ipv4],
            "subnet": [{"address": subnet, "prefix": prefix}],
        },
        "ipv6": {"ipAddress": [{"privateIpAddress": one} for one in ipv6]},
    }


def network(*entries: Any) -> dict[str, Any]:
    return {"interface": list(entries)}


def state(mac: str, name: str, *, to_platform: bool = False, router: str = "10.0.0.1") -> NicState:
    return NicState(mac=mac, name=name, driver="hv_netvsc", to_platform=to_platform, router=router)


STATES = (state(A, "eth0", to_platform=True), state(B, "eth1"))


def layouts(document: dict[str, Any], states: tuple[NicState, ...] = STATES) -> tuple[Layout, ...]:
    choice = choose_primary(states)
    return lay_out(parse_network(document).nics, states, primary=choice.primary)


def text(manager: str, document: dict[str, Any], states: tuple[NicState, ...] = STATES) -> dict[str, str]:
    return {file.path: file.data.decode() for file in files_of(manager, layouts(document, states))}


TWO = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5"))
NETWORKD_B = """\
[Match]
MACAddress=00:0d:3a:12:34:57
Driver=hv_netvsc

[Network]
DHCP=ipv4
Address=10.0.1.5/32

[DHCPv4]
ClientIdentifier=mac
RouteMetric=200
UseDNS=no
UseDomains=no

[Route]
Gateway=_dhcp4
Table=10101

[Route]
Destination=10.0.1.0/24
Scope=link
Table=10101

[RoutingPolicyRule]
From=10.0.1.4/32
Table=10101
Priority=10101

[RoutingPolicyRule]
From=10.0.1.5/32
Table=10101
Priority=10101
"""
NETPLAN_B = """\
network:
  version: 2
  ethernets:
    azure-init-000d3a123457:
      match: {macaddress: "00:0d:3a:12:34:57", driver: hv_netvsc}
      dhcp4: true
      dhcp-identifier: mac
      dhcp4-overrides: {route-metric: 200, use-dns: false}
      addresses: [10.0.1.5/32]
      routes:
        - {to: default, via: 10.0.1.1, table: 10101}
        - {to: 10.0.1.0/24, scope: link, table: 10101}
      routing-policy:
        - {from: 10.0.1.4/32, table: 10101, priority: 10101}
        - {from: 10.0.1.5/32, table: 10101, priority: 10101}
"""
KEYFILE_B = f"""\
[connection]
id=azure-init 00:0d:3a:12:34:57
uuid={profile_uuid(B)}
type=ethernet
autoconnect-priority=-10

[ethernet]
mac-address=00:0D:3A:12:34:57

[ipv4]
method=auto
route-metric=200
ignore-auto-dns=true
address1=10.0.1.5/32
route1=0.0.0.0/0,10.0.1.1
route1_options=table=10101
route2=10.0.1.0/24
route2_options=table=10101
routing-rule1=priority 10101 from 10.0.1.4/32 table 10101
routing-rule2=priority 10101 from 10.0.1.5/32 table 10101

[ipv6]
method=auto
"""
IFUPDOWN_B = """\
allow-hotplug eth1
iface eth1 inet dhcp
    metric 200
    up ip address add 10.0.1.5/32 dev eth1 || true
    up ip route replace 10.0.1.0/24 dev eth1 table 10101
    up ip route replace default via 10.0.1.1 dev eth1 table 10101
    up ip rule add from 10.0.1.4/32 lookup 10101 priority 10101 || true
    down ip rule del from 10.0.1.4/32 lookup 10101 priority 10101 || true
    up ip rule add from 10.0.1.5/32 lookup 10101 priority 10101 || true
    down ip rule del from 10.0.1.5/32 lookup 10101 priority 10101 || true
"""


@pytest.mark.parametrize(
    ("manager", "path", "expected", "mode"),
    [
        (NETWORKD, "/etc/systemd/network/zzx-azure-init-000d3a123457.network", NETWORKD_B, 0o644),
        (NETPLAN, "/etc/netplan/60-azure-init.yaml", NETPLAN_B, 0o600),
        (
            NETWORK_MANAGER,
            "/etc/NetworkManager/system-connections/azure-init-000d3a123457.nmconnection",
            KEYFILE_B,
            0o600,
        ),
        (IFUPDOWN, "/etc/network/interfaces.d/60-azure-init", IFUPDOWN_B, 0o644),
    ],
)
def test_the_file_of_a_secondary_nic(manager: str, path: str, expected: str, mode: int) -> None:
    (file,) = files_of(manager, layouts(TWO))
    assert file == File(path=path, data=expected.encode(), mode=mode)


def test_netplan_matches_a_container_s_link_by_its_name() -> None:
    """It has no permanent MAC address, which is what netplan compares."""
    states = tuple(NicState(mac=one.mac, name=one.name, to_platform=one.to_platform, router="x") for one in STATES)
    assert "match: {name: eth1}\n" in "".join(text(NETPLAN, TWO, states).values())


def test_network_scripts_have_a_file_for_each_part() -> None:
    found = text(SCRIPTS, TWO)
    # Beside BOOTPROTO=dhcp, ifup-eth ignores IPADDR.
    assert "IPADDR" not in found["/etc/sysconfig/network-scripts/ifcfg-eth1"]
    assert "\nDEVICE=eth1:a1\nIPADDR=10.0.1.5\nPREFIX=32\n" in found["/etc/sysconfig/network-scripts/ifcfg-eth1:a1"]
    assert found["/etc/sysconfig/network-scripts/rule-eth1"] == (
        "# Written by azure-init\n"
        "from 10.0.1.4/32 lookup 10101 priority 10101\nfrom 10.0.1.5/32 lookup 10101 priority 10101\n"
    )
    assert found["/etc/sysconfig/network-scripts/route-eth1"].startswith(
        "# Written by azure-init\ndefault via 10.0.1.1 dev eth1 table 10101\n"
    )
    assert "PEERDNS=no\n" in found["/etc/sysconfig/network-scripts/ifcfg-eth1"]


@pytest.mark.parametrize("manager", [NETWORKD, NETPLAN, NETWORK_MANAGER, IFUPDOWN, SCRIPTS])
@pytest.mark.parametrize(
    "document",
    [network(entry(A, "10.0.0.4")), network(entry(A, "10.0.0.4", ipv6=("fd00:1::4",))), network()],
    ids=["one address", "dual stack", "an empty list"],
)
def test_one_nic_with_one_address_has_no_file(manager: str, document: dict[str, Any]) -> None:
    assert files_of(manager, layouts(document, STATES[:1])) == ()


def test_the_order_of_imds_changes_nothing() -> None:
    assert text(NETWORKD, network(*reversed(TWO["interface"]))) == text(NETWORKD, TWO)


def test_secondary_addresses_of_the_primary_have_no_subnet_and_no_rules() -> None:
    (found,) = text(NETWORKD, network(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6")), STATES[:1]).values()
    assert "DHCP=yes\nAddress=10.0.0.5/32\nAddress=10.0.0.6/32\n" in found
    assert "RouteMetric=100\nRoutesToDNS=no\n" in found
    assert "Table" not in found and "UseDNS" not in found


def test_a_lease_without_router_names_the_gateway() -> None:
    states = (STATES[0], state(B, "eth1", router=""))
    assert "Gateway=10.0.1.1\nTable=10101\n" in "".join(text(NETWORKD, TWO, states).values())


def test_the_gateway_is_the_first_address_of_the_subnet() -> None:
    assert first_address("10.0.2.128/25") == "10.0.2.129"


def test_ipv6_of_a_secondary_nic() -> None:
    both = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", ipv6=("fd00:1::4", "fd00:1::5")))
    found = "".join(text(NETWORKD, both).values())
    assert "DHCP=yes\n\n[Address]\nAddress=fd00:1::5/128\nPreferredLifetime=0\n" in found
    assert "[IPv6AcceptRA]\nRouteMetric=200\nUseDNS=no\n" in found
    assert "Gateway=_ipv6ra\nTable=10101\n" in found
    assert "From=fd00:1::4/128\n" in found
    netplan = "".join(text(NETPLAN, both).values())
    assert 'from: "fd00:1::5/128"' in netplan
    assert 'addresses: [{"fd00:1::5/128": {lifetime: 0}}]\n' in netplan


ROUTE6 = {
    NETPLAN: '        - {to: "::/0", via: "fe80::1234:5678:9abc", table: 10101}\n',
    NETWORK_MANAGER: "=fd00:1::5/128\nroute1=::/0,fe80::1234:5678:9abc\nroute1_options=table=10101\nrouting-rule1=",
    # After dhclient, which removes IPv6 addresses when it starts.
    IFUPDOWN: "iface eth1 inet6 dhcp\n    up ip -6 address add fd00:1::5/128 dev eth1 preferred_lft 0 || true\n"
    "    up ip -6 route replace default via fe80::1234:5678:9abc dev eth1 table 10101\n    up ip -6 rule add from",
    SCRIPTS: "# Written by azure-init\ndefault via fe80::1234:5678:9abc dev eth1 table 10101\n",
}


@pytest.mark.parametrize("manager", ROUTE6)
def test_the_ipv6_table_of_a_secondary_nic_has_azure_s_router(manager: str) -> None:
    """Else its rules lead to an empty table, and its packets leave by the primary NIC. networkd names it itself."""
    both = network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", ipv6=("fd00:1::4", "fd00:1::5")))
    files = text(manager, both)
    (found,) = [data for data in files.values() if "fe80" in data]
    assert ROUTE6[manager] in found
    if manager == SCRIPTS:
        assert files["/etc/sysconfig/network-scripts/route6-eth1"] == found
    primary = network(entry(A, "10.0.0.4", ipv6=("fd00:1::4", "fd00:1::5")))
    assert "fe80" not in "".join(text(manager, primary, STATES[:1]).values())


def test_eight_nics_have_the_same_tables_in_any_order() -> None:
    macs = [f"00:0d:3a:00:00:{number:02x}" for number in range(8)]
    entries = [entry(mac, f"10.0.{number}.4") for number, mac in enumerate(macs)]
    states = tuple(state(mac, f"eth{number}", to_platform=number == 3) for number, mac in enumerate(macs))
    expected = text(NETWORKD, network(*entries), states)
    assert sorted({line for file in expected.values() for line in file.splitlines() if line.startswith("Table=")}) == [
        f"Table={10100 + number}" for number in range(1, 8)
    ]
    for seed in range(5):
        random.Random(seed).shuffle(entries)
        assert text(NETWORKD, network(*entries), states) == expected


# ---- the primary


def test_the_primary_is_the_one_with_routes_to_the_platform() -> None:
    assert choose_primary((state(A, "eth0"), state(B, "eth1", to_platform=True))).primary == B


def test_the_only_nic_is_the_primary() -> None:
    assert choose_primary((state(A, "eth5"),)).primary == A


def test_without_routes_it_is_the_one_that_gets_answers() -> None:
    answering = NicState(mac=B, name="eth1", answered=True)
    assert choose_primary((state(A, "eth0"), answering)).primary == B


@pytest.mark.parametrize("both", [False, True])
def test_none_or_several_are_not_guessed(both: bool) -> None:
    choice = choose_primary((state(A, "eth0", to_platform=both), state(B, "eth1", to_platform=both)))
    assert choice.primary == ""
    assert ("eth0, eth1" in choice.why) == both


# ---- IMDS's document


def parsed(*entries: Any) -> tuple[dict[str, Nic], str]:
    found = parse_network(network(*entries))
    return {nic.mac: nic for nic in found.nics}, "\n".join(found.warnings)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({**entry(B, "10.0.1.4"), "ipv4": None}, f"{B}: ipv4 has no list"),
        (entry(B, "10.0.1.4", prefix="33"), "which is none"),
        (entry(B, "10.0.1.4", prefix="x"), "which is none"),
        (entry(B, "10.0.1.4", prefix=-1), "which is none"),
        ({**entry(B, "10.0.1.4"), "macAddress": ""}, "no MAC address"),
        ({**entry(B, "10.0.1.4"), "macAddress": "00-0D-3A-12-34-57"}, "no MAC address"),
        ({**entry(B, "10.0.1.4"), "macAddress": "00D3A123457"}, "no MAC address"),
        ({"ipv4": {}}, "no MAC address"),
        ("text", "is not an object"),
        (entry(A, "10.0.0.9"), "MAC address of an earlier entry"),
        (entry(B, "10.0.1.256"), "an address is left out"),
        (entry(B, ""), "an address is left out"),
    ],
)
def test_one_bad_entry_spoils_no_other(wrong: Any, told: str) -> None:
    nics, warnings = parsed(entry(A, "10.0.0.4", "10.0.0.5"), wrong)
    assert nics[A].ipv4 == ("10.0.0.4", "10.0.0.5")
    assert told in warnings


def test_addresses_are_trimmed_and_given_once() -> None:
    nics, warnings = parsed(entry(A, "10.0.0.4", "10.0.0.5 ", "10.0.0.5", "10.0.0.4"))
    assert (nics[A].ipv4, warnings) == (("10.0.0.4", "10.0.0.5"), "")


def test_a_missing_prefix_leaves_out_the_subnet_only() -> None:
    nics, _ = parsed(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5", prefix=""))
    assert nics[B].subnet == ""
    found = "".join(text(NETWORKD, network(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5", prefix=""))).values())
    assert "Address=10.0.1.5/32" in found and "Destination" not in found and "Gateway=_dhcp4" in found


def test_two_ipv6_addresses_need_no_subnet() -> None:
    nics, warnings = parsed(entry(A, "10.0.0.4", ipv6=("fd00:1::4", "FD00:1:0::5")))
    assert (nics[A].ipv6, warnings) == (("fd00:1::4", "fd00:1::5"), "")


def test_a_nic_without_addresses_keeps_its_defaults() -> None:
    assert text(NETWORKD, network(entry(A, "10.0.0.4"), entry(B))) == {}


def test_an_entry_without_a_link_has_no_file() -> None:
    assert text(NETWORKD, TWO, STATES[:1]) == {}


@pytest.mark.parametrize("value", [None, [], {}, {"interface": None}, {"interface": {}}, "x", {"interface": "x"}])
def test_a_document_without_a_list_changes_nothing(value: Any) -> None:
    found = parse_network(value)
    assert found.nics == () and len(found.warnings) == 1
    assert not is_simple(value)


def test_one_nic_with_one_address_is_recognised_without_reading_it() -> None:
    assert is_simple(network(entry(A, "10.0.0.4", ipv6=("fd00::4",))))
    assert not is_simple(TWO)
    assert not is_simple(network(entry(A, "10.0.0.4", "10.0.0.5")))


@pytest.mark.parametrize("mac", ["000D3A123456", "000d3a123456", "00:0D:3A:12:34:56", " 000D3A123456 "])
def test_mac_addresses_in_every_spelling(mac: str) -> None:
    assert parse_mac(mac) == A
