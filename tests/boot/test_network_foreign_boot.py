"""Networks that somebody else configures, runs that are interrupted, and a file system that cannot be written to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakeazure.platform.events import Request
from support.bounds import ALL
from support.installed import Boot, Disk, Images
from support.network_machines import (
    INTERFACES,
    MANAGERS,
    A,
    B,
    Manager,
    departures,
    network_image,
    own_files,
    rules,
    settled,
    strays,
)

pytestmark = [
    pytest.mark.newer,
    pytest.mark.skipif(not ALL, reason="a complete table: run scripts/test --all"),
]

NetworkDisk = Callable[[Manager], Disk]
RULE = ["10101 10.0.1.4 10101"]
TWO = {"azure0": ["10.0.0.4"], "azure1": ["10.0.1.4"]}
OF_NETWORKD = "[Match]\nName={}\n\n[Network]\nDHCP=ipv4\n"
OF_NETPLAN = "network:\n  version: 2\n  ethernets:\n    eth1:\n      dhcp4: true\n"
# All routes of this NIC have precedence, also the one to its DNS server, which is the wireserver.
PREFERRED = f"{OF_NETPLAN}      dhcp4-overrides:\n        route-metric: 50\n"
OF_IFUPDOWN = f"{INTERFACES}\nauto eth1\niface eth1 inet dhcp\n"
OF_NETWORK_MANAGER = """\
[connection]
id=mine
type=ethernet
interface-name=eth1
[ipv4]
method=auto
"""
# networkctl and nmcli as the run finds them, before the real ones: counts its calls, and can hang at the first.
TOOL = """\
#!/bin/sh
echo "$*" >>/var/lib/calls
test -e /var/lib/hang && rm /var/lib/hang && sync && touch /var/lib/hangs && sleep 1000
exec /usr/bin/networkctl "$@"
"""
READ_ONLY = """\
[Unit]
Before=azure-init.service
[Service]
Type=oneshot
ExecStart=/bin/mount --bind /etc/systemd/network /etc/systemd/network
ExecStart=/bin/mount -o remount,bind,ro /etc/systemd/network
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def machine(images: Images, tmp_path: Path) -> Iterator[NetworkDisk]:
    yield lambda manager: Disk(network_image(images, manager), tmp_path / "machine")
    shutil.rmtree(tmp_path, ignore_errors=True)


def told(boot: Boot) -> str:
    return boot.journal("-b", "-u", "azure-init")


@pytest.mark.parametrize(
    ("name", "file", "text", "mode"),
    [
        ("networkd", "etc/systemd/network/20-mine.network", OF_NETWORKD.format("eth1"), 0o644),
        ("netplan", "etc/netplan/20-mine.yaml", OF_NETPLAN, 0o600),
        ("netplan", "etc/netplan/20-mine.yaml", PREFERRED, 0o600),
        ("NetworkManager", "etc/NetworkManager/system-connections/mine.nmconnection", OF_NETWORK_MANAGER, 0o600),
        ("ifupdown", "etc/network/interfaces", OF_IFUPDOWN, 0o644),
    ],
)
def test_an_interface_that_somebody_else_configures_is_left_alone(
    machine: NetworkDisk, name: str, file: str, text: str, mode: int
) -> None:
    disk = machine(MANAGERS[name])
    disk.write(file, text, mode=mode)
    with disk.boot(A + B) as boot:
        settled(boot)
        assert own_files(disk, MANAGERS[name]) == {}
        assert rules(boot) == []
        assert "eth1 stays without policy routing: " in told(boot)
        assert ("added a route to 168.63.129.16 by eth0" in told(boot)) or text != PREFERRED
        # Progress is reported before the ways are known. On real Azure such a request is not answered.
        later = [request for request in boot.requests() if not is_progress(request)]
        assert [request.path for request in later if request.secondary] == []
        assert "/provisioning/health" in [request.path for request in later]
    assert (disk.layer / file).read_text() == text


def is_progress(request: Request) -> bool:
    return request.path == "/provisioning/health" and '"NotReady"' in request.body


def test_of_two_managers_the_one_that_holds_the_link_gets_the_file(machine: NetworkDisk) -> None:
    """networkd has eth0 alone, NetworkManager all others."""
    disk = machine(MANAGERS["NetworkManager"])
    disk.change("systemctl enable systemd-networkd.service >&2")
    disk.write("etc/systemd/network/10-mine.network", OF_NETWORKD.format("eth0"))
    disk.write("etc/NetworkManager/conf.d/mine.conf", "[keyfile]\nunmanaged-devices=interface-name:eth0\n")
    (disk.layer / "etc/systemd/network/zzz-azure-init-forced.network").symlink_to("/dev/null")
    with disk.boot(A + B) as boot:
        settled(boot)
        boot.until(lambda: rules(boot) == RULE, "the second interface has its rule")
        assert departures(boot, TWO) == TWO
        assert strays(boot) == []
    assert list(own_files(disk, MANAGERS["NetworkManager"])) == ["azure-init-000d3a123457.nmconnection"]
    assert own_files(disk, MANAGERS["networkd"]) == {}


def test_netplan_for_networkmanager_gets_a_profile_and_no_file_of_netplan(machine: NetworkDisk) -> None:
    """netplan has eth0 by its name, as an image's file does; nothing names eth1."""
    rendered = "network:\n  version: 2\n  renderer: NetworkManager\n  ethernets:\n    eth0:\n      dhcp4: true\n"
    both = Manager(
        name="netplan-NetworkManager",
        packages=("netplan.io", "network-manager"),
        setup="systemctl disable systemd-networkd.service >&2",
        files=(("etc/netplan/01-image.yaml", rendered, 0o600),),
        ours=MANAGERS["NetworkManager"].ours,
    )
    disk = machine(both)
    for number in (1, 2):
        with disk.boot(A + B) as boot:
            if number == 1:
                settled(boot)
            else:
                boot.ended()
            boot.until(lambda: rules(boot) == RULE, "the second interface has its rule")
            assert departures(boot, TWO) == TWO
            assert strays(boot) == []
        assert list(own_files(disk, both)) == ["azure-init-000d3a123457.nmconnection"]
        assert own_files(disk, MANAGERS["netplan"]) == {} == own_files(disk, MANAGERS["networkd"])


def test_a_run_that_is_killed_between_the_file_and_its_loading_ends_in_the_next_boot(machine: NetworkDisk) -> None:
    disk = machine(MANAGERS["networkd"])
    disk.write("usr/local/bin/networkctl", TOOL, mode=0o755)
    disk.write("var/lib/hang", "")
    with disk.boot(A + B) as boot:
        boot.ready()
        boot.until(lambda: (disk.layer / "var/lib/hangs").exists(), "the file is written, and its loading begins")
        before = own_files(disk, MANAGERS["networkd"])
        assert list(before) == ["zzx-azure-init-000d3a123457.network"]
        boot.cut_power()
    (disk.layer / "var/lib/calls").unlink()
    with disk.boot(A + B) as boot:
        boot.ended()
        boot.until(lambda: rules(boot) == RULE, "the second interface has its rule")
        assert departures(boot, TWO) == TWO
        calls = disk.layer / "var/lib/calls"
        assert (calls.read_text().splitlines() if calls.exists() else []).count("reload") <= 1
    assert own_files(disk, MANAGERS["networkd"]) == before
    with disk.boot(A + B) as boot:
        boot.ended()
        assert rules(boot) == RULE
    assert own_files(disk, MANAGERS["networkd"]) == before


def test_ready_is_reported_also_where_the_files_cannot_be_written(machine: NetworkDisk) -> None:
    disk = machine(MANAGERS["networkd"])
    disk.write("etc/systemd/system/read-only.service", READ_ONLY)
    disk.change("systemctl enable read-only.service >&2")
    with disk.boot(A + B) as boot:
        settled(boot)
        assert own_files(disk, MANAGERS["networkd"]) == {}
        assert "Read-only file system" in told(boot)
        assert strays(boot) == []
