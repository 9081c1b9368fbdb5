"""Two NICs on a real kernel, with the distribution's udev and systemd-networkd: addresses, rules, packets, Ready."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fakeazure.judge import judge
from support.bounds import ALL
from support.disks import debian_disk, with_tree
from support.emulated import EmulatedDisk
from support.need import need, need_root
from support.network_machines import A, B, departures, has_addresses, rules, settled, strays
from support.staged import staged

pytestmark = [pytest.mark.newer, pytest.mark.skipif(not ALL, reason="an emulated boot: run scripts/test --all")]

ADDRESSES = {"tap0": ["10.0.0.4"], "tap1": ["10.0.1.4"]}


def test_two_nics_on_a_real_kernel(tmp_path: Path) -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "nsenter", "ssh", "ssh-keygen"):
        need(tool)
    plain = debian_disk("plain")
    tree = staged(tmp_path / "tree")
    # Sockets want short names.
    with with_tree(plain, tree, tmp_path) as image, tempfile.TemporaryDirectory(dir="/tmp", prefix="nics-") as place:
        disk = EmulatedDisk(image, Path(place, "machine"), options=plain.direct)
        with disk.boot(A + B, wait=False) as boot:
            boot.ready()
            boot.until(lambda: boot.run("true").returncode == 0, "the admin may log in")
            settled(boot)
            boot.until(lambda: has_addresses(boot, ADDRESSES), "both NICs have their addresses")
            boot.until(lambda: rules(boot) == ["10101 10.0.1.4 10101"], "the second NIC has its rule")
            assert " dev eth1 " in boot.out("ip", "route", "get", "192.0.2.77", "from", "10.0.1.4")
            assert departures(boot, ADDRESSES) == ADDRESSES
            assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
            starting = ("", "initializing", "starting")
            boot.until(lambda: boot.run("systemctl", "is-system-running").stdout.strip() not in starting, "it is up")
            assert boot.failed_units() == []
            assert boot.out("systemctl", "is-system-running") == "running"
            assert strays(boot) == []
        judgement = judge(boot.events())
        assert judgement.complaints == () and judgement.state == "ready", judgement
