"""A CD drive for a container: a loop device whose medium can be inserted and ejected while the container runs."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

CONTROL = "/dev/loop-control"
LOOP_CTL_GET_FREE = 0x4C82
LOOP_CONFIGURE = 0x4C0A
LOOP_SET_CAPACITY = 0x4C07
READ_ONLY, AUTOCLEAR = 1, 4
SECTOR = 2048
CONFIG = struct.Struct("=II 5Q 4I 160x 16x 64x")  # struct loop_config, from linux/loop.h
TRIES = 8  # another process may take the free device first


class NoDrive(Exception):
    """This host has no usable loop device; the text says why."""


class LoopDrive:
    """Empty at first. The kernel frees the device when the last process that has it open ends."""

    def __init__(self, disc: Path) -> None:
        """`disc`: the backing file, which holds a copy of the medium while it is inserted."""
        self._disc = disc
        disc.touch(mode=0o600)
        self._full = False
        self.device, self._descriptor = attach(disc)

    def follow(self, image: Path | None) -> None:
        """Inserts `image` if the file exists, ejects it if not."""
        there = image is not None and image.exists()
        if there != self._full:
            self._disc.write_bytes(image.read_bytes() if there and image else b"")
            fcntl.ioctl(self._descriptor, LOOP_SET_CAPACITY)
            self._full = there

    def close(self) -> None:
        os.close(self._descriptor)


def attach(disc: Path) -> tuple[str, int]:
    backing = os.open(disc, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(TRIES):
            device = free_device()
            descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
            try:
                config = CONFIG.pack(backing, SECTOR, *[0] * 5, 0, 0, 0, READ_ONLY | AUTOCLEAR)
                fcntl.ioctl(descriptor, LOOP_CONFIGURE, config)
            except OSError:
                os.close(descriptor)
                continue
            return device, descriptor
    except OSError as error:
        raise NoDrive(f"{error.filename or CONTROL}: {(error.strerror or str(error)).lower()}") from None
    finally:
        os.close(backing)
    raise NoDrive("no free loop device")


def free_device() -> str:
    control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        return f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
    finally:
        os.close(control)
