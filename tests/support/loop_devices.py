"""Loop devices on sparse files; they are detached at the end."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azureinit.facts.disk_content import Content, read_device
from azureinit.machine import Machine
from azureinit.plan.actions import Untouched
from support.need import need, need_root, unfit

MIB = 1 << 20
ADD, REMOVE = 0x4C80, 0x4C81  # LOOP_CTL_ADD, LOOP_CTL_REMOVE


def run(*command: str, text: str = "") -> str:
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout.strip()


@contextmanager
def loop_device(image: Path, *, mib: int, sector: int = 512) -> Iterator[str]:
    need_root()
    need("losetup")
    with image.open("wb") as file:
        file.truncate(mib * MIB)
    options = ("--find", "--show", "--sector-size", str(sector))
    ran = subprocess.run(("losetup", *options, str(image)), capture_output=True, text=True, check=False)
    if ran.returncode:
        unfit(f"no loop device: {ran.stderr.strip()}")
    device = ran.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(("partx", "--delete", device), capture_output=True, check=False)
        detach(device)


def detach(device: str) -> None:
    """A device that another program has open, such as a blkid that looks at all, is detached when that ends."""
    run("losetup", "--detach", device)
    until = time.monotonic() + 30
    while Path(f"/sys/block/{device.removeprefix('/dev/')}/loop/backing_file").exists():
        assert time.monotonic() < until, f"{device} is still in use"
        time.sleep(0.02)


@contextmanager
def numbered_loop(number: int) -> Iterator[str]:
    """The name of a free device that `losetup --find` of another test does not choose: that takes the lowest."""
    need_root()
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, ADD, number)
        yield f"/dev/loop{number}"
        detach(f"/dev/loop{number}")
        fcntl.ioctl(control, REMOVE, number)
    finally:
        os.close(control)


def add_partitions(device: str) -> None:
    """Not every kernel reads every table itself; some have done so by now, and partx complains of that."""
    need("partx")
    subprocess.run(("partx", "--add", device), capture_output=True, check=False)


def size_of(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.lseek(file, 0, os.SEEK_END)
    finally:
        os.close(file)


def content_of(path: str) -> Content:
    return read_device(Machine(), path, size_of(path))


def untouched(path: str) -> Untouched:
    content = content_of(path)
    return Untouched(path=path, size=content.size, regions=content.regions, digest=content.digest)
