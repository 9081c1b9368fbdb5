"""Steps, their backends and the journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.apply.executor import apply_step, perform
from azureinit.errors import (
    DeadlineExceeded,
    HostnameFailed,
    LocalError,
    PlanStale,
    StepFailed,
    SubprocessFailed,
    SubprocessTimeout,
    ToolMissing,
)
from azureinit.machine import Machine
from azureinit.memory.journal import Journal, MemoryJournal, clear_leftovers, parse_journal, read_journal
from azureinit.plan.actions import (
    Declined,
    Locked,
    Remove,
    Run,
    Satisfied,
    Way,
    Write,
)
from support.trees import changed, listing, make_tree

if TYPE_CHECKING:
    pass
from support.execution import HOURS, Stepping, append, apply, native, shim, step

JOURNAL = "/var/lib/journal"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root")


@pytest.fixture
def machine(tree: Path, tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(root=str(tree), search=(str(tmp_path / "bin"), "/usr/bin", "/bin"), clock=Stepping())


# ---- steps


def test_the_first_backend_that_can_does_it(machine: Machine, tree: Path, tmp_path: Path) -> None:
    shim(tmp_path, "fails", "exit 1")
    ways = (
        Declined(backend="declining", why="not here"),
        Way(backend="failing", actions=(Run(argv=("fails",)),)),
        native(Write(path="/etc/hostname", data=b"web-1\n")),
        Way(backend="never", actions=(Remove(path="/etc/hostname"),)),
    )
    done = apply_step(machine, step(*ways), journal=MemoryJournal(), deadline=machine.clock.monotonic() + HOURS)
    assert done == "native"
    assert (tree / "etc/hostname").read_text() == "web-1\n"


def test_every_backends_failure_is_kept(machine: Machine, tmp_path: Path) -> None:
    shim(tmp_path, "fails", "echo broken >&2; exit 7")
    ways = (
        Declined(backend="hostnamectl", why="systemd is not running"),
        Way(backend="failing", actions=(Run(argv=("fails",)),)),
        Way(backend="missing", actions=(Run(argv=("not-installed",)),)),
        native(Write(path="/no/such/directory/file", data=b"")),
    )
    with pytest.raises(HostnameFailed) as caught:
        apply(machine, (step(*ways),))
    failures = caught.value.failures
    assert {name: type(error) for name, error in failures.items()} == {
        "hostnamectl": LocalError,
        "failing": SubprocessFailed,
        "missing": ToolMissing,
        "native": LocalError,
    }
    assert caught.value.supporting() == {
        "step": "thing",
        "hostnamectl": "declined: systemd is not running",
        "failing": "fails failed (exit status: 7): broken",
        "missing": "not-installed is not installed",
        "native": f"cannot write {machine.root}/no/such/directory/file: No such file or directory",
    }


def test_a_step_without_a_backend_fails_and_says_so(machine: Machine) -> None:
    with pytest.raises(StepFailed, match="no backend is configured"):
        apply(machine, (step(),))


def test_a_stale_plan_is_no_backends_failure(machine: Machine, tree: Path) -> None:
    other = Way(backend="other", actions=(Remove(path="/etc/hostname"),))
    with pytest.raises(PlanStale):
        apply(machine, (step(native(Write(path="/etc/hosts", data=b"", was=b"x")), other),))
    assert (tree / "etc/hostname").exists(), "the next backend is not asked"


def test_the_first_step_that_fails_ends_it(machine: Machine, tree: Path) -> None:
    plan = (
        Satisfied(name="fine", why="is"),
        step(native(Write(path="/etc/hostname", data=b"web-1\n")), name="first"),
        step(name="second"),
        step(native(Remove(path="/etc/hosts")), name="third"),
    )
    with pytest.raises(StepFailed, match="second"):
        apply(machine, plan)
    assert (tree / "etc/hostname").read_text() == "web-1\n"
    assert (tree / "etc/hosts").exists()


def test_no_step_is_begun_after_the_deadline(machine: Machine, tree: Path) -> None:
    before = listing(tree)
    with pytest.raises(DeadlineExceeded, match="thing"):
        apply(machine, (step(native(Remove(path="/etc/hosts"))),), seconds=0)
    assert changed(before, listing(tree)) == set()


# ---- what is remembered


def test_a_step_that_facts_cannot_see_is_written_down_once_it_is_done(machine: Machine, tree: Path) -> None:
    plan = (
        step(native(Remove(path="/etc/hosts")), name="seen"),
        step(native(Remove(path="/etc/hostname")), name="password ada", once=True),
        step(name="not possible", once=True),
    )
    with pytest.raises(StepFailed):
        apply(machine, plan, journal=read_journal(machine, JOURNAL))
    assert read_journal(machine, JOURNAL).done == {"password ada"}
    assert (tree / "var/lib/journal").stat().st_mode & 0o777 == 0o600
    lines = parse_journal((tree / "var/lib/journal").read_bytes())
    assert {"done": "password ada", "backend": "native"} in lines
    assert "end" not in lines[-1], "a run that failed has not ended well"


def test_a_journal_that_cannot_be_written_stops_the_run(machine: Machine, tree: Path) -> None:
    before = listing(tree)
    with pytest.raises(LocalError, match=f"cannot write {tree}/no/journal"):
        apply(machine, (step(native(Remove(path="/etc/hosts"))),), journal=read_journal(machine, "/no/journal"))
    assert changed(before, listing(tree)) == set()


def test_what_a_dead_run_left_is_cleared_by_the_next(machine: Machine, tree: Path) -> None:
    plan = (
        step(native(Write(path="/etc/hosts", data=b"x"), Locked(edits=(append("ada", 1000),))), name="first"),
        step(name="dies"),
    )
    with pytest.raises(StepFailed):
        apply(machine, plan, journal=read_journal(machine, JOURNAL))
    left = (tree / "etc/.hosts.azure-init~", tree / "etc/.passwd.azure-init~", tree / "etc/passwd.lock")
    for path in left:
        path.write_bytes(b"%d\0" % machine.pid)
    (tree / "etc/group.lock").write_bytes(b"1\0")
    removed = clear_leftovers(machine, read_journal(machine, JOURNAL))
    assert sorted(removed) == ["/etc/.hosts.azure-init~", "/etc/.passwd.azure-init~", "/etc/passwd.lock"]
    assert not any(path.exists() for path in left)
    assert (tree / "etc/group.lock").exists(), "another's lock stays"


def test_a_run_that_ended_well_leaves_nothing_to_clear(machine: Machine) -> None:
    apply(machine, (step(native(Write(path="/etc/hosts", data=b"x"))),), journal=read_journal(machine, JOURNAL))
    assert read_journal(machine, JOURNAL).unfinished == ()


@pytest.mark.parametrize("tail", [b'{"done": "oth', b"\0\0\0\0", b"null\n", b"[1]\n", b"\xff\xfe\n", b"\n\n"])
def test_a_torn_line_is_passed_over(tail: bytes) -> None:
    whole = b'{"done": "password ada", "backend": "native"}\n'
    assert Journal("", parse_journal(whole + tail)).done == {"password ada"}
    assert Journal("", parse_journal(tail + b"\n" + whole)).done == {"password ada"}


@pytest.mark.parametrize("late", [False, True], ids=["in time", "too late"])
def test_what_lives_in_a_unit_of_its_own_is_ended_before_it_starts_and_when_it_is_late(
    tmp_path: Path, late: bool
) -> None:
    calls = tmp_path / "calls"
    for name, script in (("systemctl", "exit 5"), ("tool", "sleep 1000" if late else "exit 0")):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\n{script}\n')
        (tmp_path / name).chmod(0o755)
    machine = Machine(search=(str(tmp_path), "/usr/bin", "/bin"), environ={})
    ending = (("systemctl", "kill", "--signal=KILL", "its.service"), ("systemctl", "stop", "its.service"))
    for seconds in (0.5, 2.0, 8.0, 32.0) if late else (HOURS,):  # on a busy machine a tool is slow to start
        calls.unlink(missing_ok=True)
        run = Run(argv=("tool",), timeout=seconds, cleanup=ending, output=str(tmp_path / "log"))
        try:
            perform(machine, run, journal=MemoryJournal())
        except SubprocessTimeout:
            assert late
        if "tool" in calls.read_text().split():
            break
    ended = [" ".join(argv) for argv in ending]
    assert calls.read_text().splitlines() == [*ended, "tool", *(ended if late else ())]


def test_a_host_key_whose_name_is_a_link_is_made_and_synced_where_the_link_leads(tmp_path: Path) -> None:
    """Images with a file system of their own for state have such links; ssh-keygen writes through them."""
    link, target = tmp_path / "ssh_host_ed25519_key", tmp_path / "state/ssh_host_ed25519_key"
    target.parent.mkdir()
    link.symlink_to(target)
    machine = Machine(environ={})
    make = Run(argv=("sh", "-c", f"echo key >{link}; echo public >{link}.pub"), makes=str(link))
    perform(machine, make, journal=MemoryJournal())
    assert target.read_text() == "key\n"
    assert {str(tmp_path), str(target.parent)} <= machine.unsynced.directories
