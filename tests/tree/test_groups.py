"""Process groups of programs that a killed process left: real processes, and no other ones."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.machine.groups import Process, end_group, members, read_process
from azureinit.memory.modules import read_marks
from azureinit.record import replace

LINGERS = "sleep 300 & trap '' TERM; echo ready; while :; do sleep 0.05; done"
LEAVES = "sleep 300 & echo ready"


@pytest.fixture
def started() -> Iterator[Callable[[str], Process]]:
    """A shell that leads a group, as every program of a plan does."""
    begun: list[int] = []

    def start(script: str) -> Process:
        quiet = ["sh", "-c", f"({script}) 2>/dev/null" if script == LEAVES else script]
        reading, writing = os.pipe()
        answers = [(os.POSIX_SPAWN_DUP2, writing, 1)]
        begun.append(os.posix_spawnp("sh", quiet, os.environ, file_actions=answers, setpgroup=0))
        os.close(writing)
        leader = read_process(Machine(), begun[-1])
        assert leader is not None
        with os.fdopen(reading, "rb") as output:
            assert output.readline() == b"ready\n"
        if script == LEAVES:
            os.waitpid(begun[-1], 0)
        return leader

    yield start
    for pid in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # one that was waited for above
            os.waitpid(pid, 0)


def test_a_group_is_ended_also_one_that_ignores_sigterm(
    started: Callable[[str], Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azureinit.machine.groups.GRACE_SECS", 0.2)
    leader = started(LINGERS)
    assert len(members(Machine(), leader)) >= 2
    assert end_group(Machine(), leader) and not members(Machine(), leader)
    assert not end_group(Machine(), leader), "nothing is left"


def test_what_a_leader_that_has_ended_left_is_ended(started: Callable[[str], Process]) -> None:
    leader = started(LEAVES)
    (left,) = members(Machine(), leader)
    assert left.pid != leader.pid
    assert end_group(Machine(), leader)
    until = time.monotonic() + 10
    while Path(f"/proc/{left.pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    found = read_process(Machine(), left.pid)
    assert found is None or found.state == "Z"


@pytest.mark.parametrize("other", ["since", "session"])
def test_another_program_with_the_same_number_is_left_alone(started: Callable[[str], Process], other: str) -> None:
    leader = started(LINGERS)
    recorded = replace(leader, **{other: getattr(leader, other) + 1})
    assert not end_group(Machine(), recorded) and members(Machine(), leader)


def test_the_marks_of_this_boot_name_the_program_until_it_has_ended(
    tmp_path: Path, started: Callable[[str], Process]
) -> None:
    leader = started(LINGERS)
    machine = Machine(root=str(tmp_path), kernel="/")
    machine.make_dirs("/data", mode=0o700)
    marks = read_marks(machine, "/data/modules")
    marks.record_program(leader.pid)
    kept = read_marks(machine, "/data/modules").program
    assert kept is not None and replace(kept, state="") == replace(leader, state="")
    marks.record_program_ended()
    assert read_marks(machine, "/data/modules").program is None
    marks.record_program(leader.pid)
    earlier = Machine(root=str(tmp_path), kernel=str(tmp_path / "kernel"))
    (tmp_path / "kernel/proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "kernel/proc/sys/kernel/random/boot_id").write_text("another boot\n")
    assert read_marks(earlier, "/data/modules").program is None, "in another boot it does not run"


def test_a_damaged_mark_names_no_program(tmp_path: Path) -> None:
    from azureinit.memory.sealed import seal

    machine = Machine(root=str(tmp_path), kernel="/")
    boot = machine.boot_id()
    damaged: tuple[object, ...] = ({}, {"pid": -1}, {"pid": "1", "group": 1, "session": 1, "since": 1}, 7, [])
    for value in damaged:
        (tmp_path / "modules").write_bytes(seal({"program": value, "boot": boot}) + b"\n")
        assert read_marks(machine, "/modules").program is None
