"""Debian machines with several interfaces, one network manager each, and a capture on the platform's side."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.capture import CAPTURE
from support.container import debian_root
from support.installed import Boot, Disk, Images, once

INTERFACES = (
    "source /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet dhcp\n"
)
# A container has no udev, which brings up the links that have an allow-hotplug line.
HOTPLUG = """\
[Unit]
After=networking.service
Before=azure-init.service

[Service]
Type=oneshot
ExecStart=-/bin/sh -c 'for link in /sys/class/net/eth*; do ifup --allow=hotplug "$${link##*/}"; done'

[Install]
WantedBy=multi-user.target
"""
NETPLAN = "network:\n  version: 2\n  renderer: networkd\n"
INSTALL = "dpkg --force-unsafe-io -i /azure-init.deb >&2\nrm /azure-init.deb\n"


@dataclass(frozen=True, kw_only=True)
class Manager:
    """A network manager on Debian: its packages, how the image sets it up, and where our files for it are."""

    name: str
    packages: tuple[str, ...] = ()
    setup: str
    files: tuple[tuple[str, str, int], ...] = ()
    ours: str  # a pattern below the root directory


MANAGERS = {
    one.name: one
    for one in (
        Manager(
            name="networkd",
            setup="systemctl enable systemd-networkd.service >&2",
            ours="etc/systemd/network/zzx-azure-init-*.network",
        ),
        Manager(
            name="NetworkManager",
            packages=("network-manager",),
            setup="systemctl disable systemd-networkd.service >&2",
            ours="etc/NetworkManager/system-connections/azure-init-*.nmconnection",
        ),
        Manager(
            name="netplan",
            packages=("netplan.io",),
            setup="systemctl enable systemd-networkd.service >&2",
            files=(("etc/netplan/01-image.yaml", NETPLAN, 0o600),),
            ours="etc/netplan/60-azure-init*.yaml",
        ),
        Manager(
            name="ifupdown",
            packages=("ifupdown", "isc-dhcp-client"),
            setup="systemctl disable systemd-networkd >&2; systemctl enable networking hotplug >&2",
            files=(
                ("etc/network/interfaces", INTERFACES, 0o644),
                ("etc/systemd/system/hotplug.service", HOTPLUG, 0o644),
            ),
            ours="etc/network/interfaces.d/60-azure-init*",
        ),
    )
}

# Sends a packet from each address to an address far away.
SEND = """
import socket, sys
for address in sys.argv[4:]:
    family, target = (socket.AF_INET6, sys.argv[2]) if ":" in address else (socket.AF_INET, sys.argv[1])
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.bind((address, 0))
        one.sendto(b"here", (target, int(sys.argv[3])))
"""
CAPTURE_SECS = 300.0  # many times what a capture takes on a computer that does nothing else
FAR, FAR6, PORT = "192.0.2.77", "2001:db8::77", 9999


@dataclass(frozen=True, kw_only=True)
class Packet:
    device: str
    source: str
    target: str
    port: int


def network_image(images: Images, manager: Manager) -> tuple[Path, ...]:
    """Debian 13 with this manager and the package, installed once in a test run."""
    root = debian_root("trixie", *manager.packages)

    def install(place: Path) -> None:
        disk = Disk((root,), place)
        shutil.copy(images.package, disk.layer / "azure-init.deb")
        for name, text, mode in manager.files:
            disk.write(name, text, mode=mode)
        disk.change(INSTALL + manager.setup)

    return once(images.place / f"network-{manager.name}", install) / "upper", root


class NotCaptured(AssertionError):
    """The capture did not start or did not end: it says nothing about the machine."""


@contextlib.contextmanager
def captured(boot: Boot, *devices: str) -> Iterator[list[Packet]]:
    """The packets that leave the machine in the meantime; complete after the end."""
    command = ("nsenter", f"--target={boot.platform_pid}", "--net", sys.executable, "-c", CAPTURE, *devices)
    packets: list[Packet] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as capture:
        try:
            assert capture.stdout is not None
            first = capture.stdout.readline()
            if first != "listening\n":
                raise NotCaptured(f"{devices}: {first}{ended(capture)}")
            yield packets
            packets += [Packet(**json.loads(line)) for line in ended(capture).splitlines()]
        finally:
            capture.kill()


def ended(capture: subprocess.Popen[str]) -> str:
    """What is left of the output. Not by communicate(), which misses what readline() has buffered."""
    assert capture.stdin is not None and capture.stdout is not None
    limit = threading.Timer(CAPTURE_SECS, capture.kill)
    limit.start()
    try:
        capture.stdin.close()
        said = capture.stdout.read()
        status = capture.wait()
    finally:
        limit.cancel()
    if status:
        raise NotCaptured(f"status {status}: {said}")
    return said


def departures(boot: Boot, addresses: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Device -> the addresses whose packets to a far address leave through it. `addresses`: by device, as expected."""
    sent = [address for each in addresses.values() for address in each]
    with captured(boot, *addresses) as packets:
        boot.out("python3", "-c", SEND, FAR, FAR6, str(PORT), *sent)
    seen: dict[str, set[str]] = {device: set() for device in addresses}
    for packet in packets:
        if packet.target in (FAR, FAR6) and packet.port == PORT:
            seen[packet.device].add(packet.source)
    return {device: sorted(sources) for device, sources in seen.items()}


def departs(boot: Boot, addresses: Mapping[str, Iterable[str]]) -> bool:
    """Whether the machine has these addresses, and their packets leave as expected; for a check that is repeated."""
    try:
        return has_addresses(boot, addresses) and departures(boot, addresses) == addresses
    except NotCaptured:
        return False


def nic(mac: str, address: str = "", **settings: str) -> str:
    """An interface of a scenario; its settings are TOML."""
    lines = [f'mac = "00:0d:3a:12:34:{mac}"', *([f'address = "{address}"'] if address else [])]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(("[[vm.interfaces]]", *lines, "", ""))


A, B, C = nic("56"), nic("57", "10.0.1.4"), nic("58", "10.0.2.132", prefix="25")
# Three interfaces with secondary addresses, and what is expected of them.
THREE = nic("56", secondary='["10.0.0.5"]') + nic("57", "10.0.1.4", secondary='["10.0.1.5", "10.0.1.6"]') + C
ADDRESSES = {
    "azure0": ["10.0.0.4", "10.0.0.5"],
    "azure1": ["10.0.1.4", "10.0.1.5", "10.0.1.6"],
    "azure2": ["10.0.2.132"],
}


def own_files(disk: Disk, manager: Manager) -> dict[str, tuple[bytes, int, int]]:
    """azure-init's files for this manager: content, mode, and time of the last change."""
    found = {}
    for path in sorted(disk.layer.glob(manager.ours)):
        about = path.lstat()
        found[path.name] = (path.read_bytes(), about.st_mode & 0o777, about.st_mtime_ns)
    return found


def settled(boot: Boot) -> None:
    """Waits for Ready and the end of the run, which configures the network after Ready."""
    boot.ready()
    assert boot.ended() == "success 0"


def has_addresses(boot: Boot, addresses: Mapping[str, Iterable[str]]) -> bool:
    """Whether the machine has all of these and may use them. `addresses`: by device."""
    shown = boot.out("ip", "-o", "address", "show", "-tentative").split()
    wanted = [address for each in addresses.values() for address in each]
    return all(any(word.startswith(f"{address}/") for word in shown) for address in wanted)


def rules(boot: Boot) -> list[str]:
    """The rules of azure-init's priorities, sorted: priority, source, table."""
    lines = boot.out("ip", "rule", "list").splitlines()
    found = [line.replace(":", " ").split() for line in lines]
    return sorted(f"{words[0]} {words[2]} {words[4]}" for words in found if 10101 <= int(words[0]) <= 10199)


def late_messages(boot: Boot, mac: str) -> list[str]:
    """DHCPv4 messages of this interface after Ready: its manager was asked to configure it again.

    DHCPv6 waits for a router, and so may begin after Ready by itself.
    """
    told = [event.t for event in boot.verdicts()]
    late = [one for one in boot.leases() if one.mac.endswith(mac) and told and one.t > told[0]]
    return [one.kind for one in late if ":" not in one.address]


def is_configured(boot: Boot) -> bool:
    """Whether this boot's run has configured a link."""
    return "configured eth" in boot.journal("-b", "-u", "azure-init")


def strays(boot: Boot) -> list[str]:
    """Requests that did not come from the primary address of the primary interface."""
    return [f"{one.method} {one.path} from {one.address}" for one in boot.requests() if one.secondary]
