"""Disks in files, grown by the real tools while they are mounted. The tests of ext4 are in tests/boot."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azureinit.apply.executor import apply_step
from azureinit.facts.disks import Disk, read_root_disk
from azureinit.machine import Machine
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Satisfied, Step, Way
from azureinit.plan.grow import plan_grow
from azureinit.record import replace
from support.need import need, need_root, unfit

MIB = 1 << 20
BEFORE, PARTITION, AFTER = 500, 400, 1024  # MiB
MADE = {"xfs": ("mkfs.xfs", "-q"), "btrfs": ("mkfs.btrfs", "-q", "-f")}
NEVER = float("inf")
SOON = 60.0


def run(*command: str, text: str = "") -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@contextmanager
def mounted(place: Path, *, table: str, filesystem: str) -> Iterator[Path]:
    """A disk that was made larger after its root was installed on the second of two partitions."""
    need_root()
    for tool in ("losetup", "partx", "sfdisk", MADE[filesystem][0]):
        need(tool)
    image, point = place / "disk", place / "mounted"
    point.mkdir()
    _sized(image, BEFORE)
    parts = f"label: {table}\nstart=2048, size=8192\nstart=10240, size={PARTITION}M, type=linux\n"
    run("sfdisk", "--quiet", str(image), text=parts)
    _sized(image, AFTER)
    try:
        loop = run("losetup", "--find", "--show", str(image))
    except subprocess.CalledProcessError as error:
        unfit(f"no loop device: {error.stderr.strip()}")
        return
    try:
        # Not every kernel reads every table itself; some have done so by now, and partx complains of that.
        subprocess.run(("partx", "--add", loop), capture_output=True, check=False)
        run(*MADE[filesystem], f"{loop}p2")
        run("mount", f"{loop}p2", str(point))
        try:
            yield point
        finally:
            run("umount", str(point))
    finally:
        forget(loop)
        run("losetup", "--detach", loop)


def forget(loop: str) -> None:
    """Its partitions would wait here for the next one to get this number."""
    until = time.monotonic() + SOON
    while list(Path("/sys/block", Path(loop).name).glob(f"{Path(loop).name}p*")):
        assert time.monotonic() < until, f"{loop} is busy"
        subprocess.run(("partx", "--delete", loop), capture_output=True, check=False)


def _sized(image: Path, size: int) -> None:
    with image.open("ab") as file:
        file.truncate(size * MIB)


def grow(point: Path, tools: frozenset[str]) -> tuple[Disk, list[str]]:
    """What there was, and which backends did it."""
    machine = Machine()
    disk = read_root_disk(machine, str(point))
    assert disk is not None
    plan = plan_grow(replace(disk, tools=tools))
    steps = [item for item in plan if isinstance(item, Step)]
    assert steps, plan
    return disk, [apply_step(machine, step, journal=MemoryJournal(), deadline=NEVER) for step in steps]


def size_of(point: Path) -> int:
    return int(run("findmnt", "--noheadings", "--bytes", "--output", "SIZE", "--mountpoint", str(point)))


@pytest.mark.parametrize("table", ["gpt", "dos"])
@pytest.mark.parametrize("tool", ["growpart", "sfdisk", "parted"])
def test_every_tool_grows_a_partition_in_use_and_the_file_system_follows(tmp_path: Path, tool: str, table: str) -> None:
    need(tool)
    with mounted(tmp_path, table=table, filesystem="xfs") as point:
        (point / "file").write_text("stays")
        before = size_of(point)
        disk, backends = grow(point, frozenset({tool, "partx", "xfs_growfs"}))
        assert disk.room == AFTER * MIB - 10240 * 512 - PARTITION * MIB - (33 * 512 if table == "gpt" else 0)
        assert backends == [tool, "xfs_growfs"]
        assert size_of(point) > before + 500 * MIB
        assert (point / "file").read_text() == "stays"
        assert "error" not in run("sfdisk", "--verify", disk.disk).replace("No errors", "")


@pytest.mark.parametrize("filesystem", ["xfs", "btrfs"])
@pytest.mark.parametrize("own", [True, False], ids=["own-tool", "systemd-growfs"])
def test_either_tool_grows_a_file_system_and_then_there_is_nothing_left(
    tmp_path: Path, filesystem: str, own: bool
) -> None:
    tool = {"xfs": "xfs_growfs", "btrfs": "btrfs"}[filesystem]
    growfs = Path("/usr/lib/systemd/systemd-growfs")
    if not own and not growfs.exists():
        unfit(f"{growfs} is not installed")
    with mounted(tmp_path, table="gpt", filesystem=filesystem) as point:
        before = size_of(point)
        _disk, backends = grow(point, frozenset({"sfdisk", "partx", need(tool) and tool if own else str(growfs)}))
        assert backends == ["sfdisk", tool if own else "systemd-growfs"]
        assert size_of(point) > before + 500 * MIB
        after = read_root_disk(Machine(), str(point))
        assert after is not None
        (left,) = plan_grow(after)
        assert isinstance(left, Satisfied)


def test_a_power_cut_between_the_two_steps_is_made_up_for(tmp_path: Path) -> None:
    need("xfs_growfs")
    with mounted(tmp_path, table="gpt", filesystem="xfs") as point:
        machine = Machine()
        disk = read_root_disk(machine, str(point))
        assert disk is not None
        partition = plan_grow(disk)[0]
        assert isinstance(partition, Step) and any(isinstance(way, Way) for way in partition.ways)
        apply_step(machine, partition, journal=MemoryJournal(), deadline=NEVER)
        again = read_root_disk(machine, str(point))
        assert again is not None and again.room == 0
        (step,) = plan_grow(again)
        assert isinstance(step, Step) and step.why == "xfs gains 618 MiB"
        assert apply_step(machine, step, journal=MemoryJournal(), deadline=NEVER) == "xfs_growfs"


def test_the_space_up_to_the_next_partition_is_taken_and_not_a_sector_more(tmp_path: Path) -> None:
    with mounted(tmp_path, table="gpt", filesystem="btrfs") as point:
        disk = read_root_disk(Machine(), str(point))
        assert disk is not None
        run("sfdisk", "--quiet", "--force", "--no-reread", "--append", disk.disk, text="start=1638400, size=8192\n")
        subprocess.run(("partx", "--update", disk.disk), capture_output=True, check=False)
        disk, backends = grow(point, frozenset({"sfdisk", "partx", "btrfs"}))
        assert disk.end == 1638400 * 512
        assert backends == ["sfdisk", "btrfs"]
        assert "start=     1638400, size=        8192" in run("sfdisk", "--dump", disk.disk)
        after = read_root_disk(Machine(), str(point))
        assert after is not None and after.size == disk.end - 10240 * 512
