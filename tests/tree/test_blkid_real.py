"""The signatures that the tests put on disks are those that util-linux knows, and nothing is blank that blkid knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.disk_content import read_device, read_second_opinion
from azureinit.machine import Machine
from support.need import need
from support.sparse_disks import MIB, SIGNED, SparseDisk

SIZE = 40 * MIB
# As blkid names them. The others need more than their magic number for blkid.
KNOWN = {
    "dos": "dos",
    "empty dos": "dos",
    "protective": "PMBR",
    "md 0.90": "linux_raid_member",
    "md 1.0": "linux_raid_member",
    "md 1.1": "linux_raid_member",
    "md 1.2": "linux_raid_member",
    "luks": "crypto_LUKS",
    "luks2 second": "crypto_LUKS",
    "ext2": "ext2",
    "ext3": "ext3",
    "ext4": "ext4",
    "btrfs": "btrfs",
    "suspended": "swsuspend",
    "exfat": "exfat",
    "refs": "ReFS",
    "f2fs": "f2fs",
    "erofs": "erofs",
    "drbd": "drbd",
    "imsm": "isw_raid_member",
}


def image(path: Path, name: str = "") -> Path:
    disk = SparseDisk(SIZE)
    if name:
        SIGNED[name][1](disk)
    with path.open("wb") as file:
        file.truncate(SIZE)
        for block, data in disk.written.items():
            file.seek(block * MIB)
            file.write(data)
    return path


@pytest.mark.parametrize("name", KNOWN)
def test_blkid_knows_it_too(tmp_path: Path, name: str) -> None:
    need("blkid")
    assert read_second_opinion(Machine(), str(image(tmp_path / "disk", name))) == KNOWN[name]


def test_an_empty_disk_is_blank_for_both(tmp_path: Path) -> None:
    need("blkid")
    path = str(image(tmp_path / "disk"))
    assert read_second_opinion(Machine(), path) == ""
    content = read_device(Machine(), path, SIZE)
    assert content.blank and content.ambiguous == ""


def shimmed(tmp_path: Path, script: str) -> Machine:
    tool = tmp_path / "blkid"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return Machine(search=(str(tmp_path), "/usr/bin", "/bin"))


@pytest.mark.parametrize(
    ("script", "ambiguous"),
    [
        ("echo TYPE=minix", "blkid finds: minix"),
        ("exit 8", "blkid finds: signatures that contradict each other"),
        ("exit 2", ""),
        ("echo BusyBox v1.36 >&2; exit 1", ""),
        ("echo broken >&2; exit 4", "blkid finds: nothing certain (broken)"),
    ],
)
def test_what_blkid_says_against_it_counts(tmp_path: Path, script: str, ambiguous: str) -> None:
    content = read_device(shimmed(tmp_path, script), str(image(tmp_path / "disk")), SIZE)
    assert content.ambiguous.startswith(ambiguous) and content.blank == (not ambiguous)


def test_without_blkid_the_own_probe_decides(tmp_path: Path) -> None:
    machine = Machine(search=(str(tmp_path),))
    assert read_device(machine, str(image(tmp_path / "disk")), SIZE).blank
