"""Growing the root file system: the free space, the reasons not to grow, and the plan."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
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
    read_root_disk,
)
from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Declined, Run, Satisfied, Step, Way
from azureinit.plan.grow import plan_grow
from azureinit.plan.show import as_text

MIB = 1 << 20
SECTOR = 512
PLACE = "devices/pci0000:00/0000:00:01.0/block"
TOOLS = ("growpart", "sfdisk", "partx", "parted", "resize2fs", "xfs_growfs", "btrfs")
EVERYTHING = frozenset({*TOOLS, GROWFS})


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


# ---- what there is


def test_a_disk_that_is_used_up_is_left_alone_and_no_tool_is_looked_for(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=2048, size=2048 - 128 - 1)
    made.install(*TOOLS)
    disk = made.read()
    assert disk is not None
    assert (disk.room, disk.slack, disk.tools) == (0, 0, frozenset())
    assert plan_grow(disk) == (Satisfied(name="root file system", why="uses all of /dev/sda1"),)


def test_the_usual_answer_costs_a_handful_of_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = computer(tmp_path, disk=2048, size=2048 - 128 - 1)
    read: list[str] = []
    machine = Machine(kernel=str(tmp_path))

    def counted(method: Callable[..., object], path: str, **options: object) -> object:
        read.append(path)
        return method(path, **options)

    for name in ("read", "open_image", "read_link", "names", "find", "stat"):
        monkeypatch.setattr(machine, name, partial(counted, getattr(machine, name)))
    assert read_root_disk(machine) == made.read()
    assert len(read) <= 8, read


def test_a_larger_disk_means_room_behind_the_last_partition(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=30720, size=1919)
    made.install(*TOOLS)
    disk = made.read()
    assert disk is not None
    assert (disk.disk, disk.number, disk.device, disk.tools) == (
        "/dev/sda",
        1,
        "/dev/sda1",
        frozenset(TOOLS) | _growfs(),
    )
    assert disk.room == (30720 - 128 - 1919) * MIB - 33 * SECTOR  # the table's second copy
    assert disk.end == 30720 * MIB - 33 * SECTOR
    assert [step.name for step in steps(plan_grow(disk))] == ["root partition", "root file system"]


def _growfs() -> set[str]:
    return {GROWFS} if Path(GROWFS).is_file() else set()


def test_what_lies_behind_is_the_end_of_the_room(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=30720, size=1000)
    made.partition(2, start=2048, size=100)
    made.partition(3, start=5000, size=100)
    disk = made.read()
    assert disk is not None and disk.room == (2048 - 1128) * MIB


def test_a_partition_right_behind_leaves_no_room_on_the_largest_disk(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=30720, size=1000)
    made.partition(2, start=1128, size=100)
    disk = made.read()
    assert disk is not None and disk.room == 0
    assert steps(plan_grow(disk)) == []


@pytest.mark.parametrize("crumbs", [0, 1, 2, 15])
def test_crumbs_are_not_worth_it(tmp_path: Path, crumbs: int) -> None:
    disk = computer(tmp_path, disk=1000 + crumbs, size=872).read()
    assert disk is not None and steps(plan_grow(disk)) == []


def test_a_partition_that_grew_before_a_power_cut_still_has_its_file_system_grown(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=2048, size=1919, filled=900)
    made.install("resize2fs")
    disk = made.read()
    assert disk is not None
    (step,) = steps(plan_grow(disk))
    assert step.why == "ext4 gains 1019 MiB"
    assert step.ways[0] == Way(backend="resize2fs", actions=(Run(argv=("resize2fs", "/dev/sda1"), timeout=300.0),))


def test_sizes_are_counted_in_the_disks_own_sectors_where_a_tool_wants_that(tmp_path: Path) -> None:
    made = Computer(tmp_path, disk=4096, name="nvme0n1", sector=4096)
    made.partition(1, start=1, size=1000)
    made.mounted(ROOT.replace("/dev/sda1", "/dev/nvme0n1p1"))
    made.holds("nvme0n1p1", ext(1000))
    made.install("parted")
    disk = made.read()
    assert disk is not None and disk.disk == "/dev/nvme0n1"
    assert disk.end == 4096 * MIB - 5 * 4096
    way = steps(plan_grow(disk))[0].ways[2]
    assert isinstance(way, Way) and isinstance(way.actions[0], Run)
    assert way.actions[0].argv[-3:] == ("/dev/nvme0n1", "1", f"{4096 * 256 - 6}s")


def test_a_dos_table_counts_to_two_tebibytes(tmp_path: Path) -> None:
    disk = computer(tmp_path, disk=4 << 20, size=1000, table="dos").read()
    assert disk is not None and disk.end == 0xFFFFFFFF * SECTOR


def test_a_file_system_on_the_whole_disk_has_no_partition_to_grow(tmp_path: Path) -> None:
    made = Computer(tmp_path, disk=2048)
    made.link("8:0", f"{PLACE}/sda")
    made.mounted("28 1 8:0 / / rw - xfs /dev/sda rw")
    made.holds("sda", xfs(1024))
    made.install("xfs_growfs")
    disk = made.read()
    assert disk is not None
    (step,) = steps(plan_grow(disk))
    assert step.ways[0] == Way(backend="xfs_growfs", actions=(Run(argv=("xfs_growfs", "/"), timeout=300.0),))


def test_btrfs_is_found_by_the_name_of_its_device(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=4096, size=1000)
    made.mounted("28 1 0:31 /@rootfs / rw - btrfs /dev/disk/by-label/root rw,subvolid=256,subvol=/@rootfs")
    (tmp_path / "dev/disk/by-label").mkdir(parents=True)
    (tmp_path / "dev/disk/by-label/root").symlink_to("../../sda1")
    made.holds("sda1", btrfs(1000, devid=3), at=65536)
    made.install("btrfs")
    disk = made.read()
    assert disk is not None and (disk.device, disk.filled, disk.devid) == ("/dev/sda1", 1000 * MIB, 3)
    way = steps(plan_grow(disk))[1].ways[0]
    assert way == Way(
        backend="btrfs", actions=(Run(argv=("btrfs", "filesystem", "resize", "3:max", "/"), timeout=300.0),)
    )


def test_who_may_not_look_into_the_device_is_told_only_of_what_sysfs_shows(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=2048, size=1919)
    (tmp_path / "dev/sda1").unlink()
    disk = made.read()
    assert disk is not None and disk.filled is None
    assert steps(plan_grow(disk)) == []


# ---- what is not ours


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("28 1 0:30 / / rw - overlay overlay rw,lowerdir=/a", "overlay cannot be grown"),
        ("28 1 0:30 / / rw - nfs4 10.0.0.9:/srv rw", "nfs4 cannot be grown"),
        ("28 1 0:30 / / rw - tmpfs tmpfs rw", "tmpfs cannot be grown"),
        ("28 1 8:1 / / ro,relatime - ext4 /dev/sda1 rw", "it is mounted read-only"),
        ("28 1 8:1 / / rw,relatime - ext4 /dev/sda1 ro", "it is mounted read-only"),
        ("28 1 8:77 / / rw,relatime - ext4 /dev/sde7 rw", "/dev/sde7 is not a disk"),
        ("28 1 0:31 / / rw - btrfs /dev/root rw", "/dev/root is not a disk"),
    ],
)
def test_what_cannot_grow_says_why(tmp_path: Path, line: str, why: str) -> None:
    made = computer(tmp_path, disk=4096, size=1000)
    made.mounted(line)
    disk = made.read()
    assert disk is not None
    assert plan_grow(disk) == (Caution(name="root file system", why=f"not grown: {why}"),)


@pytest.mark.parametrize(
    ("uuid", "why"),
    [
        ("LVM-abc", "a logical volume: lvextend -r grows it"),
        ("CRYPT-LUKS2-abc", "encrypted: cryptsetup resize grows it"),
        ("mpath-abc", "mapped onto other devices"),
    ],
)
def test_mapped_devices_are_left_to_who_mapped_them(tmp_path: Path, uuid: str, why: str) -> None:
    made = Computer(tmp_path, disk=4096)
    made.write("sys/devices/virtual/block/dm-0/size", "409600\n")
    made.write("sys/devices/virtual/block/dm-0/dm/uuid", f"{uuid}\n")
    made.link("253:0", "devices/virtual/block/dm-0")
    made.mounted("28 1 253:0 / / rw - xfs /dev/mapper/rootvg-rootlv rw")
    disk = made.read()
    assert disk is not None and disk.not_ours == why


def test_btrfs_on_several_devices_is_left_alone(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=4096, size=1000)
    made.mounted("28 1 0:31 / / rw - btrfs /dev/sda1 rw")
    made.holds("sda1", btrfs(1000, devices=2), at=65536)
    disk = made.read()
    assert disk is not None and disk.not_ours == "btrfs has it on several devices"


def test_a_logical_partition_and_an_unknown_table_are_left_alone(tmp_path: Path) -> None:
    made = Computer(tmp_path / "dos", disk=4096, table="dos")
    made.partition(5, start=1, size=1000)
    made.mounted(ROOT.replace("8:1", "8:5"))
    made.holds("sda5", ext(1000))
    disk = made.read()
    assert disk is not None and disk.not_ours == "a logical partition lies inside another one"
    disk = computer(tmp_path / "other", disk=4096, size=1000, table="").read()
    assert disk is not None and disk.not_ours == "its partition table is of an unknown kind"


def test_a_disk_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=4096, size=1000)
    (tmp_path / "dev/sda").unlink()
    disk = made.read()
    assert disk is not None and "/dev/sda" in disk.not_ours


def test_under_another_root_the_running_machines_disk_is_nobodys(tmp_path: Path) -> None:
    made = computer(tmp_path, disk=4096, size=1000)
    assert read_root_disk(Machine(root=str(tmp_path / "root"), kernel=str(tmp_path))) is None
    made.write("proc/self/mountinfo", "")
    assert made.read() is None


def test_this_very_machine_can_be_read() -> None:
    disk = read_root_disk(Machine())
    assert disk is None or disk.not_ours or disk.size


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
