"""Temporary disks set up on a loop device: kept over reboots, resumed after a kill, left alone where in doubt."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from azureinit.errors import PlanStale, StepFailed
from azureinit.facts.disk_content import read_device
from azureinit.facts.temporary_disks import TemporaryDisk
from azureinit.machine import Machine
from azureinit.plan.disks import refusals
from azureinit.record import replace
from support.disk_cases import FRESH, blank, cautions, facts, nvme, on_devices, part, plan, recorded
from support.execution import apply
from support.loop_disks import MIB, SIZE, LoopDisk, loop_disk, run
from support.need import need

NOTICE = "DATALOSS_WARNING_README.txt"


def digest(disk: LoopDisk) -> str:
    hashed = hashlib.sha256()
    with open(disk.device, "rb") as file:
        while piece := file.read(16 * MIB):
            hashed.update(piece)
    return hashed.hexdigest()


def poke(disk: LoopDisk, at: int, data: bytes) -> None:
    with open(disk.device, "r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_a_blank_disk_is_set_up_once_and_its_data_are_kept(tmp_path: Path, filesystem: str) -> None:
    need(f"mkfs.{filesystem}")
    with loop_disk(tmp_path, filesystem=filesystem) as disk:
        assert not refusals(disk.setup())
        assert disk.mounts() == {disk.device: str(disk.point)}
        (made,) = disk.sets
        assert made.finished
        assert run("blkid", "-p", "-s", "UUID", "-o", "value", disk.device) == made.filesystem_uuid
        assert "lost" in (disk.point / NOTICE).read_text()
        (disk.point / "mine").write_text("data")
        disk.reboot()
        disk.setup()
        assert (disk.point / "mine").read_text() == "data"
        assert disk.sets == (made,)


def test_a_lost_record_does_not_lose_the_data(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk:
        disk.setup()
        (disk.point / "mine").write_text("data")
        disk.reboot()
        Path(disk.sets_path).unlink()
        disk.setup()
        assert (disk.point / "mine").read_text() == "data"


def test_a_redeployed_disk_is_formatted_again(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk:
        disk.setup()
        (before,) = disk.sets
        disk.reboot()
        run("blkdiscard", "--zeroout", disk.device)
        disk.setup()
        (after,) = disk.sets
        assert after.finished
        assert after.filesystem_uuid != before.filesystem_uuid


@pytest.mark.parametrize("at", [0, 8 * MIB, SIZE - 1], ids=str)
def test_a_disk_with_one_byte_is_left_alone(tmp_path: Path, at: int) -> None:
    with loop_disk(tmp_path) as disk:
        poke(disk, at, b"x")
        before = digest(disk)
        assert refusals(disk.setup())
        assert digest(disk) == before
        assert not disk.sets


def test_a_disk_that_is_written_to_after_the_plan_is_left_alone(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk:
        plan = disk.plan()
        poke(disk, 4096, b"mine")
        before = digest(disk)
        with pytest.raises(PlanStale, match="written to"):
            apply(disk.machine, plan)
        assert digest(disk) == before
        # The record that was written before the check makes nobody's bytes ours.
        assert [one.begun for one in disk.sets] == [""]
        assert refusals(disk.setup())
        assert digest(disk) == before


def test_a_disk_that_is_mounted_after_the_plan_is_left_alone(tmp_path: Path) -> None:
    with loop_disk(tmp_path) as disk:
        plan = disk.plan()
        run("mkfs.ext4", "-q", disk.device)
        disk.point.mkdir()
        run("mount", disk.device, str(disk.point))
        with pytest.raises((PlanStale, StepFailed)):
            apply(disk.machine, plan)
        assert disk.mounts() == {disk.device: str(disk.point)}


KILLED = """#!/bin/sh
# Killed after that many seconds, the first time.
if [ -e "${0%/*}/killed" ]; then exec REAL "$@"; fi
: >"${0%/*}/killed"
timeout --signal=KILL TIME REAL "$@"
"""


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
@pytest.mark.parametrize("seconds", ["0.002", "0.005", "0.012", "0.030"])
def test_a_killed_mkfs_is_resumed(tmp_path: Path, filesystem: str, seconds: str) -> None:
    real = need(f"mkfs.{filesystem}")
    with loop_disk(tmp_path, filesystem=filesystem) as disk:
        (untouched,) = disk.facts().disks
        disk.shim(f"mkfs.{filesystem}", KILLED.replace("REAL", real).replace("TIME", seconds))
        try:
            apply(disk.machine, disk.plan())
        except StepFailed:
            begun = "" if disk.facts().disks[0].content == untouched.content else "filesystem"
            assert [(one.begun, one.finished) for one in disk.sets] == [(begun, False)]
        assert not refusals(disk.setup())
        assert disk.mounts() == {disk.device: str(disk.point)}
        (made,) = disk.sets
        assert run("blkid", "-p", "-s", "UUID", "-o", "value", disk.device) == made.filesystem_uuid
        (disk.point / "mine").write_text("data")


def test_a_partition_table_with_swap_of_exactly_the_size(tmp_path: Path) -> None:
    need("sfdisk")
    with loop_disk(tmp_path, table="gpt", swap="partition", swap_mib=64) as disk:
        assert not refusals(disk.setup())
        assert disk.mounts() == {f"{disk.device}p2": str(disk.point)}
        swap, data = disk.partitions()
        assert swap.size == 64 * MIB
        assert swap.content is not None
        assert [one.kind for one in swap.content.signatures] == ["swap"]
        assert (disk.bin / "swapped-on").read_text().split() == [f"{disk.device}p1"]
        disk.reboot()
        disk.setup()
        assert disk.mounts() == {data.path: str(disk.point)}


def test_a_swap_file_of_exactly_the_size(tmp_path: Path) -> None:
    with loop_disk(tmp_path, swap_mib=33) as disk:
        assert not refusals(disk.setup())
        file = disk.point / "swapfile"
        assert file.stat().st_size == 33 * MIB
        assert (disk.bin / "swapped-on").read_text().split() == [str(file)]


@pytest.mark.parametrize("table", ["none", "gpt"])
def test_the_shipped_ntfs_is_replaced(tmp_path: Path, table: str) -> None:
    need("mkntfs")
    with loop_disk(tmp_path, "scsi", table=table) as disk:
        run("sfdisk", "--quiet", disk.device, text="label: dos\nstart=2048, type=7\n")
        (part,) = disk.partitions()
        run("mkntfs", "--quick", "--quiet", "--label", "Temporary Storage", part.path)
        assert not refusals(disk.setup())
        device = disk.device if table == "none" else part.path
        assert disk.mounts() == {device: str(disk.point)}
        assert subprocess.run(("blkid", "-p", "-s", "PTTYPE", "-o", "value", disk.device), capture_output=True,
                              check=False, text=True).stdout.strip() == ("" if table == "none" else "gpt")  # fmt: skip


def test_another_ntfs_is_left_alone(tmp_path: Path) -> None:
    need("mkntfs")
    with loop_disk(tmp_path, "scsi") as disk:
        run("sfdisk", "--quiet", disk.device, text="label: dos\nstart=2048, type=7\n")
        (part,) = disk.partitions()
        run("mkntfs", "--quick", "--quiet", "--label", "Mine", part.path)
        before = digest(disk)
        assert refusals(disk.setup())
        assert digest(disk) == before


# ---- bytes that lie between those of the programs


WIDE = "label: dos\nstart=16384, size=778240, type=7\n"  # 8 MiB before the partition, 12 MiB behind it


def ship_wide(disk: LoopDisk) -> None:
    need("mkntfs")
    run("sfdisk", "--quiet", disk.device, text=WIDE)
    (part,) = disk.partitions()
    run("mkntfs", "--quick", "--quiet", "--label", "Temporary Storage", part.path)


@pytest.mark.parametrize("at", [512, 3 * MIB, 8 * MIB - 1, SIZE - 12 * MIB, SIZE - 5 * MIB, SIZE - 1], ids=str)
def test_data_beside_the_shipped_partition_are_left_alone(tmp_path: Path, at: int) -> None:
    with loop_disk(tmp_path, "scsi") as disk:
        ship_wide(disk)
        poke(disk, at, b"x")
        before = digest(disk)
        made = disk.setup()
        assert refusals(made)
        assert f"outside of it there is data at byte {at}" in cautions(made)[disk.device]
        assert digest(disk) == before


def test_data_that_come_beside_the_shipped_partition_after_the_plan_are_seen(tmp_path: Path) -> None:
    with loop_disk(tmp_path, "scsi") as disk:
        ship_wide(disk)
        plan = disk.plan()
        assert not refusals(plan)
        poke(disk, 3 * MIB, b"precious")
        before = digest(disk)
        with pytest.raises(PlanStale, match="written to"):
            apply(disk.machine, plan)
        assert digest(disk) == before


@pytest.mark.parametrize(("at", "writes"), [(None, True), (8 * MIB, False), (SIZE - 3 * MIB, False)], ids=str)
def test_only_the_end_of_a_disk_is_taken_for_the_copy_of_a_table(tmp_path: Path, at: int | None, writes: bool) -> None:
    """sfdisk was killed on the second disk after it had written to its end."""
    need("sfdisk")
    numbered = [f"{uuid[:-2]}00" for uuid in (FRESH[2], FRESH[3])]
    disks = []
    for number in range(2):
        image = tmp_path / f"disk{number}"
        with image.open("wb") as file:
            file.truncate(SIZE)
            if number:
                file.seek(SIZE - 4096)
                file.write(b"entries")
            if number and at is not None:
                file.seek(at)
                file.write(b"precious")
        if not number:
            lines = f"label: gpt\nlabel-id: {numbered[0]}\ntype=L, uuid={numbered[1]}\n"
            run("sfdisk", "--quiet", str(image), text=lines)
        disks.append(nvme(number, read_device(Machine(), str(image), SIZE), size=SIZE))
    first = part("nvme0n1", 1, blank(SIZE - 2 * MIB), size=SIZE - 2 * MIB)
    done: TemporaryDisk = replace(disks[0], partitions=(first,))
    uuids = {"table_uuid": FRESH[2], "partition_uuid": FRESH[3]}
    begun = recorded(*disks, aggregation="lvm", table="gpt", begun="table", **uuids)
    made = plan(facts(done, disks[1]), begun, aggregation="lvm", table="gpt")
    assert bool(on_devices(made)) is writes
    if at is not None:
        assert f"data at byte {at}" in cautions(made)["/dev/nvme1n1"]


# ---- after a program was killed, before the next run


def interrupt(disk: LoopDisk, tool: str, at: int) -> None:
    """The program is killed when it has written to that place alone."""
    disk.shim(tool, f"#!/bin/sh\nprintf x | dd of={disk.device} bs=1 seek={at} conv=notrunc status=none\nkill -9 $$\n")
    with pytest.raises(StepFailed):
        apply(disk.machine, disk.plan())
    (disk.bin / tool).unlink()
    assert [(one.begun != "", one.finished) for one in disk.sets] == [(True, False)]


@pytest.mark.parametrize(("tool", "settings"), [("mkfs.ext4", {}), ("sfdisk", {"table": "gpt"})], ids=str)
def test_a_file_system_that_only_blkid_knows_is_no_unfinished_work(
    tmp_path: Path, tool: str, settings: dict[str, str]
) -> None:
    """Its first bytes are where an interrupted program may have left some."""
    need("mkfs.minix")
    with loop_disk(tmp_path, **settings) as disk:
        interrupt(disk, tool, SIZE - 4096)
        run("blkdiscard", "--zeroout", disk.device)
        run("mkfs.minix", disk.device)
        before = digest(disk)
        made = disk.setup()
        assert refusals(made)
        assert "blkid finds: minix" in cautions(made)[disk.device]
        assert digest(disk) == before


@pytest.mark.parametrize("at", [1024, 8 * MIB, SIZE - MIB], ids=str)
def test_data_on_a_disk_whose_table_was_interrupted_are_left_alone(tmp_path: Path, at: int) -> None:
    with loop_disk(tmp_path, table="gpt") as disk:
        interrupt(disk, "sfdisk", SIZE - 4096)
        assert not refusals(disk.plan())
        poke(disk, at, b"precious")
        before = digest(disk)
        made = disk.setup()
        assert refusals(made)
        assert f"data at byte {at}" in cautions(made)[disk.device]
        assert digest(disk) == before


KILLS = [
    *((tool, where, 1, "none") for tool in ("wipefs", "mkfs.ext4") for where in ("before", "2", "4", "after")),
    *(("dd", where, start, "none") for where in ("before", "1", "after") for start in (1, 2)),
    *(("sfdisk", where, 1, "gpt") for where in ("before", "3", "6", "9", "after")),
    *(("mkfs.ext4", where, 1, "gpt") for where in ("before", "4", "after")),
]


@pytest.mark.parametrize(("tool", "where", "start", "table"), KILLS, ids=str)
def test_the_replacement_of_the_shipped_ntfs_is_resumed_after_a_kill(
    tmp_path: Path, tool: str, where: str, start: int, table: str
) -> None:
    need("mkntfs")
    need("strace")
    with loop_disk(tmp_path, "scsi", table=table) as disk:
        ship_wide(disk)
        assert disk.setup_killed(tool, where, start=start)
        disk.reboot()
        assert not refusals(disk.setup())
        assert [*disk.mounts().values()] == [str(disk.point)]
        assert [one.finished for one in disk.sets] == [True]
