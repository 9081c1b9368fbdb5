"""The DHCP client that holds the lease, and how it renews it under the new host name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.backends.publish import PUBLISH
from azureinit.facts.dhcp_client import TOOLS, DhcpClient, platform_link, read_dhcp_client
from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Declined, MakeDir, Remove, Run, Satisfied, Step, Way, Write
from azureinit.plan.publish import plan_publish
from azureinit.plan.show import as_text
from support.dhcp_machines import HEADER, machine_with, route

EVERYTHING = frozenset(TOOLS)


def plan(client: str, *, config: str = "", tools: frozenset[str] = EVERYTHING) -> tuple[Way | Declined, ...]:
    dhcp = DhcpClient(link="eth0", client=client, config=config, tools=tools)
    (step,) = plan_publish(hostname="web-1", dhcp=dhcp, renamed=True)
    assert isinstance(step, Step)
    return step.ways


def argv(way: Way | Declined) -> list[str]:
    assert isinstance(way, Way)
    return [" ".join(action.argv) for action in way.actions if isinstance(action, Run)]


# ---- the link that leads to the platform


@pytest.mark.parametrize(
    ("routes", "link"),
    [
        ("", None),
        (route("eth0"), "eth0"),
        (route("eth0", flags=2), None),  # not up
        (route("eth1", metric=200) + route("eth0", metric=100), "eth0"),
        (route("eth0", metric=100) + route("eth1", "168.63.129.16", "255.255.255.255", metric=500), "eth1"),
        (route("eth0", "10.0.0.0", "255.255.255.0") + route("lo", "127.0.0.0", "255.0.0.0"), None),
        (route("eth1", "168.63.0.0", "255.255.0.0") + route("eth0"), "eth1"),
        ("nonsense\n\n" + route("eth0"), "eth0"),
    ],
)
def test_the_narrowest_and_then_the_cheapest_route_names_the_link(routes: str, link: str | None) -> None:
    assert platform_link((HEADER + routes).encode()) == link


@given(st.binary(max_size=400))
def test_no_table_of_routes_is_too_strange_to_read(data: bytes) -> None:
    for table in (data, HEADER.encode() + data):
        link = platform_link(table)
        assert link is None or link in table.decode("ascii", "replace")


# ---- who took its lease


def test_networkd_is_known_by_its_lease_and_says_which_file_it_goes_by(tmp_path: Path) -> None:
    files = {
        "/run/systemd/netif/leases/2": "ADDRESS=10.0.0.4\n",
        "/run/systemd/netif/links/2": "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/10-eth0.network\n",
        "/run/NetworkManager/devices/2": "[device]\nmanaged=true\n",
    }
    assert read_dhcp_client(machine_with(tmp_path, files)) == DhcpClient(
        link="eth0", client="systemd-networkd", config="/etc/systemd/network/10-eth0.network", tools=EVERYTHING
    )


@pytest.mark.parametrize(
    ("file", "text", "client"),
    [
        (
            "/run/NetworkManager/devices/2",
            "[device]\nmanaged=true\n[dhcp4]\ndhcp4.ip_address=10.0.0.4\n",
            "NetworkManager",
        ),
        ("/run/NetworkManager/devices/2", "[device]\nmanaged=true\n", ""),  # a static address
        ("/run/NetworkManager/devices/3", "[device]\n[dhcp4]\n", ""),  # another link's
        ("/run/dhclient.eth0.pid", "{pid}\n", "dhclient"),
        ("/run/dhclient-eth0.pid", "{pid}\n", "dhclient"),
        ("/run/dhclient.eth1.pid", "{pid}\n", ""),
        ("/run/dhclient.eth0.pid", "999999999\n", ""),  # dead
        ("/run/dhclient.eth0.pid", "strange\n", ""),
        ("/run/dhcpcd/eth0-4.pid", "{pid}\n", "dhcpcd"),
        ("/run/dhcpcd/pid", "{pid}\n", "dhcpcd"),
        ("/run/wicked/leaseinfo.eth0.dhcp.ipv4", "", "wicked"),
        ("/run/nobody", "", ""),
    ],
)
def test_clients_are_known_by_what_they_leave_while_they_run(tmp_path: Path, file: str, text: str, client: str) -> None:
    machine = machine_with(tmp_path, {file: text.format(pid=os.getppid()), f"/proc/{os.getppid()}/stat": ""})
    found = read_dhcp_client(machine)
    assert found is not None and (found.link, found.client) == ("eth0", client)


def test_without_a_way_out_or_under_another_root_there_is_nobody_to_tell(tmp_path: Path) -> None:
    assert read_dhcp_client(machine_with(tmp_path, {"/proc/net/route": HEADER})) is None
    assert read_dhcp_client(Machine(root=str(tmp_path), kernel="/")) is None


# ---- what it is told


def test_a_lease_that_was_taken_under_this_name_is_left_alone() -> None:
    dhcp = DhcpClient(link="eth0", client="systemd-networkd", tools=EVERYTHING)
    (item,) = plan_publish(hostname="web-1", dhcp=dhcp, renamed=False)
    assert item == Satisfied(name="publish hostname", why="eth0 has its DHCP lease under the name web-1")


@pytest.mark.parametrize("name", ["localhost", "localhost.localdomain"])
def test_a_name_that_is_everybodys_is_not_published(name: str) -> None:
    dhcp = DhcpClient(link="eth0", client="dhcpcd", tools=EVERYTHING)
    (item,) = plan_publish(hostname=name, dhcp=dhcp, renamed=True)
    assert isinstance(item, Satisfied)


def test_a_link_that_no_known_client_holds_is_a_caution() -> None:
    (item,) = plan_publish(hostname="web-1", dhcp=DhcpClient(link="eth0"), renamed=True)
    assert isinstance(item, Caution)
    assert item.why == "no DHCP client is known to hold the lease of eth0: DNS learns the name at the next boot"


def test_networkd_is_given_a_changed_file_and_else_told_to_begin_again() -> None:
    first, second = plan("systemd-networkd", config="/run/systemd/network/10-netplan-eth0.network")
    assert isinstance(first, Way)
    made = [action.path for action in first.actions if isinstance(action, (MakeDir, Write))]
    beside = "/run/systemd/network/10-netplan-eth0.network.d"
    assert made == ["/run/systemd/network", beside, f"{beside}/azure-init-hostname.conf"]
    (written,) = [action.data for action in first.actions if isinstance(action, Write)]
    assert isinstance(written, bytes) and written.startswith(b"# ") and written.count(b"\n") == 1  # and no setting
    assert argv(first) == ["networkctl reload"]
    assert argv(second) == ["networkctl reconfigure eth0"]


@pytest.mark.parametrize("config", ["", "n/a", "/etc/systemd/network/"])
def test_a_link_without_a_file_of_its_own_begins_again(config: str) -> None:
    first, second = plan("systemd-networkd", config=config)
    assert first == Declined(backend="networkctl reload", why="networkd does not report the configuration file of eth0")
    assert argv(second) == ["networkctl reconfigure eth0"]


@pytest.mark.parametrize(
    ("client", "commands"),
    [
        ("NetworkManager", ["nmcli device modify eth0 ipv4.dhcp-hostname web-1"]),
        ("dhcpcd", ["dhcpcd -n eth0"]),
        ("wicked", ["wicked ifup eth0"]),
    ],
)
def test_other_clients_are_told_in_their_own_words(client: str, commands: list[str]) -> None:
    (way,) = plan(client)
    assert argv(way) == commands


def test_a_second_dhclient_touches_nothing_and_leaves_nothing() -> None:
    (way,) = plan("dhclient")
    ask, go = argv(way)
    files = "-4 -sf /bin/true -pf /run/dhclient.azure-init.pid -lf /run/dhclient.azure-init.leases eth0"
    assert (ask, go) == (f"dhclient -1 {files}", f"dhclient -x {files}")
    assert isinstance(way, Way) and way.actions[-1] == Remove(path="/run/dhclient.azure-init.leases")


@pytest.mark.parametrize("client", sorted(PUBLISH))
def test_nobody_takes_a_link_down_and_a_missing_tool_is_named(client: str) -> None:
    for way in plan(client, config="/etc/systemd/network/x.network"):
        words = " ".join(argv(way)).split()
        assert not {"down", "ifdown", "-r", "release", "restart"} & set(words)
    for way in plan(client, tools=frozenset(), config="/etc/systemd/network/x.network"):
        assert isinstance(way, Declined) and way.why.endswith(" is not installed")


def test_a_plan_shows_it() -> None:
    dhcp = DhcpClient(link="eth0", client="NetworkManager", tools=EVERYTHING)
    text = as_text(plan_publish(hostname="web-1", dhcp=dhcp, renamed=True), privileged=True)
    assert "+ publish hostname: NetworkManager took the lease of eth0 under another name" in text
    assert "run nmcli device modify eth0 ipv4.dhcp-hostname web-1" in text
