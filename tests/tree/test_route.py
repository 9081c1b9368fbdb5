"""The route to the platform in the kernel's table, and how soon a new one is noticed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from azureinit.addresses import has_host_route, has_route_to, parse_ipv4
from azureinit.facts.dhcp_client import read_dhcp_client
from azureinit.machine import Machine
from azureinit.machine.links import without_vfs
from azureinit.run.endpoint import Card, read_card
from azureinit.sources.route import PRIMARY_SECS, read_table, wait_for_route
from support.need import need, need_root
from support.wire import Ticking

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
DEFAULT = "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
LINK = "eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
AUTOCONF = "eth0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"  # 169.254.0.0/16 without a gateway
NETWORK = "eth0\t00003FA8\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"  # 168.63.0.0/16 without a gateway
HALF = "eth0\t00000080\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"  # half of everything, without one
BARE = "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"  # a default without one
ALONE = "eth0\tFEA9FEA9\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n"
HOST = "eth0\tFEA9FEA9\t0100000A\t0007\t0\t0\t100\tFFFFFFFF\t0\t0\t0\n"
DOWN = "eth0\t00000000\t0100000A\t0002\t0\t0\t100\t00000000\t0\t0\t0\n"
IMDS, WIRESERVER = "169.254.169.254", "168.63.129.16"


def led(table: str, host: str) -> bool:
    address = parse_ipv4(host)
    assert address is not None
    return has_route_to((HEAD + table).encode(), address)


pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables here are of a little-endian machine")


@pytest.mark.parametrize(
    ("table", "host", "answer"),
    [
        (DEFAULT, IMDS, True),
        (DEFAULT, WIRESERVER, True),
        (LINK, WIRESERVER, False),
        (AUTOCONF, IMDS, False),
        (AUTOCONF, "169.254.7.7", False),
        (NETWORK, WIRESERVER, False),
        (NETWORK + DEFAULT, WIRESERVER, True),
        (HALF, WIRESERVER, False),
        (BARE, WIRESERVER, False),
        (ALONE, IMDS, True),
        (ALONE, WIRESERVER, False),
        (HOST, IMDS, True),
        (HOST, WIRESERVER, False),
        (DOWN, WIRESERVER, False),
        ("", IMDS, False),
        ("torn\teth0\n", IMDS, False),
        (LINK + AUTOCONF + DEFAULT, IMDS, True),
    ],
)
def test_a_route_counts_only_through_a_gateway_or_to_that_address_alone(table: str, host: str, answer: bool) -> None:
    assert led(table, host) is answer


@pytest.mark.parametrize(("table", "answer"), [(LINK, True), (BARE, False), (DEFAULT, True), (AUTOCONF, False)])
def test_a_platform_that_is_not_at_azure_s_addresses_may_be_a_neighbour(table: str, answer: bool) -> None:
    assert led(table, "10.0.0.7") is answer


@given(st.binary() | st.text().map(str.encode), st.integers(min_value=0, max_value=2**32 - 1))
def test_no_table_is_a_traceback(table: bytes, address: int) -> None:
    assert has_route_to(table, address) in (True, False)


@given(st.text())
def test_no_host_is_a_traceback(text: str) -> None:
    assert parse_ipv4(text) is None or text.count(".") == 3


def machine(kernel: Path, table: str) -> Machine:
    (kernel / "proc/net").mkdir(parents=True, exist_ok=True)
    (kernel / "proc/net/route").write_text(HEAD + table)
    return Machine(kernel=str(kernel), clock=Ticking(), environ={})


def test_where_there_is_a_way_nobody_waits(tmp_path: Path) -> None:
    assert wait_for_route(machine(tmp_path, DEFAULT), IMDS, until=0.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_loopback_or_a_name_is_not_waited_for(tmp_path: Path, host: str) -> None:
    assert wait_for_route(machine(tmp_path, ""), host, until=0.0)


# ---- one card, two links


MAC = "00:0d:3a:12:34:56"
VIA_VF = DEFAULT.replace("eth0", "enP1s1")


def link(kernel: Path, name: str, *, driver: str = "", mac: str = MAC, master: str = "") -> None:
    place = kernel / "sys/class/net" / name
    (place / "device").mkdir(parents=True) if driver else place.mkdir(parents=True)
    (place / "address").write_text(f"{mac}\n")
    (place / "ifindex").write_text(f"{len(list(place.parent.iterdir()))}\n")
    if driver:
        (place / "device/driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    if master:
        (place / "master").symlink_to(f"../{master}")


def accelerated(kernel: Path, table: str, *, master: str = "eth0") -> Machine:
    link(kernel, "lo", mac="00:00:00:00:00:00")
    link(kernel, "eth0", driver="hv_netvsc")
    link(kernel, "enP1s1", driver="mlx5_core", master=master)
    return machine(kernel, table)


@pytest.mark.parametrize("master", ["", "eth0"])
def test_a_route_of_a_vf_is_none(tmp_path: Path, master: str) -> None:
    assert not wait_for_route(accelerated(tmp_path, VIA_VF, master=master), IMDS, until=0.0)


def test_the_card_that_shares_its_mac_is_the_one_that_leads_and_has_the_lease(tmp_path: Path) -> None:
    dearer = DEFAULT.replace("\t100\t", "\t200\t")
    told = VIA_VF + HOST.replace("eth0", "enP1s1").replace("FEA9FEA9", "10813FA8") + dearer
    one = accelerated(tmp_path, told)
    assert wait_for_route(one, IMDS, until=0.0)
    table = read_table(one)
    assert table is not None and table.decode() == HEAD + dearer
    assert not has_host_route(table, parse_ipv4(WIRESERVER) or 0), "only the VF's route told it"
    assert read_card(one) == Card(link="eth0", index=2, mac=MAC)
    dhcp = read_dhcp_client(one)
    assert dhcp is not None and dhcp.link == "eth0"


@pytest.mark.parametrize(
    ("driver", "mac", "master"),
    [
        ("mlx5_core", "00:0d:3a:12:34:57", ""),  # a card of its own
        ("hv_netvsc", MAC, ""),  # nobody works for anybody
        ("", MAC, "eth0"),  # a VLAN or a bridge over the card
    ],
)
def test_another_link_keeps_its_routes(tmp_path: Path, driver: str, mac: str, master: str) -> None:
    link(tmp_path, "lo", mac="00:00:00:00:00:00")
    link(tmp_path, "eth0", driver="hv_netvsc")
    link(tmp_path, "eth1", driver=driver, mac=mac, master=master)
    assert wait_for_route(machine(tmp_path, DEFAULT.replace("eth0", "eth1")), IMDS, until=0.0)


def test_the_parts_of_a_bond_are_no_vfs(tmp_path: Path) -> None:
    link(tmp_path, "bond0")
    for name in ("eth0", "eth1"):
        link(tmp_path, name, driver="virtio_net", master="bond0")
    assert wait_for_route(machine(tmp_path, DEFAULT), IMDS, until=0.0)


def test_a_machine_with_one_card_is_not_looked_at_more_closely(tmp_path: Path) -> None:
    link(tmp_path, "lo", mac="00:00:00:00:00:00")
    link(tmp_path, "eth0", driver="hv_netvsc")
    machine(tmp_path, DEFAULT)
    script = """
import sys
sys.path.insert(0, sys.argv[1])
from azureinit.machine import Machine
from azureinit.sources.route import wait_for_route
assert wait_for_route(Machine(kernel=sys.argv[2], environ={}), "168.63.129.16", until=0.0)
print(*sorted(name for name in sys.modules if name.startswith("azureinit.machine.")))
"""
    src = str(Path(__file__).parents[2] / "src")
    ran = subprocess.run([sys.executable, "-c", script, src, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [
        "azureinit.machine.clock",
        "azureinit.machine.durable",
        "azureinit.machine.files",
        "azureinit.machine.filetree",
    ]


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\0", b"")))  # no path has that in it
def test_no_table_is_too_strange_for_a_card_of_two_links(table: bytes) -> None:
    lines = without_vfs(Machine(kernel="/nonexistent", environ={}), table).split(b"\n")
    assert lines == table.split(b"\n"), "nobody is a VF there"


def test_the_wait_ends_with_its_time(tmp_path: Path) -> None:
    assert not wait_for_route(machine(tmp_path, ""), IMDS, until=0.0)


def test_a_route_that_comes_ends_the_wait(tmp_path: Path) -> None:
    """In a network of its own: the kernel announces it, and nobody sleeps through it."""
    need_root()
    need("ip")
    script = """
import subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
from azureinit.machine import Machine
from azureinit.sources import route
route.LOOK_ANYWAY = 3600.0  # so that only the announcement can end the wait in time
def run(*words): subprocess.run(("ip", *words), check=True)
run("link", "add", "eth0", "type", "veth", "peer", "name", "far")
for name in ("lo", "eth0", "far"): run("link", "set", name, "up")
run("address", "add", "10.0.0.4/24", "dev", "eth0")
def later():
    time.sleep(0.3)
    run("route", "add", "default", "via", "10.0.0.1")
machine = Machine()
threading.Thread(target=later).start()
print(route.wait_for_route(machine, "168.63.129.16", until=time.monotonic() + 60))
"""
    src = str(Path(__file__).parents[2] / "src")
    ran = subprocess.run(["unshare", "--net", sys.executable, "-c", script, src], capture_output=True, text=True)
    assert ran.stdout == "True\n", ran.stderr


class Passing(Ticking):
    """Nothing happens while it waits, and the time is over at once."""

    def wait(self, ready: Callable[[float], Any], seconds: float) -> Any:
        self.sleep(seconds)
        return False


def test_with_several_cards_a_default_route_waits_for_the_route_that_only_the_primary_lease_has(tmp_path: Path) -> None:
    for name, mac in (("lo", "00:00:00:00:00:00"), ("eth0", "00:0d:3a:12:34:56"), ("eth1", "00:0d:3a:12:34:57")):
        link = tmp_path / "sys/class/net" / name
        link.mkdir(parents=True)
        (link / "address").write_text(mac + "\n")

    def waited(table: str) -> float:
        machine(tmp_path, table)
        one = Machine(kernel=str(tmp_path), clock=Passing(), environ={})
        start = one.clock.monotonic()
        assert wait_for_route(one, IMDS, until=start + 60)
        return one.clock.monotonic() - start

    assert waited(DEFAULT) >= PRIMARY_SECS, "a machine whose DHCP client sets no such route uses its default route then"
    assert waited(DEFAULT + HOST) < PRIMARY_SECS
    shutil.rmtree(tmp_path / "sys/class/net/eth1")
    assert waited(DEFAULT) < PRIMARY_SECS, "one card has the only way"


def test_the_wait_for_the_primary_lease_begins_with_the_first_default_route_and_is_not_repeated(tmp_path: Path) -> None:
    """DHCP may be slow, and a run waits for a route to IMDS, to the wireserver, and to IMDS again."""
    for name in ("lo", "eth0", "eth1"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    machine(tmp_path, "")
    asked: list[float] = []

    class Slow(Passing):
        def wait(self, ready: Callable[[float], Any], seconds: float) -> Any:
            self.sleep(seconds)
            if self.at >= 1030:
                machine(tmp_path, DEFAULT)
            return False

    one = Machine(kernel=str(tmp_path), clock=Slow(), environ={})

    def late() -> bool:
        asked.append(one.clock.monotonic())
        return False

    assert wait_for_route(one, IMDS, until=1200, late=late)
    assert one.clock.monotonic() == 1030 + PRIMARY_SECS
    assert asked and max(asked) <= 1030, "a route that is there is not added, and ends no wait"
    assert wait_for_route(one, WIRESERVER, until=1200, late=lambda: True)
    assert one.clock.monotonic() == 1030 + PRIMARY_SECS
