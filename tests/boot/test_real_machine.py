"""A Debian on a real kernel, with firmware, a CD-ROM drive and DHCP: the same checks as for containers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fakeazure.platform.events import Ejected
from support.boot_checks import OURS, READY, is_orderly, is_provisioned
from support.container import PROJECT
from support.disks import DISK_SIZE, MEGABYTE, debian_disk, with_tree
from support.emulated import EmulatedDisk
from support.installed import Boot
from support.need import need, need_root
from support.staged import staged, switch_on

pytestmark = pytest.mark.newer

# Another address than the usual one: the lease has to be read.
ELSEWHERE = "10.7.7.7"
ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
GROWTH = 1024 * MEGABYTE


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "nsenter", "ssh", "ssh-keygen"):
        need(tool)


def test_a_real_machine_is_provisioned_at_its_first_boot_and_grows_at_the_second(tmp_path: Path) -> None:
    """Its firmware says that this is Azure, its disc is in its drive, and its lease says where the wireserver is."""
    plain = debian_disk("plain")
    tree = with_conditions(staged(tmp_path / "tree"))
    # Sockets want short names.
    with with_tree(plain, tree, tmp_path) as image, tempfile.TemporaryDirectory(dir="/tmp", prefix="real-") as place:
        disk = EmulatedDisk(image, Path(place, "machine"), options=plain.direct)
        with disk.boot(f'[wireserver]\naddress = "{ELSEWHERE}"\n', vm="generation = 1") as boot:
            boot.ready()
            is_on_azure(boot)
            assert READY in boot.journal("-b", *OURS)
            card = boot.out("networkctl", "status", "--no-pager", "eth0")
            assert "/zzz-azure-init-emulated.network" in card, "the image brings no network of its own"
            assert {lease.hostname for lease in boot.leases()} == {"floor-1"}, "the name was there before DHCP"
            assert {one.headers["host"] for one in boot.requests() if one.service == "wireserver"} == {ELSEWHERE}
            assert any(isinstance(event, Ejected) for event in boot.events())
            before = root_size(boot)
        with image.open("r+b") as file:
            file.truncate(DISK_SIZE + GROWTH)
        with disk.boot(vm="generation = 1") as boot:
            is_on_azure(boot)
            assert boot.requests() == []
            assert boot.moment("azure-init-resend", "ExecMainStart") == 0, "nothing is left to tell"
            assert root_size(boot) > before + 0.9 * GROWTH


def with_conditions(tree: Path) -> Path:
    """Two units that start by the firmware's word alone: Azure's, and somebody else's."""
    lines = (PROJECT / "systemd/azure-init.service").read_text().splitlines()
    (condition,) = (line for line in lines if line.startswith("ConditionFirmware="))
    for name, tag in (("here", ASSET_TAG), ("elsewhere", ASSET_TAG[::-1])):
        unit = f"[Unit]\n{condition.replace(ASSET_TAG, tag)}\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
        (tree / f"etc/systemd/system/{name}.service").write_text(f"{unit}[Install]\nWantedBy=multi-user.target\n")
        switch_on(tree, f"{name}.service")
    return tree


def is_on_azure(boot: Boot) -> None:
    assert boot.ended() == "success 0"
    is_provisioned(boot)
    is_orderly(boot)
    assert {name: boot.shown(name, "ConditionResult") for name in ("here", "elsewhere")} == {
        "here": "yes",
        "elsewhere": "no",
    }


def root_size(boot: Boot) -> int:
    return int(boot.out("findmnt", "--noheadings", "--bytes", "--output", "SIZE", "/"))
