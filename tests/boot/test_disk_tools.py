"""The commands that make file systems, tables and swap areas, run with the real tools on image files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.backends.filesystem import (
    format_swap_file,
    make_filesystem,
    make_swap_file,
    make_table,
    tool_of,
    wiped_first,
)
from azureinit.backends.mount import check_mount
from azureinit.plan.actions import Run
from support.need import SBIN, need, need_root, unfit

MIB = 1 << 20
# mkfs.btrfs refuses a UUID that any block device of the machine has, such as another run's loop device.
UUID, OTHER = str(uuid.uuid4()), str(uuid.uuid4())
PARTITION, SWAP_PARTITION = "2d6b5e6c-3f0a-4b60-9d3c-0123456789ab", "3d6b5e6c-3f0a-4b60-9d3c-0123456789ab"
LABEL = "AzureEphmDsk"
KINDS = ("ext4", "xfs", "btrfs", "swap")
PATH = os.pathsep.join((os.environ.get("PATH", ""), *SBIN))


def run(action: Run, *, fails: bool = False, **more: str) -> str:
    ended = subprocess.run(
        action.argv,
        env={**os.environ, "PATH": PATH, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    assert (ended.returncode != 0) is fails, ended.stdout
    return ended.stdout


def image(tmp_path: Path, size: int = 512 * MIB, name: str = "disk.img") -> str:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(size)
    return str(path)


def probe(path: str, *more: str) -> dict[str, str]:
    blkid = need("blkid")
    ended = subprocess.run([blkid, "-p", *more, "-o", "export", path], stdout=subprocess.PIPE, check=False, text=True)
    return dict(line.split("=", 1) for line in ended.stdout.splitlines() if "=" in line)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A block device with sectors of 4096 bytes."""
    need_root()
    path = image(tmp_path, name="loop.img")
    argv = [need("losetup"), "--find", "--show", "--sector-size", "4096", path]
    made = subprocess.run(argv, stdout=subprocess.PIPE, check=False, text=True)
    if made.returncode:
        unfit("no loop device can be had here")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run([need("losetup"), "--detach", device], check=True)


# ---- file systems


@pytest.mark.parametrize("kind", KINDS)
def test_uuid_and_label_are_those_that_were_chosen(tmp_path: Path, kind: str) -> None:
    need(tool_of(kind))
    path = image(tmp_path)
    run(make_filesystem(kind, path, uuid=UUID, label=LABEL, overwrite=False))
    found = probe(path)
    assert (found["TYPE"], found["UUID"], found["LABEL"]) == (kind, UUID, LABEL)


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_with_sectors_of_4096_bytes(loop: str, kind: str) -> None:
    need(tool_of(kind))
    run(make_filesystem(kind, loop, uuid=UUID, label=LABEL, overwrite=False))
    assert probe(loop)["UUID"] == UUID


@pytest.mark.parametrize("kind", KINDS)
def test_our_own_interrupted_work_is_overwritten(tmp_path: Path, kind: str) -> None:
    need(tool_of(kind))
    path = image(tmp_path)
    run(make_filesystem(kind, path, uuid=OTHER, label="older", overwrite=False))
    run(make_filesystem(kind, path, uuid=UUID, label=LABEL, overwrite=True))
    assert probe(path)["UUID"] == UUID


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_a_file_system_is_not_overwritten_without_force(tmp_path: Path, kind: str) -> None:
    need(tool_of(kind))
    path = image(tmp_path)
    run(make_filesystem(kind, path, uuid=OTHER, label="older", overwrite=False))
    run(make_filesystem(kind, path, uuid=UUID, label=LABEL, overwrite=False), fails=True)
    assert probe(path)["UUID"] == OTHER


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_nothing_is_discarded(loop: str, kind: str) -> None:
    """Bytes in the middle of the disk are still there: a discard of a loop device punches holes."""
    need(tool_of(kind))
    path = loop
    at = 200 * MIB + 12345
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"kept")
        file.flush()
        os.fsync(file.fileno())
    run(make_filesystem(kind, path, uuid=UUID, label=LABEL, overwrite=False))
    with open(path, "rb") as file:
        file.seek(at)
        assert file.read(4) == b"kept"


# ---- tables


def table(path: str) -> dict[str, Any]:
    shown = subprocess.run([need("sfdisk"), "--json", path], stdout=subprocess.PIPE, check=True)
    found = json.loads(shown.stdout)["partitiontable"]
    assert isinstance(found, dict)
    return found


def test_a_partition_table_has_the_chosen_uuids(tmp_path: Path) -> None:
    need("sfdisk")
    path = image(tmp_path)
    run(make_table(path, uuid=UUID, partition_uuid=PARTITION))
    found = table(path)
    assert (found["label"], str(found["id"]).lower()) == ("gpt", UUID)
    (only,) = found["partitions"]
    assert only["uuid"].lower() == PARTITION
    assert only["start"] * 512 == MIB
    assert (only["start"] + only["size"]) * 512 > 510 * MIB


def test_a_swap_partition_has_exactly_the_asked_size(tmp_path: Path) -> None:
    need("sfdisk")
    path = image(tmp_path)
    run(make_table(path, uuid=UUID, partition_uuid=PARTITION, swap_uuid=SWAP_PARTITION, swap_mib=100))
    swap, data = table(path)["partitions"]
    assert swap["size"] * 512 == 100 * MIB
    assert [swap["uuid"].lower(), data["uuid"].lower()] == [SWAP_PARTITION, PARTITION]
    assert swap["type"] == "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"


def test_one_partition_of_swap(tmp_path: Path) -> None:
    need("sfdisk")
    path = image(tmp_path)
    run(make_table(path, uuid=UUID, partition_uuid=PARTITION, swap_mib=100, all_swap=True))
    (swap,) = table(path)["partitions"]
    assert (swap["size"] * 512, swap["type"]) == (100 * MIB, "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F")


def test_an_old_table_goes_before_the_file_system_is_made(tmp_path: Path) -> None:
    """As on a resource disk: a DOS table with one partition."""
    need("mkfs.ext4")
    path = image(tmp_path)
    script = b"label: dos\nstart=2048, type=7\n"
    subprocess.run([need("sfdisk"), "--quiet", path], input=script, check=True)
    assert probe(path)["PTTYPE"] == "dos"
    make = make_filesystem("ext4", path, uuid=UUID, label=LABEL, overwrite=True)
    run(wiped_first(((path, Path(path).stat().st_size),), make))
    found = probe(path)
    assert (found["TYPE"], found["UUID"], found.get("PTTYPE")) == ("ext4", UUID, None)


def test_both_ends_of_a_disk_are_overwritten_and_nothing_between_them(tmp_path: Path) -> None:
    need("wipefs")
    path = Path(image(tmp_path, 32 * MIB))
    size = path.stat().st_size
    path.write_bytes(b"x" * size)
    run(wiped_first(((str(path), size),), Run(argv=("true",))))
    data, end = path.read_bytes(), 5 * MIB
    assert data == bytes(end) + b"x" * (size - 2 * end) + bytes(end)
    run(wiped_first(((str(path), 15 * MIB),), Run(argv=("true",))), fails=True)


def test_no_copy_of_a_btrfs_superblock_is_left(tmp_path: Path) -> None:
    path, magic = Path(image(tmp_path, 128 * MIB)), b"_BHRfS_M"
    run(make_filesystem("btrfs", str(path), uuid=OTHER, label=LABEL, overwrite=False))
    assert path.read_bytes()[64 * MIB :].count(magic) == 1
    run(wiped_first(((str(path), 128 * MIB),), Run(argv=("true",))))
    assert magic not in path.read_bytes()


def test_nothing_is_made_where_the_old_table_cannot_be_removed(tmp_path: Path) -> None:
    need("wipefs")
    path = image(tmp_path)
    make = make_filesystem("ext4", path, uuid=UUID, label=LABEL, overwrite=True)
    run(wiped_first(((str(tmp_path / "missing"), 64 * MIB), (path, 64 * MIB)), make), fails=True)
    assert probe(path) == {}


# ---- mounts


def test_the_device_at_a_mount_point_is_checked(loop: str, tmp_path: Path) -> None:
    need("mkfs.ext4")
    run(make_filesystem("ext4", loop, uuid=UUID, label=LABEL, overwrite=False))
    place, link = tmp_path / "mnt", tmp_path / "by-label"
    place.mkdir()
    link.symlink_to(loop)
    told = run(check_mount(loop, str(place)), fails=True)
    assert told == f"nothing is mounted at {place}, not {loop}: nothing is written to it\n"
    if subprocess.run([need("mount"), loop, str(place)], check=False).returncode:
        unfit("nothing can be mounted here")
    try:
        run(check_mount(loop, str(place)))
        run(check_mount(str(link), str(place)))
        assert f"{loop} is mounted at" in run(check_mount("/dev/null", str(place)), fails=True)
        subprocess.run([need("mount"), "-t", "tmpfs", "none", str(place)], check=True)
        try:
            assert "none is mounted at" in run(check_mount(loop, str(place)), fails=True)
        finally:
            subprocess.run([need("umount"), str(place)], check=True)
    finally:
        subprocess.run([need("umount"), str(place)], check=True)


# ---- swap files


@pytest.mark.parametrize("how", ["fallocate", "dd"])
@pytest.mark.parametrize("size", [10 * MIB, 65 * MIB])
def test_a_swap_file_has_exactly_its_size_and_no_holes(tmp_path: Path, how: str, size: int) -> None:
    need("mkswap")
    path = tmp_path / "swapfile"
    run(make_swap_file(str(path), size, how=how))
    status = path.stat()
    assert status.st_size == size
    assert status.st_blocks * 512 >= size
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert probe(str(path))["TYPE"] == "swap"


@pytest.mark.parametrize("how", ["fallocate", "dd"])
def test_a_name_that_is_taken_is_not_written_to(tmp_path: Path, how: str) -> None:
    target, taken = tmp_path / "target", tmp_path / "taken"
    taken.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(target)
    for name in ("taken", "link"):
        run(make_swap_file(str(tmp_path / name), MIB, how=how), fails=True)
    assert taken.read_bytes() == b"mine"
    assert (tmp_path / "link").is_symlink()
    assert not target.exists()


@pytest.mark.parametrize("how", ["fallocate", "dd"])
def test_a_link_to_a_disk_in_the_place_of_the_swap_file_is_not_followed(loop: str, tmp_path: Path, how: str) -> None:
    """The top directory of the file system may belong to a user, who can make such a link."""
    with open(loop, "r+b") as file:
        file.write(b"data of others")
    link = tmp_path / "swapfile"
    link.symlink_to(loop)
    for action in (make_swap_file(str(link), 2 * MIB, how=how), format_swap_file(str(link))):
        run(action, fails=True)
    with open(loop, "rb") as file:
        assert file.read(14) == b"data of others"
        assert not file.read(MIB).strip(b"\0")
    assert link.is_symlink()


def test_a_pipe_in_the_place_of_the_swap_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "swapfile"
    os.mkfifo(path)
    for action in (make_swap_file(str(path), MIB, how="dd"), format_swap_file(str(path))):
        assert "swapfile" in run(action, fails=True)


def test_a_file_without_a_swap_area_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "swapfile"
    path.write_bytes(bytes(MIB))
    path.chmod(0o600)
    run(format_swap_file(str(path)))
    assert probe(str(path))["TYPE"] == "swap"
    assert path.stat().st_size == MIB


def test_a_file_that_could_not_be_filled_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "swapfile"
    run(make_swap_file(str(path), 1 << 60, how="fallocate"), fails=True)
    assert not path.exists()


def test_a_swap_file_on_btrfs_is_not_copied_on_write(loop: str, tmp_path: Path) -> None:
    need("mkfs.btrfs")
    run(make_filesystem("btrfs", loop, uuid=UUID, label=LABEL, overwrite=False))
    place = tmp_path / "mnt"
    place.mkdir()
    if subprocess.run([need("mount"), "-t", "btrfs", loop, str(place)], check=False).returncode:
        unfit("btrfs cannot be mounted here")
    try:
        path = place / "swapfile"
        run(make_swap_file(str(path), 16 * MIB, how="chattr"))
        shown = subprocess.run([need("lsattr"), str(path)], stdout=subprocess.PIPE, check=True, text=True).stdout
        assert "C" in shown.split()[0]
        assert path.stat().st_size == 16 * MIB
    finally:
        subprocess.run([need("umount"), str(place)], check=True)
