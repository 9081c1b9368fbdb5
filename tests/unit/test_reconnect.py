"""A link that has moved: which manager is asked for a new lease, and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.dhcp_client import DhcpClient, read_manager
from azureinit.plan.actions import Caution, Run, Step, Way
from azureinit.plan.reconnect import plan_reconnect
from support.made_up_network import Networked

TOOLS = frozenset(("networkctl", "nmcli", "dhclient", "dhcpcd", "wicked"))
COMMANDS = [
    ("systemd-networkd", ["networkctl reconfigure eth0"]),
    ("NetworkManager", ["nmcli device reapply eth0"]),
    (
        "dhclient",
        [
            "dhclient -4 -x -pf /run/dhclient.eth0.pid eth0",
            "ip -4 address flush dev eth0",
            "dhclient -4 -nw -pf /run/dhclient.eth0.pid eth0",
        ],
    ),
    ("dhcpcd", ["dhcpcd -n eth0"]),
    ("wicked", ["wicked ifup eth0"]),
]


@pytest.mark.parametrize(("client", "commands"), COMMANDS)
def test_each_manager_has_its_command(client: str, commands: list[str]) -> None:
    (step,) = plan_reconnect(DhcpClient(link="eth0", client=client, tools=TOOLS))
    assert isinstance(step, Step)
    (way,) = step.ways
    assert isinstance(way, Way) and way.backend == client
    assert [" ".join(action.argv) for action in way.actions if isinstance(action, Run)] == commands


@pytest.mark.parametrize(
    ("client", "tools", "why"),
    [("", TOOLS, "no known manager"), ("dhcpcd", frozenset[str](), "dhcpcd is not installed")],
)
def test_without_a_manager_or_its_tool_a_caution_says_so(client: str, tools: frozenset[str], why: str) -> None:
    (item,) = plan_reconnect(DhcpClient(link="eth0", client=client, tools=tools))
    assert isinstance(item, Caution) and why in item.why


@pytest.mark.parametrize(
    ("path", "text", "client"),
    [
        ("/run/systemd/netif/links/2", "ADMIN_STATE=configured\nNETWORK_FILE=/x.network\n", "systemd-networkd"),
        ("/run/systemd/netif/links/2", "ADMIN_STATE=configuring\n", "systemd-networkd"),
        ("/run/systemd/netif/links/2", "ADMIN_STATE=unmanaged\n", ""),
        ("/run/NetworkManager/devices/2", "[dhcp4]\n", "NetworkManager"),
        ("/run/wicked/leaseinfo.eth0.dhcp.ipv4", "", "wicked"),
        ("/run/nothing", "", ""),
    ],
)
def test_the_manager_of_a_link_without_a_lease(tmp_path: Path, path: str, text: str, client: str) -> None:
    machine = Networked(tmp_path)
    machine.put(path, text)
    assert read_manager(machine, link="eth0", index=2).client == client
