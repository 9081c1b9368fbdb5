"""What the tests of growing disks share."""

from __future__ import annotations

import struct
from pathlib import Path

from azureinit.facts.disks import (
    Disk,
    read_root_disk,
)
from azureinit.machine import Machine
from azureinit.plan.actions import Step

MIB = 1 << 20
SECTOR = 512
PLACE = "devices/pci0000:00/0000:00:01.0/block"
TOOLS = ("growpart", "sfdisk", "partx", "parted", "resize2fs", "xfs_growfs", "btrfs")


class Computer:
    """The kernel's files about one disk, made up; sizes are MiB."""

    def __init__(self, place: Path, *, disk: int, table: str = "gpt", name: str = "sda", sector: int = SECTOR) -> None:
        self.place, self.name, self.sector = place, name, sector
        self.write(f"sys/{PLACE}/{name}/size", f"{disk * MIB // SECTOR}\n")
        self.write(f"sys/{PLACE}/{name}/queue/logical_block_size", f"{sector}\n")
        head = bytearray(2 * sector)
        head[510:512] = b"\x55\xaa" if table else b"\0\0"
        if table == "gpt":
            head[sector : sector + 8] = b"EFI PART"
        self.write(f"dev/{name}", bytes(head))

    def write(self, name: str, content: str | bytes) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def partition(self, number: int, *, start: int, size: int) -> None:
        part = f"{self.name}{'p' if self.name[-1].isdigit() else ''}{number}"
        where = f"sys/{PLACE}/{self.name}/{part}"
        for field, value in (("start", start * MIB // SECTOR), ("size", size * MIB // SECTOR), ("partition", number)):
            self.write(f"{where}/{field}", f"{value}\n")
        self.link(f"8:{number}", f"{PLACE}/{self.name}/{part}")

    def link(self, device: str, place: str) -> None:
        for name in (f"sys/dev/block/{device}", f"sys/class/block/{place.rpartition('/')[2]}"):
            path = self.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            ups = "../" * (name.count("/") - 1)
            path.symlink_to(ups + place)

    def mounted(self, line: str) -> None:
        self.write("proc/self/mountinfo", f"21 28 0:20 / /proc rw - proc proc rw\n{line}\n")

    def holds(self, device: str, head: bytes, *, at: int = 0) -> None:
        self.write(f"dev/{device}", b"\0" * at + head)

    def read(self) -> Disk | None:
        return read_root_disk(Machine(kernel=str(self.place), search=(str(self.place / "bin"),)))

    def install(self, *tools: str) -> None:
        for tool in tools:
            self.write(f"bin/{tool}", "#!/bin/sh\n")
            (self.place / f"bin/{tool}").chmod(0o755)


def ext(size: int, *, shift: int = 2) -> bytes:
    blocks = size * MIB >> 10 + shift
    head = bytearray(4096)
    struct.pack_into("<I", head, 1024 + 4, blocks & 0xFFFFFFFF)
    struct.pack_into("<I", head, 1024 + 24, shift)
    struct.pack_into("<H", head, 1024 + 56, 0xEF53)
    struct.pack_into("<I", head, 1024 + 96, 0x80 if blocks >> 32 else 0)
    struct.pack_into("<I", head, 1024 + 336, blocks >> 32)
    return bytes(head)


def xfs(size: int) -> bytes:
    return struct.pack(">4sIQ", b"XFSB", 4096, size * MIB // 4096).ljust(4096, b"\0")


def btrfs(size: int, *, devices: int = 1, devid: int = 1) -> bytes:
    head = bytearray(4096)
    head[64:72] = b"_BHRfS_M"
    struct.pack_into("<Q", head, 136, devices)
    struct.pack_into("<QQ", head, 201, devid, size * MIB)
    return bytes(head)


ROOT = "28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard"


def computer(place: Path, *, disk: int, size: int, filled: int | None = None, table: str = "gpt") -> Computer:
    """As Azure's images are: the root is the first of the table and the last on the disk."""
    made = Computer(place, disk=disk, table=table)
    made.partition(14, start=1, size=3)
    made.partition(15, start=4, size=124)
    made.partition(1, start=128, size=size)
    made.mounted(ROOT)
    made.holds("sda1", ext(size if filled is None else filled))
    return made


def steps(plan: tuple[object, ...]) -> list[Step]:
    return [item for item in plan if isinstance(item, Step)]
