"""Disks that exist only as a few written bytes, of any size, and the signatures that are put on them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
ZEROS = bytes(MIB)
UUID = bytes(range(0x10, 0x20))
UUID_TEXT = "10111213-1415-1617-1819-1a1b1c1d1e1f"
GUID_TEXT = "13121110-1514-1716-1819-1a1b1c1d1e1f"


class SparseDisk:
    """Zeros, except for what was written. Remembers what was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.written: dict[int, bytearray] = {}  # by number of the MiB
        self.reads: list[tuple[int, int]] = []
        self._touched: set[int] = set()

    def write(self, offset: int, data: bytes) -> None:
        assert offset >= 0 and offset + len(data) <= self.size
        self._touched.update(range(offset, offset + len(data)))
        while data:
            block, at = divmod(offset, MIB)
            part = data[: MIB - at]
            self.written.setdefault(block, bytearray(MIB))[at : at + len(part)] = part
            data, offset = data[len(part) :], offset + len(part)

    def read(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, self.size - offset))
        self.reads.append((offset, length))
        first, last = offset // MIB, (offset + length - 1) // MIB
        if not any(block in self.written for block in range(first, last + 1)):
            return ZEROS if length == MIB else bytes(length)
        data = b"".join(bytes(self.written.get(block, ZEROS)) for block in range(first, last + 1))
        return data[offset - first * MIB :][:length]

    def nonzero(self) -> Iterator[int]:
        """Offsets of bytes that are not zero."""
        yield from (at for at in sorted(self._touched) if self.written[at // MIB][at % MIB])


def gpt_header(*, own: int, other: int, entries: int) -> bytes:
    head = struct.pack("<8sIIIIQQQQ", b"EFI PART", 0x10000, 92, 0, 0, own, other, 34, 1000)
    return head + UUID + struct.pack("<QIII", entries, 128, 128, 0)


def gpt(disk: SparseDisk, sector: int) -> None:
    disk.write(sector, gpt_header(own=1, other=disk.size // sector - 1, entries=2))
    disk.write(2 * sector, b"\x01" * 16 + UUID + bytes(96))


def backup_gpt(disk: SparseDisk, sector: int) -> None:
    last = disk.size // sector - 1
    disk.write(last * sector, gpt_header(own=last, other=1, entries=last - 16384 // sector))


def md1(offset: int) -> bytes:
    """A superblock that begins at that byte."""
    head = struct.pack("<IIII16s32s", 0xA92B4EFC, 1, 0, 0, UUID, b"host:name")
    return head + bytes(144 - len(head)) + struct.pack("<Q", offset // 512) + bytes(104)


def md10(disk: SparseDisk) -> None:
    offset = ((disk.size >> 9) - 16 & ~7) << 9
    disk.write(offset, md1(offset))


def md090() -> bytes:
    words = [0xA92B4EFC, 0, 90, 0, 0, 0x11111111, 0, 0, 0, 0, 0, 0, 0, 0x22222222, 0x33333333, 0x44444444]
    return struct.pack("<16I", *words)


def ext(*, compatible: int, incompatible: int, read_only: int) -> bytes:
    data = bytearray(1024)
    data[56:58] = b"\x53\xef"
    data[92:104] = struct.pack("<III", compatible, incompatible, read_only)
    data[104:120], data[120:124] = UUID, b"data"
    return bytes(data)


def xfs(*, unfinished: bool = False) -> bytes:
    data = bytearray(512)
    data[:4], data[32:48], data[108:112], data[126] = b"XFSB", UUID, b"data", int(unfinished)
    return bytes(data)


def btrfs(magic: bytes = b"_BHRfS_M") -> bytes:
    data = bytearray(4096)
    data[32:48], data[64:72], data[299:303] = UUID, magic, b"data"
    return bytes(data)


def swap(disk: SparseDisk, page: int, magic: bytes) -> None:
    disk.write(1024, struct.pack("<III16s16s", 1, 0, 0, UUID, b"data"))
    disk.write(page - 10, magic)


def lvm2() -> bytes:
    label = struct.pack("<8sQII8s", b"LABELONE", 1, 0, 32, b"LVM2 001")
    return label + b"abcdefGHIJklmnOPQRstuvWXYZ012345" + bytes(400)


def mbr(*, kind: int) -> bytes:
    entry = struct.pack("<B3sB3sII", 0x80 if kind != 0xEE else 0, b"\0" * 3, kind, b"\0" * 3, 2048, 4096)
    return bytes(446) + entry + bytes(48) + b"\x55\xaa"


def at(offset: int, magic: bytes) -> Callable[[SparseDisk], None]:
    """`offset` may be negative: from the end."""
    return lambda disk: disk.write(offset if offset >= 0 else disk.size + offset, magic)


SIGNED: dict[str, tuple[str, Callable[[SparseDisk], None]]] = {
    "gpt 512": ("gpt", lambda disk: gpt(disk, 512)),
    "gpt 4096": ("gpt", lambda disk: gpt(disk, 4096)),
    "backup gpt 512": ("gpt", lambda disk: backup_gpt(disk, 512)),
    "backup gpt 4096": ("gpt", lambda disk: backup_gpt(disk, 4096)),
    "dos": ("dos", at(0, mbr(kind=7))),
    "protective": ("pmbr", at(0, mbr(kind=0xEE))),
    "empty dos": ("dos", at(510, b"\x55\xaa")),
    "md 0.90": ("md", lambda disk: disk.write((disk.size & ~0xFFFF) - 0x10000, md090())),
    "md 1.0": ("md", md10),
    "md 1.1": ("md", at(0, md1(0))),
    "md 1.2": ("md", at(4096, md1(4096))),
    "lvm2": ("lvm2", at(512, lvm2())),
    "luks": ("luks", at(0, b"LUKS\xba\xbe\0\x02" + bytes(160) + b"10111213-1415-1617-1819-1a1b1c1d1e1f")),
    "luks2 second": ("luks2 header", at(0x4000, b"SKUL\xba\xbe")),
    "ext2": ("ext2", at(1024, ext(compatible=0, incompatible=2, read_only=1))),
    "ext3": ("ext3", at(1024, ext(compatible=4, incompatible=2, read_only=1))),
    "ext4": ("ext4", at(1024, ext(compatible=0x3C, incompatible=0x2C2, read_only=0x46B))),
    "xfs": ("xfs", at(0, xfs())),
    "unfinished xfs": ("xfs", at(0, xfs(unfinished=True))),
    "btrfs": ("btrfs", at(64 * KIB, btrfs())),
    "unfinished btrfs": ("btrfs", at(64 * KIB, btrfs(b"!BHRfS_M"))),
    **{
        f"swap {page}": ("swap", lambda disk, page=page: swap(disk, page, b"SWAPSPACE2"))  # type: ignore[misc]
        for page in (4096, 8192, 16384, 32768, 65536)
    },
    "suspended": ("suspended system", lambda disk: swap(disk, 4096, b"S1SUSPEND\0")),
    "ntfs": ("ntfs", at(3, b"NTFS    ")),
    "exfat": ("exfat", at(3, b"EXFAT   ")),
    "bitlocker": ("bitlocker", at(3, b"-FVE-FS-")),
    "refs": ("refs", at(3, b"ReFS\0\0\0\0")),
    "fat16": ("vfat", at(54, b"FAT16   ")),
    "fat32": ("vfat", at(82, b"FAT32   ")),
    "iso9660": ("iso9660", at(32769, b"CD001")),
    "udf": ("udf", at(34817, b"NSR02")),
    "zfs": ("zfs", at(256 * KIB + 128 * KIB + 5 * KIB, b"\x0c\xb1\xba\0\0\0\0\0")),
    "zfs at the end": (
        "zfs",
        lambda disk: disk.write((disk.size & ~(256 * KIB - 1)) - 128 * KIB, b"\0\0\0\0\0\xba\xb1\x0c"),
    ),
    "bcache": ("bcache", at(4120, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"))),
    "f2fs": ("f2fs", at(1024, b"\x10\x20\xf5\xf2")),
    "erofs": ("erofs", at(1024, b"\xe2\xe1\xf5\xe0")),
    "squashfs": ("squashfs", at(0, b"hsqs")),
    "jfs": ("jfs", at(32768, b"JFS1")),
    "reiserfs": ("reiserfs", at(65536 + 52, b"ReIsEr2Fs")),
    "drbd": ("drbd", at(-4096 + 60, b"\x83\x74\x02\x6d")),
    "imsm": ("imsm", at(-1024, b"Intel Raid ISM Cfg Sig. ")),
}


def random_size(chance: random.Random) -> int:
    """From 1 MiB to 8 TiB, small ones as often as large ones, most of them whole sectors, a few odd."""
    size = int(MIB * 2 ** chance.uniform(0, 23))
    return size // 4096 * 4096 if chance.random() < 0.7 else size // 512 * 512


def random_disk(chance: random.Random) -> tuple[SparseDisk, list[str]]:
    """A disk with any mix of signatures and stray bytes, and the names of its signatures."""
    disk = SparseDisk(random_size(chance))
    names = chance.sample(sorted(SIGNED), chance.choice((0, 0, 0, 1, 1, 2, 3)))
    for name in names:
        SIGNED[name][1](disk)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        near = chance.choice((4096, MIB, 17 * MIB, disk.size, disk.size, disk.size))
        offset = chance.randrange(min(near, disk.size))
        if chance.random() < 0.3:
            offset = disk.size - 1 - offset
        disk.write(offset, bytes([chance.randrange(1, 256)]))
    return disk, names
