"""Programs that write to devices, on image files: the check before the write, and the order of what is made durable."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from azureinit.apply.executor import perform
from azureinit.errors import LocalError, PlanStale
from azureinit.facts.disk_content import read_content
from azureinit.machine import Machine, block
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import OnDevices, Run, Untouched, Write

MIB = 1 << 20
SIZE = 130 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.touch()
    os.truncate(path, SIZE)
    return path


def untouched(path: Path) -> Untouched:
    image = Machine().open_image(str(path))
    try:
        content = read_content(image, image.size)
    finally:
        image.close()
    return Untouched(path=str(path), size=content.size, regions=content.regions, digest=content.digest)


def do(machine: Machine, action: OnDevices) -> None:
    journal = MemoryJournal()
    journal.open_run(machine, ())
    perform(machine, action, journal=journal)


def write_x(path: Path) -> Run:
    return Run(argv=("sh", "-c", f"printf x | dd of={path} conv=notrunc status=none"))


def test_an_unchanged_device_is_written_to(disk: Path) -> None:
    do(Machine(), OnDevices(devices=(untouched(disk),), run=write_x(disk)))
    assert disk.read_bytes()[:2] == b"x\0"


@pytest.mark.parametrize("offset", [0, MIB, 17 * MIB + 100, SIZE - 1])
def test_a_changed_device_is_not(disk: Path, offset: int) -> None:
    before = untouched(disk)
    inside = any(start <= offset < start + length for start, length in before.regions)
    with disk.open("r+b") as file:
        file.seek(offset)
        file.write(b"y")
    if not inside:
        pytest.fail(f"{offset} is outside of what was read")
    with pytest.raises(PlanStale, match="was written to after it was examined"):
        do(Machine(), OnDevices(devices=(before,), run=write_x(disk)))
    assert disk.read_bytes()[0] == (ord("y") if offset == 0 else 0)


def test_everything_written_before_is_durable_when_the_program_starts(disk: Path, tmp_path: Path) -> None:
    machine = Machine()
    machine.write(str(tmp_path / "record"), b"set")
    assert machine.unsynced.directories
    mark = Write(path=str(tmp_path / "mark"), data=b"begun")
    do(machine, OnDevices(devices=(untouched(disk),), run=Run(argv=("true",), changes=False), mark=mark))
    assert not machine.unsynced.directories and not machine.unsynced.files
    assert (tmp_path / "mark").read_bytes() == b"begun"


def test_the_lock_is_held_while_the_program_runs_and_not_afterwards(disk: Path) -> None:
    locked = Run(argv=("sh", "-c", f"! flock --nonblock --shared {disk} true"))
    do(Machine(), OnDevices(devices=(untouched(disk),), run=locked))
    with disk.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_is_no_device_is_refused(tmp_path: Path) -> None:
    for path in ("/dev/null", str(tmp_path)):
        with pytest.raises(LocalError, match="is not a block device"), block.claim(Machine(), (path,)):
            pass


def test_no_descriptor_is_left(disk: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LocalError), block.claim(Machine(), (str(disk), str(disk), str(tmp_path / "absent"))):
        pass
    with block.claim(Machine(), (str(disk),)) as claims:
        assert claims.size(str(disk)) == SIZE
    assert len(os.listdir("/proc/self/fd")) == before
