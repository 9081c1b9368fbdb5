"""The plan that grows a file system, and the parsers of its headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.facts.disks import (
    GROWFS,
    LEAST_ROOM,
    Disk,
    Superblock,
    parse_btrfs,
    parse_ext,
    parse_mount,
    parse_xfs,
)
from azureinit.plan.actions import Declined
from azureinit.plan.grow import plan_grow
from azureinit.plan.show import as_text
from support.grown_disks import MIB, TOOLS, btrfs, computer, ext, steps, xfs

EVERYTHING = frozenset({*TOOLS, GROWFS})


# ---- what would be done


def test_without_any_tool_every_way_says_what_is_missing(tmp_path: Path) -> None:
    disk = computer(tmp_path, disk=4096, size=1000).read()
    assert disk is not None
    plan = plan_grow(Disk(**{**disk.as_dict(), "tools": frozenset()}))
    partition, filesystem = steps(plan)
    assert partition.ways == (
        Declined(backend="growpart", why="growpart is not installed"),
        Declined(backend="sfdisk", why="sfdisk is not installed"),
        Declined(backend="parted", why="parted is not installed"),
    )
    assert filesystem.ways == (
        Declined(backend="resize2fs", why="resize2fs is not installed"),
        Declined(backend="systemd-growfs", why="/usr/lib/systemd/systemd-growfs is not installed"),
    )


def test_a_plan_shows_every_command(tmp_path: Path) -> None:
    disk = computer(tmp_path, disk=4096, size=1000).read()
    assert disk is not None
    text = as_text(plan_grow(Disk(**{**disk.as_dict(), "tools": EVERYTHING})), privileged=True)
    assert "+ root partition: 2967 MiB are free behind /dev/sda1" in text
    assert "run growpart /dev/sda 1" in text
    assert """run sh -c 'echo ", +" | sfdisk --quiet --force --no-reread -N "$2" "$1"' sfdisk /dev/sda 1""" in text
    assert "run partx --update --nr 1 /dev/sda" in text
    assert "+ root file system: ext4 gains 2967 MiB" in text
    assert "run resize2fs /dev/sda1" in text
    assert "run /usr/lib/systemd/systemd-growfs /" in text


# ---- parsers


def test_the_uppermost_of_two_mounts_counts() -> None:
    first, second = b"1 1 0:2 / / rw - rootfs rootfs rw\n", b"28 1 8:1 / / rw a:1 b:2 - ext4 /dev/sda1 rw\n"
    data = first + second + b"29 28 8:2 / /home rw - xfs /dev/sda2 rw\n"
    found = parse_mount(data, "/")
    assert found is not None and (found.device, found.filesystem, found.source) == ("8:1", "ext4", "/dev/sda1")
    assert parse_mount(data, "/nowhere") is None


@pytest.mark.parametrize("size", [1, 1000, 64 << 20])
def test_superblocks_tell_their_size(size: int) -> None:
    assert parse_ext(ext(size)) == Superblock(filled=size * MIB)
    assert parse_xfs(xfs(size)) == Superblock(filled=size * MIB)
    assert parse_btrfs(btrfs(size, devid=2)) == Superblock(filled=size * MIB, devid=2)


def test_small_blocks_count_too() -> None:
    assert parse_ext(ext(100, shift=0)) == Superblock(filled=100 * MIB)


@given(st.binary(max_size=4096), st.sampled_from([b"", b"XFSB", b"\0" * 64 + b"_BHRfS_M", b"\0" * 1080 + b"\x53\xef"]))
def test_no_superblock_is_too_strange_to_read(data: bytes, start: bytes) -> None:
    head = start + data
    for parse in (parse_ext, parse_xfs, parse_btrfs):
        found = parse(head)
        assert found.filled is None or found.filled >= 0


@given(st.binary(max_size=300))
def test_no_mount_table_is_too_strange_to_read(data: bytes) -> None:
    assert parse_mount(data, "/") is None or b" / " in data
    found = parse_mount(data + b"\n1 2 8:1 / / rw - ext4 /dev/x rw", "/")
    assert found is not None and (found.device, found.filesystem, found.writable) == ("8:1", "ext4", True)


@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50), st.one_of(st.none(), st.integers(0, 1 << 50)))
def test_a_plan_never_shrinks_anything_and_leaves_crumbs(room: int, size: int, filled: int | None) -> None:
    disk = Disk(mount="/", filesystem="ext4", device="/dev/sda1", size=size, filled=filled, disk="/dev/sda", room=room)
    slack = 0 if filled is None else size - filled
    names = [step.name for step in steps(plan_grow(disk))]
    assert ("root partition" in names) == (room >= LEAST_ROOM)
    assert ("root file system" in names) == (room >= LEAST_ROOM or slack >= LEAST_ROOM)
