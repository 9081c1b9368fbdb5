"""The use of real block devices: loop devices that are mounted, swapped on, claimed, or written to by a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureinit.errors import LocalError
from azureinit.facts.block_devices import above, read_blocks, under
from azureinit.facts.disk_use import read_claim, read_disk_use, read_uses, read_writers
from azureinit.facts.fstab import is_fstab_writable
from azureinit.machine import Machine
from azureinit.machine.disk_use import free_bytes, is_writable
from support.need import need, need_root, unfit

SIZE = 64 << 20
CLAIMED = "the kernel or another program has opened it exclusively"
HOLD = "import os, sys; os.open(sys.argv[1], int(sys.argv[2])); print('open', flush=True); sys.stdin.read()"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    need_root()
    need("losetup")
    image = tmp_path / "image"
    with image.open("wb") as file:
        os.truncate(file.fileno(), SIZE)
    try:
        path = run("losetup", "--find", "--show", str(image))
    except subprocess.CalledProcessError as error:
        unfit(f"no loop device: {error.stderr.strip()}")
    try:
        yield path
    finally:
        run("losetup", "--detach", path)


def busy(path: str) -> str:
    machine = Machine()
    blocks = read_blocks(machine)
    return read_disk_use(machine, blocks, read_uses(machine, blocks), path[len("/dev/") :]).busy


def test_a_free_device_is_free(loop: str) -> None:
    machine = Machine()
    blocks = read_blocks(machine)
    assert blocks[loop[len("/dev/") :]].size == SIZE
    assert (busy(loop), read_claim(machine, (loop,)), read_writers(machine, (loop,))) == ("", "", {})


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "xfs"])
def test_a_mounted_device_is_busy_and_claimed(loop: str, tmp_path: Path, kind: str) -> None:
    need(f"mkfs.{kind}")
    point = tmp_path / "a point"
    point.mkdir()
    if kind != "ext4":  # their smallest file systems
        os.truncate(tmp_path / "image", 512 << 20)
        run("losetup", "--set-capacity", loop)
    run(f"mkfs.{kind}", "-q", loop)
    if subprocess.run(("mount", loop, str(point)), capture_output=True, check=False).returncode:
        unfit(f"this kernel does not mount {kind}")
    try:
        assert busy(loop) == f"it is mounted at {point}"
        assert read_claim(Machine(), (loop,)) == f"{loop}: {CLAIMED}"
        assert 0 < free_bytes(Machine(), str(point)) < 512 << 20
    finally:
        run("umount", str(point))
    # A mount namespace that another test made meanwhile keeps a copy of the mount, until it ends.
    until = time.monotonic() + 60
    while read_claim(Machine(), (loop,)) and time.monotonic() < until:
        time.sleep(0.2)
    assert (busy(loop), read_claim(Machine(), (loop,))) == ("", "")


def test_active_swap_is_busy(loop: str) -> None:
    run(need("mkswap"), loop)
    if subprocess.run((need("swapon"), loop), capture_output=True, check=False).returncode:
        unfit("this kernel does not swap here")
    try:
        assert busy(loop) == f"it holds the active swap {loop}"
    finally:
        run(need("swapoff"), loop)


@pytest.mark.parametrize(
    ("flags", "claimed", "writes"),
    [(os.O_RDONLY, False, False), (os.O_WRONLY, False, True), (os.O_RDWR | os.O_EXCL, True, True)],
)
def test_a_process_that_has_it_open(loop: str, flags: int, claimed: bool, writes: bool) -> None:
    holder = subprocess.Popen(
        (sys.executable, "-IS", "-c", HOLD, loop, str(flags)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"open\n"
        assert bool(read_claim(Machine(), (loop,))) is claimed
        found = read_writers(Machine(), (loop,))
        assert (f"(pid {holder.pid}) has {loop} open for writing" in found.get(loop, "")) is writes
    finally:
        holder.communicate(timeout=10)


@pytest.mark.parametrize("name", ["", "xvdz"])
def test_a_process_that_has_it_open_by_a_node_of_its_own(loop: str, name: str) -> None:
    """As in a container, which has its own /dev and may call the device otherwise."""
    node = f"/dev/{name}" if name else f"/run/{loop[len('/dev/') :]}"
    script = "mount -t tmpfs none ${1%/*} && mknod $1 b $2 $3 && exec 3<>$1 && echo open && exec cat"
    device = os.stat(loop).st_rdev
    words = ("sh", "-c", script, "sh", node, str(os.major(device)), str(os.minor(device)))
    holder = subprocess.Popen(
        (need("unshare"), "--mount", *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"open\n"
        assert f"(pid {holder.pid}) has {loop} open for writing" in read_writers(Machine(), (loop,)).get(loop, "")
    finally:
        holder.communicate(timeout=10)


def test_a_loop_device_on_a_device_is_found_on_it(loop: str) -> None:
    """The kernel does not list it as a holder, and opening the lower one exclusively works."""
    upper = run("losetup", "--find", "--show", loop)
    try:
        machine = Machine()
        blocks = read_blocks(machine)
        lower_name, upper_name = loop[len("/dev/") :], upper[len("/dev/") :]
        assert upper_name in above(machine, blocks, lower_name)
        assert under(machine, blocks, upper_name) == (lower_name,)
        assert busy(loop) == f"it is part of {upper_name}"
    finally:
        run("losetup", "--detach", upper)


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LocalError, match="cannot open /dev/no-such-disk: No such file or directory"):
        Machine().is_claimed("/dev/no-such-disk")


def test_an_immutable_or_read_only_table_is_not_writable(tmp_path: Path) -> None:
    need_root()
    machine = Machine(root=str(tmp_path))
    (tmp_path / "etc").mkdir()
    table = tmp_path / "etc/fstab"
    table.touch()
    assert is_fstab_writable(machine, ())
    if subprocess.run((need("chattr"), "+i", str(table)), capture_output=True, check=False).returncode:
        unfit("this file system has no immutable files")
    try:
        assert not is_fstab_writable(machine, ())
    finally:
        run("chattr", "-i", str(table))
    run("mount", "--bind", str(tmp_path / "etc"), str(tmp_path / "etc"))
    try:
        run("mount", "-o", "remount,bind,ro", str(tmp_path / "etc"))
        assert not is_writable(machine, "/etc/fstab") and not is_fstab_writable(machine, ())
    finally:
        run("umount", str(tmp_path / "etc"))
    assert is_fstab_writable(machine, ())
