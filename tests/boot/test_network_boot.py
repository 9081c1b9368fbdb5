"""Several interfaces and addresses with each network manager of Debian: packets leave by the right interface.

Seen on the platform's side of each interface. Under CI one machine for each manager, the rest with
`scripts/test --all`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.bounds import ALL
from support.installed import Boot, Disk, Images
from support.network_machines import (
    ADDRESSES,
    MANAGERS,
    THREE,
    A,
    B,
    C,
    Manager,
    departures,
    has_addresses,
    is_configured,
    late_messages,
    network_image,
    nic,
    own_files,
    rules,
    settled,
    strays,
)

pytestmark = pytest.mark.newer

NetworkDisk = Callable[[Manager], Disk]
EVERY = sorted(MANAGERS)
FEW = EVERY if ALL else ["networkd"]
only_all = pytest.mark.skipif(not ALL, reason="a complete table: run scripts/test --all")
REVERSED, LISTED = '[imds]\nnic_order = "reversed"\n', "[imds]\n"
RULES = [
    "10101 10.0.1.4 10101",
    "10101 10.0.1.5 10101",
    "10101 10.0.1.6 10101",
    "10102 10.0.2.132 10102",
]


@pytest.fixture
def machine(images: Images, tmp_path: Path) -> Iterator[NetworkDisk]:
    yield lambda manager: Disk(network_image(images, manager), tmp_path / "machine")
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("name", EVERY)
def test_traffic_from_each_address_leaves_by_its_interface(machine: NetworkDisk, name: str) -> None:
    """In the first boot and in the second, whatever the order of the metadata; nothing is written twice."""
    manager = MANAGERS[name]
    # Debian's image has a stanza for eth0, to which nothing is added: its secondary address is not configured.
    expected = {**ADDRESSES, "azure0": ["10.0.0.4"]} if name == "ifupdown" else ADDRESSES
    disk = machine(manager)
    with disk.boot(REVERSED + THREE) as boot:
        settled(boot)
        boot.until(lambda: has_addresses(boot, expected), "every address is there")
        assert rules(boot) == RULES
        assert departures(boot, expected) == expected
        assert " src 10.0.0.4 " in boot.out("ip", "route", "get", "10.0.0.77"), "no secondary address is preferred"
        assert strays(boot) == []
        assert late_messages(boot, "34:56") == [], "the primary interface was not touched"
    first = own_files(disk, manager)
    modes = {mode for _content, mode, _changed in first.values()}
    assert modes == {0o600 if name in ("NetworkManager", "netplan") else 0o644}
    with disk.boot(LISTED + THREE) as boot:
        boot.ended()
        boot.until(lambda: has_addresses(boot, expected), "every address is there")
        assert rules(boot) == RULES
        assert departures(boot, expected) == expected
        assert not is_configured(boot), "the files were there before the manager started"
        assert strays(boot) == []
    assert own_files(disk, manager) == first


@pytest.mark.parametrize("name", EVERY if ALL else ["netplan"])
def test_an_address_that_a_later_boot_finds_in_the_metadata_is_there_in_that_boot(
    machine: NetworkDisk, name: str
) -> None:
    """Also where the manager had a file for the interface when it started."""
    disk = machine(MANAGERS[name])
    with disk.boot(A + B) as boot:
        settled(boot)
        boot.until(lambda: len(rules(boot)) == 1, "the second interface has its rule")
    expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4", "10.0.1.5"]}
    with disk.boot(A + nic("57", "10.0.1.4", secondary='["10.0.1.5"]')) as boot:
        boot.ended()
        boot.until(lambda: has_addresses(boot, expected), "every address is there")
        assert rules(boot) == RULES[:2]
        assert departures(boot, expected) == expected
        assert strays(boot) == []


DNS = "cat /run/NetworkManager/resolv.conf; grep -h ^DNS= /run/systemd/netif/links/*"


@only_all
@pytest.mark.parametrize("name", [name for name in EVERY if name != "ifupdown"])
def test_an_interface_that_has_become_the_primary_has_dns_servers_in_that_boot(machine: NetworkDisk, name: str) -> None:
    """The first one was detached while the machine was off. The image with ifupdown has a stanza for eth0."""
    disk = machine(MANAGERS[name])
    with disk.boot(A + B) as boot:
        settled(boot)
        boot.until(lambda: len(rules(boot)) == 1, "the second interface has its rule")
    for number in (2, 3):
        with disk.boot(nic("57", "10.0.1.4", primary="true")) as boot:
            boot.ended()
            boot.until(lambda: "168.63.129.16" in boot.run("sh", "-c", DNS).stdout, f"a DNS server in boot {number}")
            boot.until(lambda: " metric 100" in boot.out("ip", "route", "show", "default"), "the primary's metric")
            assert rules(boot) == []
            assert departures(boot, {"azure0": ["10.0.1.4"]}) == {"azure0": ["10.0.1.4"]}
            assert strays(boot) == []
    with disk.boot(nic("57", "10.0.1.4", primary="true")) as boot:
        boot.ended()
        assert own_files(disk, MANAGERS[name]) == {}


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("ipv6", [False, True])
def test_one_interface_with_one_address_of_a_family_is_left_alone(machine: NetworkDisk, name: str, ipv6: bool) -> None:
    manager = MANAGERS[name]
    disk = machine(manager)
    with disk.boot(nic("56", ipv6='["fd00:1::4"]') if ipv6 else A) as boot:
        settled(boot)
        if ipv6 and name != "ifupdown":  # the stanza of its image has no IPv6
            boot.until(lambda: has_addresses(boot, {"azure0": ["fd00:1::4"]}), "DHCPv6 gives its address")
        assert own_files(disk, manager) == {}
        assert rules(boot) == []
        assert late_messages(boot, "34:56") == [], "nothing was reloaded"
        assert strays(boot) == []
        plan = boot.out("azure-init", "plan")
        assert not [line for line in plan.splitlines() if "network" in line and not line.startswith("=")]


@pytest.mark.parametrize("name", FEW)
def test_ready_leaves_by_the_primary_interface_also_where_it_is_the_second(machine: NetworkDisk, name: str) -> None:
    manager = MANAGERS[name]
    if name == "ifupdown":  # its image has a stanza for eth0 alone, so that a primary eth1 stays down
        pytest.skip("an image that brings up eth0 alone has no way to the platform here")
    disk = machine(manager)
    primary = nic("57", "10.0.1.4", primary="true")
    with disk.boot(REVERSED + A + primary) as boot:
        settled(boot)
        boot.until(lambda: rules(boot) == ["10101 10.0.0.4 10101"], "the first interface has its rule")
        assert strays(boot) == []
        for host in ("168.63.129.16", "169.254.169.254"):
            assert " dev eth1 " in boot.out("ip", "route", "get", host)
            shown = boot.out("ip", "route", "show", host).splitlines()
            assert len(shown) == 1, "one route, and not by the other interface"
        defaults = [line.split() for line in boot.out("ip", "route", "show", "default").splitlines()]
        metrics = {words[words.index("dev") + 1]: int(words[words.index("metric") + 1]) for words in defaults}
        assert metrics["eth1"] < metrics["eth0"]
        assert name == "NetworkManager" or metrics == {"eth1": 100, "eth0": 200}
        expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4"]}
        assert departures(boot, expected) == expected


def default6(boot: Boot, table: str) -> str:
    return boot.run("ip", "-6", "route", "show", "default", "table", table).stdout


@only_all
@pytest.mark.parametrize("name", EVERY)
def test_dual_stack_leaves_by_its_interface_in_both_families(machine: NetworkDisk, name: str) -> None:
    """In both boots: netplan's own file counts from the second on."""
    disk = machine(MANAGERS[name])
    nics = nic("56", ipv6='["fd00:1::4"]') + nic("57", "10.0.1.4", ipv6='["fd00:2::4", "fd00:2::5"]')
    # Debian's image has a stanza for eth0, to which nothing is added: it asks for no IPv6 address.
    first = ["10.0.0.4"] if name == "ifupdown" else ["10.0.0.4", "fd00:1::4"]
    expected = {"azure0": first, "azure1": ["10.0.1.4", "fd00:2::4", "fd00:2::5"]}
    for number in (1, 2):
        with disk.boot(nics) as boot:
            if number == 1:
                settled(boot)
            else:
                boot.ended()
            boot.until(lambda: has_addresses(boot, expected), "every address is there")
            boot.until(lambda: "dev eth0" in default6(boot, "main"), "a default route by eth0")
            boot.until(lambda: "dev eth1" in default6(boot, "10101"), "a default route by eth1 in its table")
            assert departures(boot, expected) == expected
            assert strays(boot) == []


@pytest.mark.parametrize("name", ["netplan", "networkd"] if ALL else ["netplan"])
def test_no_secondary_ipv6_address_becomes_the_source_of_packets(machine: NetworkDisk, name: str) -> None:
    """In the first boot it is set after the lease, in the second before. NetworkManager has no setting for it."""
    disk = machine(MANAGERS[name])
    for number in (1, 2):
        with disk.boot(nic("56", ipv6='["fd00:1::4", "fd00:1::5"]')) as boot:
            if number == 1:
                settled(boot)
            else:
                boot.ended()
            boot.until(lambda: has_addresses(boot, {"azure0": ["fd00:1::4", "fd00:1::5"]}), "both addresses are there")
            boot.until(lambda: "dev eth0" in default6(boot, "main"), "a default route by eth0")
            assert " src fd00:1::4 " in boot.out("ip", "-6", "route", "get", "2001:db8::77"), number
            expected = {"azure0": ["10.0.0.4", "fd00:1::4", "fd00:1::5"]}
            assert departures(boot, expected) == expected, "a program may still send from it"


@only_all
@pytest.mark.parametrize("name", EVERY)
def test_a_vf_is_neither_configured_nor_counted(machine: NetworkDisk, name: str) -> None:
    disk = machine(MANAGERS[name])
    expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4"]}
    with disk.boot(nic("56", vf="true") + nic("57", "10.0.1.4", vf="true")) as boot:
        settled(boot)
        boot.until(lambda: rules(boot) == ["10101 10.0.1.4 10101"], "the second interface has its rule")
        assert departures(boot, expected) == expected
        for link in ("vf0", "vf1"):
            assert "inet " not in boot.out("ip", "address", "show", link)
        assert strays(boot) == []
    assert len(own_files(disk, MANAGERS[name])) == 1


@only_all
@pytest.mark.parametrize("name", EVERY)
def test_two_interfaces_in_one_subnet(machine: NetworkDisk, name: str) -> None:
    disk = machine(MANAGERS[name])
    expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.0.14"]}
    with disk.boot(A + nic("57", "10.0.0.14")) as boot:
        settled(boot)
        boot.until(lambda: rules(boot) == ["10101 10.0.0.14 10101"], "the second interface has its rule")
        assert departures(boot, expected) == expected
        assert strays(boot) == []


@only_all
@pytest.mark.parametrize("name", EVERY)
def test_a_lease_without_a_router_is_given_the_first_address_of_its_subnet(machine: NetworkDisk, name: str) -> None:
    disk = machine(MANAGERS[name])
    expected = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4"]}
    with disk.boot(A + nic("57", "10.0.1.4", router="false")) as boot:
        settled(boot)
        boot.until(lambda: rules(boot) == ["10101 10.0.1.4 10101"], "the second interface has its rule")
        boot.until(
            lambda: "default via 10.0.1.1 " in boot.run("ip", "route", "show", "table", "10101").stdout,
            "a default route",
        )
        assert departures(boot, expected) == expected


@only_all
@pytest.mark.parametrize("name", EVERY)
def test_an_interface_that_is_gone_leaves_no_file_and_no_rule(machine: NetworkDisk, name: str) -> None:
    disk = machine(MANAGERS[name])
    with disk.boot(A + B + C) as boot:
        settled(boot)
        boot.until(lambda: len(rules(boot)) == 2, "both have their rules")
    assert own_files(disk, MANAGERS[name])
    with disk.boot(A) as boot:
        boot.ended()
        boot.until(lambda: not own_files(disk, MANAGERS[name]), "its files are removed")
        assert rules(boot) == []
