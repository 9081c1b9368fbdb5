"""Disk images: their format, a copy-on-write layer, and reading a file without mounting."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

SECTOR = 512
SIGNATURE = b"\x55\xaa"  # the end of the first sector of a bootable disk, GPT included
MAGICS = {b"QFI\xfb": "qcow2", b"vhdxfile": "vhdx", b"KDMV": "vmdk"}
VHD = b"conectix"  # begins the last sector of a VHD
PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
GPT, GPT_PROTECTED = b"EFI PART", 0xEE
FURTHEST, ENTRY_SIZES = 1 << 40, (128, 256, 512)
EXT4, EXT4_AT = b"\x53\xef", 1024 + 56
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on every user's PATH


class DiskInvalid(Exception):
    """Not a usable disk image; the text says why."""


class NoTool(Exception):
    """A tool is missing; the text says what to install."""


def find_tool(name: str, *, package: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN)))
    if found is None:
        raise NoTool(f"{name} is missing: install {package}")
    return found


def read_format(image: Path, *, bootable: bool) -> str:
    """The format, as QEMU names it. `bootable`: refuse an image without a partition table."""
    try:
        with image.open("rb") as file:
            head = file.read(SECTOR)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SECTOR))
            tail = file.read(SECTOR)
    except OSError as error:
        raise DiskInvalid(f"{image}: {(error.strerror or str(error)).lower()}") from None
    form = next((form for magic, form in MAGICS.items() if head.startswith(magic)), None)
    packing = next((packing for magic, packing in PACKED.items() if head.startswith(magic)), None)
    if packing:
        raise DiskInvalid(f"{image}: compressed with {packing}: decompress it first")
    if form or tail.startswith(VHD):
        return form or "vpc"
    if size < SECTOR:
        raise DiskInvalid(f"{image}: too small for a disk")
    if bootable and head[-2:] != SIGNATURE:
        raise DiskInvalid(f"{image}: not bootable: it has no partition table (with --kernel it needs none)")
    return "raw"


def make_layer(image: Path, layer: Path, *, form: str) -> None:
    """Creates a qcow2 layer over `image`: writes go to the layer, `image` is not changed."""
    tool = find_tool("qemu-img", package="qemu-utils")
    command = [tool, "create", "-q", "-f", "qcow2", "-b", str(image.absolute()), "-F", form, str(layer)]
    if problem := failure(command):
        raise DiskInvalid(f"{image}: {problem}")


def read_file(image: Path, names: tuple[str, ...], *, form: str, directory: Path) -> bytes | None:
    """The first of these files that exists on an ext4 file system of the disk; None: there is none."""
    debugfs = find_tool("debugfs", package="e2fsprogs")
    raw = image if form == "raw" else directory / "whole.img"
    copy = directory / "file"
    try:
        if form != "raw":
            convert_to_raw(image, raw, form=form)
        starts = [start for start in read_partitions(raw) if has_ext4(raw, start)]
        if not starts:
            raise DiskInvalid("the disk has no ext4 file system")
        for start in starts:
            for name in names:
                failure([debugfs, "-R", f"dump {name} {copy}", f"{raw}?offset={start}"])
                if copy.is_file() and copy.stat().st_size:
                    return copy.read_bytes()
        return None
    finally:
        copy.unlink(missing_ok=True)
        if form != "raw":
            raw.unlink(missing_ok=True)


def convert_to_raw(image: Path, raw: Path, *, form: str) -> None:
    tool = find_tool("qemu-img", package="qemu-utils")
    if problem := failure([tool, "convert", "-f", form, "-O", "raw", str(image), str(raw)]):
        raise DiskInvalid(problem)


def read_partitions(raw: Path) -> list[int]:
    """The start of each partition in bytes; 0 for a disk without a partition table."""
    size = raw.stat().st_size
    with raw.open("rb") as disk:
        starts = [start * SECTOR for start in parse_partitions(disk)]
    return [start for start in starts if start < size] or [0]


def parse_partitions(disk: BinaryIO) -> Iterator[int]:
    table = disk.read(SECTOR)
    if len(table) < SECTOR or table[-2:] != SIGNATURE:
        return
    entries = [table[446 + 16 * n : 462 + 16 * n] for n in range(4)]
    if not any(entry[4] == GPT_PROTECTED for entry in entries):
        yield from (struct.unpack_from("<I", entry, 8)[0] for entry in entries if entry[4])
        return
    head = disk.read(SECTOR)
    if len(head) < SECTOR or not head.startswith(GPT):
        return
    where, count, size = struct.unpack_from("<QII", head, 72)
    if where > FURTHEST or size not in ENTRY_SIZES:
        return
    disk.seek(where * SECTOR)
    for entry in (disk.read(size) for _ in range(min(count, 128))):
        if len(entry) == size and any(entry[:16]):
            yield struct.unpack_from("<Q", entry, 32)[0]


def has_ext4(raw: Path, start: int) -> bool:
    with raw.open("rb") as disk:
        disk.seek(start + EXT4_AT)
        return disk.read(2) == EXT4


def failure(command: list[str]) -> str:
    """The error message of the tool; empty: it succeeded."""
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode == 0:
        return ""
    said = ran.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"{Path(command[0]).name} ended with status {ran.returncode}"
