"""Growing the root file system: the free space, the reasons not to grow, and the plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from azureinit.facts.disks import (
    GROWFS,
    read_root_disk,
)
from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Run, Satisfied, Way
from azureinit.plan.grow import plan_grow
from support.grown_disks import MIB, PLACE, ROOT, SECTOR, TOOLS, Computer, btrfs, computer, ext, steps, xfs

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
