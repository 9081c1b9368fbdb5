"""The journal: its lines, and how the next run reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import LocalError, NoSpace
from azureinit.machine import Machine, temporary_path
from azureinit.memory.journal import Journal, clear_leftovers, parse_journal, read_journal
from azureinit.plan.actions import (
    Declined,
    EditLine,
    Link,
    Locked,
    MakeDir,
    OnDevices,
    Run,
    Satisfied,
    Step,
    Way,
    Write,
)

PATH = "/data/vm.journal"
PLAN = (
    Satisfied(name="hostname", why="it is"),
    Step(
        name="user",
        why="new",
        ways=(
            Declined(backend="useradd", why="under a root"),
            Way(
                backend="files",
                actions=(
                    Locked(edits=(EditLine(path="/etc/passwd", key="u", line="u:x:1:1::/:"),)),
                    MakeDir(path="/home/u", mode=0o700),
                    Write(path="/home/u/.profile", data=b""),
                    Link(path="/home/u/.link", target="x"),
                    OnDevices(devices=(), run=Run(argv=("true",)), mark=Write(path="/data/vm.disks", data=b"")),
                ),
            ),
        ),
    ),
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("data", "etc", "home/u"):
        (tmp_path / name).mkdir(parents=True)
    return Machine(root=str(tmp_path), environ={})


def lines(machine: Machine) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(machine.real(PATH)).read_bytes().splitlines()]


def begun(machine: Machine) -> Journal:
    journal = read_journal(machine, PATH)
    journal.open_run(machine, PLAN)
    return journal


def test_a_machine_without_a_journal_has_done_nothing(machine: Machine) -> None:
    journal = read_journal(machine, PATH)
    assert (journal.done, journal.unfinished) == (frozenset(), ())
    assert not Path(machine.real(PATH)).exists()


def test_a_run_opens_with_everything_it_may_leave_behind(machine: Machine) -> None:
    begun(machine)
    (entry,) = lines(machine)
    assert {temporary_path(path) for path in ("/etc/passwd", "/home/u/.profile", "/data/vm.disks")} <= set(
        entry["temporaries"]
    )  # type: ignore[call-overload]
    assert entry["locks"] == ["/etc/passwd.lock"]
    assert (entry["pid"], entry["boot"]) == (machine.pid, machine.boot_id())
    assert Path(machine.real(PATH)).stat().st_mode & 0o777 == 0o600


def test_what_was_done_once_is_known_to_the_next_run(machine: Machine) -> None:
    journal = begun(machine)
    journal.record_done("password", backend="files")
    assert journal.done == {"password"}
    assert read_journal(machine, PATH).done == {"password"}
    journal.close_run()
    assert read_journal(machine, PATH).done == {"password"}


def test_a_run_that_ended_leaves_nothing_to_clear(machine: Machine) -> None:
    journal = begun(machine)
    assert len(read_journal(machine, PATH).unfinished) == 1
    journal.close_run()
    assert read_journal(machine, PATH).unfinished == ()


def test_every_run_that_died_since_the_last_end_is_unfinished(machine: Machine) -> None:
    begun(machine).close_run()
    begun(machine)
    begun(machine)
    assert len(read_journal(machine, PATH).unfinished) == 2


def test_locks_that_the_plan_did_not_name_are_recorded_before_they_are_made(machine: Machine) -> None:
    journal = begun(machine)
    journal.record_locks(("/etc/passwd.lock",))
    assert len(lines(machine)) == 1
    journal.record_locks(("/etc/passwd.lock", "/etc/subuid.lock"))
    assert lines(machine)[-1]["locks"] == ["/etc/subuid.lock"]
    assert [entry["locks"] for entry in read_journal(machine, PATH).unfinished] == [
        ["/etc/passwd.lock"],
        ["/etc/subuid.lock"],
    ]


# ---- clearing up


def test_the_next_run_removes_what_a_dead_one_left(machine: Machine) -> None:
    begun(machine)
    left = [temporary_path("/home/u/.profile"), temporary_path("/etc/passwd")]
    for path in left:
        machine.write(path, b"half")
    machine.write("/etc/passwd.lock", b"%d\0" % machine.pid)
    machine.write("/etc/other.lock", b"%d\0" % machine.pid)
    removed = clear_leftovers(machine, read_journal(machine, PATH))
    assert set(removed) == {*left, "/etc/passwd.lock"}
    assert machine.names("/etc") == ("other.lock",)
    assert machine.names("/home/u") == ()


def test_a_lock_of_somebody_else_stays(machine: Machine) -> None:
    begun(machine)
    machine.write("/etc/passwd.lock", b"1\0")
    assert clear_leftovers(machine, read_journal(machine, PATH)) == ()
    assert machine.read("/etc/passwd.lock") == b"1\0"


def test_a_run_that_ended_is_not_cleared_up_after(machine: Machine) -> None:
    begun(machine).close_run()
    machine.write(temporary_path("/etc/passwd"), b"somebody's")
    assert clear_leftovers(machine, read_journal(machine, PATH)) == ()


# ---- torn and broken


def test_a_torn_last_line_is_passed_over(machine: Machine) -> None:
    begun(machine).record_done("password", backend="files")
    whole = machine.read(PATH) or b""
    for length in range(whole.index(b"\n") + 1, len(whole) - 1):
        machine.write(PATH, whole[:length])
        assert read_journal(machine, PATH).done == frozenset()
        assert len(read_journal(machine, PATH).unfinished) == 1


def test_what_follows_a_torn_line_is_not_lost_with_it(machine: Machine) -> None:
    begun(machine).record_done("password", backend="files")
    machine.write(PATH, (machine.read(PATH) or b"")[:-10])
    journal = begun(machine)
    assert len(read_journal(machine, PATH).unfinished) == 2
    journal.record_done("password", backend="files")
    assert read_journal(machine, PATH).done == {"password"}


def test_a_last_line_that_lost_only_its_end_still_counts(machine: Machine) -> None:
    begun(machine).record_done("password", backend="files")
    machine.write(PATH, (machine.read(PATH) or b"")[:-1])
    begun(machine).record_done("other", backend="files")
    assert read_journal(machine, PATH).done == {"password", "other"}


def test_what_a_power_cut_leaves_of_a_file_is_passed_over() -> None:
    noise = b"\0" * 4096 + b"\n" + b'{"done": "a"}\n' + b"\xff\xfe\n[]\n3\nnull\n" + b'{"done": "b"}\n{"do'
    assert parse_journal(noise) == [{"done": "a"}, {"done": "b"}]


@given(st.lists(st.dictionaries(st.sampled_from(["done", "end", "x"]), st.text())), st.binary())
def test_no_noise_at_the_end_loses_an_entry(entries: list[dict[str, str]], noise: bytes) -> None:
    data = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
    assert parse_journal(data + noise)[: len(entries)] == entries


def test_a_journal_that_cannot_be_written_stops_the_run(machine: Machine) -> None:
    with pytest.raises(NoSpace):
        Journal("/dev/full", []).open_run(machine, PLAN)
    with pytest.raises(LocalError, match=f"cannot write {machine.root}/missing/journal"):
        Journal("/missing/journal", []).open_run(machine, PLAN)
