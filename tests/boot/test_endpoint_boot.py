"""The wireserver's address on Debian: with each DHCP client, without one, and with leases that do not apply."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure.platform.events import Lease, Request, Told
from support.container import PROJECT
from support.container_roots import Root
from support.dhcp_clients import CLIENTS, PROFILE, START
from support.installed import NETWORK, Images

pytestmark = pytest.mark.newer

# Where the platform would have been, somebody answers the machine's DHCP, and nobody its verdict.
ELSEWHERE = "10.7.7.7"
USUAL = "168.63.129.16"
SCENARIO = f'[wireserver]\naddress = "{ELSEWHERE}"\n[expect]\nwithin_secs = 90\n'
STATIC = "ip link set eth0 up; ip address add 10.0.0.4/24 dev eth0; ip route add default via 10.0.0.1"
NETWORKD = "etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
SERVICE = """
[Unit]
Before=azure-init.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c '{}'
"""
# Stopped before the network is, it writes down what became of that.
AFTER = """
[Unit]
After=systemd-networkd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/sh -c 'ip -4 route >/after'
"""
# Of an image's last life: somebody else's link, an address this one has not got, and a time that is over.
STRANGERS = """
lease {{ interface "eth9"; fixed-address 10.0.0.4; option unknown-245 a:6:6:6; expire never; }}
lease {{ interface "eth0"; fixed-address 10.0.0.99; option unknown-245 a:6:6:6; expire never; }}
lease {{ interface "eth0"; fixed-address 10.0.0.4; option unknown-245 a:6:6:6; expire 4 2020/01/02 03:04:05; }}
"""


def real_unit() -> str:
    """Ours as it is shipped, with all that it may not do; only a container's firmware is not Azure's."""
    lines = (PROJECT / "systemd/azure-init.service").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("Condition", "OnFailure", "Also")))


@pytest.fixture
def root(images: Images, tmp_path: Path) -> Iterator[Root]:
    made = Root(images, tmp_path, *CLIENTS)
    made.unit("azure-init.service", real_unit())
    (made.layer / "etc/systemd/system/NetworkManager.service").symlink_to("/dev/null")
    yield made
    shutil.rmtree(tmp_path, ignore_errors=True)


def without_networkd(root: Root, start: str) -> None:
    (root.layer / NETWORKD).unlink()
    root.unit("network-here.service", SERVICE.format(start))


def told(root: Root, scenario: str = SCENARIO, *, suite: str = "trixie") -> tuple[set[str], str]:
    """Whom the machine took for the wireserver, and what it wrote down of that and on its console."""
    file = root.place / "scenario.toml"
    file.write_text(scenario)
    code, said = root.boot(str(file), "--no-login", "--keep", suite=suite)
    assert root.console.exists(), said
    console = root.console.read_text(errors="replace")
    assert code == 0, said + console
    assert [event.kind for event in root.events() if isinstance(event, Told)][-1] == "ready"
    asked = [event for event in root.events() if isinstance(event, Request) and event.service == "wireserver"]
    log = (root.layer / "var/log/azure-init.log").read_text()
    return {event.headers["host"] for event in asked}, log + console


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_networkd_s_lease_names_it(root: Root, suite: str) -> None:
    hosts, said = told(root, suite=suite)
    assert hosts == {ELSEWHERE}
    assert f"the wireserver is at {ELSEWHERE}: option 245 of the lease of eth0 (systemd-networkd)" in said


@pytest.mark.parametrize("client", sorted(START))
def test_other_clients_leases_name_it_whatever_old_ones_say(root: Root, client: str) -> None:
    root.write("var/lib/dhcp/dhclient.leases", STRANGERS.format())
    root.write("var/lib/dhclient/dhclient-eth9.leases", STRANGERS.format())
    root.write("etc/NetworkManager/system-connections/eth0.nmconnection", PROFILE, mode=0o600)
    if client == "NetworkManager":
        (root.layer / "etc/systemd/system/NetworkManager.service").unlink()
        (root.layer / NETWORKD).unlink()
    else:
        without_networkd(root, f"ip link set eth0 up; {START[client]}")
    hosts, said = told(root)
    assert hosts == {ELSEWHERE}
    assert f"the wireserver is at {ELSEWHERE}: option 245 of the lease of eth0 ({client})" in said


def test_without_a_lease_the_server_is_asked_and_nothing_is_changed(root: Root) -> None:
    without_networkd(root, STATIC)
    root.unit("after.service", AFTER)
    hosts, said = told(root)
    assert hosts == {ELSEWHERE}
    assert (
        f"the wireserver is at {ELSEWHERE}: option 245 of an offer on eth0, since no DHCP client here has a lease"
        in said
    )
    assert {event.kind for event in root.events() if isinstance(event, Lease)} == {"discover"}
    routes = (root.layer / "after").read_text().splitlines()
    assert [route.strip() for route in routes] == [
        "default via 10.0.0.1 dev eth0",
        "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.4",
    ]


def test_a_route_to_the_usual_address_alone_is_word_enough(root: Root) -> None:
    without_networkd(root, f"{STATIC}; ip route add {USUAL} via 10.0.0.1")
    hosts, _said = told(root, "[expect]\nwithin_secs = 90\n")
    assert hosts == {USUAL}
    assert [event for event in root.events() if isinstance(event, Lease)] == []


@pytest.mark.parametrize("omit", [[], [121]])
def test_routes_that_a_lease_tells_and_its_client_did_not_set_are_added_for_the_platform_alone(
    root: Root, omit: list[int]
) -> None:
    network = NETWORK + "\n[DHCPv4]\nUseRoutes=no\nUseGateway=no\n"
    root.write("etc/systemd/network/10-eth0.network", network)
    root.unit("after.service", AFTER)
    hosts, said = told(root, f"{SCENARIO}[dhcp]\nomit = {omit}\n")
    assert hosts == {ELSEWHERE}
    assert f"added a route to {ELSEWHERE} by " in said
    assert "added a route to 169.254.169.254 by " in said
    assert "default" not in (root.layer / "after").read_text()


def test_a_server_that_names_none_means_the_usual_one(root: Root) -> None:
    hosts, _said = told(root, "[dhcp]\nomit = [245, 121, 249]\n[expect]\nwithin_secs = 90\n")
    assert hosts == {USUAL}


def test_an_address_in_option_245_where_nobody_answers_gives_way_to_the_usual_one(root: Root) -> None:
    hosts, said = told(root, '[dhcp]\nwireserver = "10.9.9.9"\n[expect]\nwithin_secs = 90\n')
    assert hosts == {USUAL}
    assert "no wireserver answers at 10.9.9.9 (option 245 of the lease of eth0 (systemd-networkd)): using" in said


def test_garbage_in_option_245_is_told_and_passed_over(root: Root) -> None:
    hosts, said = told(root, '[dhcp]\nwireserver = "255.255.255.255"\n[expect]\nwithin_secs = 90\n')
    assert hosts == {USUAL}
    assert "option 245 of the lease of eth0 (systemd-networkd) is not a wireserver: 255.255.255.255" in said
