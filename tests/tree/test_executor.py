"""The executor on a tree: atomic steps, restored content after a failure, and the journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.apply.executor import apply_plan, apply_step, perform
from azureinit.errors import (
    DeadlineExceeded,
    HostnameFailed,
    LocalError,
    LockTimeout,
    PlanStale,
    StepFailed,
    SubprocessFailed,
    SubprocessTimeout,
    ToolMissing,
)
from azureinit.machine import Clock, Machine
from azureinit.memory.journal import Journal, MemoryJournal, clear_leftovers, parse_journal, read_journal
from azureinit.plan.actions import (
    Declined,
    EditLine,
    Link,
    Locked,
    MakeDir,
    Remove,
    Run,
    Satisfied,
    Step,
    Way,
    Write,
)
from azureinit.record import Secret
from azureinit.telemetry.events import Events
from support.need import need_root
from support.trees import changed, listing, make_tree

if TYPE_CHECKING:
    from azureinit.plan.actions import Action, Plan

SRC = Path(__file__).parents[2] / "src"
HOURS = 3600.0
JOURNAL = "/var/lib/journal"


class Stepping(Clock):
    """Time passes by sleeping, and when a test says so."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root")


@pytest.fixture
def machine(tree: Path, tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(root=str(tree), search=(str(tmp_path / "bin"), "/usr/bin", "/bin"), clock=Stepping())


def shim(tmp_path: Path, name: str, script: str) -> None:
    file = tmp_path / "bin" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def do(machine: Machine, action: Action) -> None:
    journal = MemoryJournal()
    journal.open_run(machine, ())
    perform(machine, action, journal=journal, deadline=machine.clock.monotonic() + HOURS)


def step(*ways: Way | Declined, name: str = "thing", once: bool = False) -> Step:
    return Step(name=name, why="because", ways=ways, once=once, failure=HostnameFailed)


def native(*actions: Action) -> Way:
    return Way(backend="native", actions=actions)


def apply(machine: Machine, plan: Plan, *, journal: Journal | None = None, seconds: float = HOURS) -> None:
    events = Events(clock=machine.clock)
    deadline = machine.clock.monotonic() + seconds
    apply_plan(machine, plan, journal=journal or MemoryJournal(), events=events, deadline=deadline)


# ---- one file


def test_a_check_that_fails_puts_the_old_file_back(machine: Machine, tree: Path, tmp_path: Path) -> None:
    shim(tmp_path, "check", f"cp {tree}/etc/hosts {tmp_path}/seen; echo no good >&2; exit 3")
    (tree / "etc/hosts").chmod(0o640)
    if os.geteuid() == 0:
        os.chown(tree / "etc/hosts", 1234, 4321)
    before = listing(tree)
    write = Write(path="/etc/hosts", data=b"new\n", mode=0o600, owner="0:0", check=Run(argv=("check",)))
    with pytest.raises(SubprocessFailed, match="no good"):
        do(machine, write)
    assert (tmp_path / "seen").read_bytes() == b"new\n", "the check is asked about the new file"
    assert changed(before, listing(tree)) == set()


def test_a_check_that_fails_removes_a_file_that_was_not_there(machine: Machine, tree: Path, tmp_path: Path) -> None:
    shim(tmp_path, "check", "exit 1")
    before = listing(tree)
    with pytest.raises(SubprocessFailed):
        do(machine, Write(path="/etc/sudoers.d/x", data=b"new\n", check=Run(argv=("check",))))
    assert changed(before, listing(tree)) == set()


def test_a_check_that_is_not_there_or_never_ends_puts_it_back_too(machine: Machine, tree: Path, tmp_path: Path) -> None:
    machine.clock = Clock()
    shim(tmp_path, "forever", "exec sleep 600")
    before = listing(tree)
    slow, absent = Run(argv=("forever",), timeout=0.2), Run(argv=("absent",))
    for check, error in ((slow, SubprocessTimeout), (absent, ToolMissing)):
        with pytest.raises(error):
            do(machine, Write(path="/etc/hosts", data=b"new\n", check=check))
        assert changed(before, listing(tree)) == set()


def test_a_check_that_passes_leaves_the_new_file(machine: Machine, tree: Path, tmp_path: Path) -> None:
    shim(tmp_path, "check", "exit 0")
    do(machine, Write(path="/etc/hosts", data=b"new\n", mode=0o600, check=Run(argv=("check",))))
    assert (tree / "etc/hosts").read_bytes() == b"new\n"
    assert (tree / "etc/hosts").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("was", [b"something else\n", Secret(b"something else\n"), b""])
def test_a_file_that_changed_meanwhile_is_left_as_it_is(machine: Machine, tree: Path, was: bytes | Secret) -> None:
    before = listing(tree)
    with pytest.raises(PlanStale, match="/etc/hosts"):
        do(machine, Write(path="/etc/hosts", data=b"new\n", mode=0o600, was=was))
    assert changed(before, listing(tree)) == set()


def test_a_file_that_went_away_meanwhile_is_not_made_anew(machine: Machine, tree: Path) -> None:
    (tree / "etc/hosts").unlink()
    with pytest.raises(PlanStale):
        do(machine, Write(path="/etc/hosts", data=b"new\n", was=b"old\n"))
    assert not (tree / "etc/hosts").exists()


def test_mode_and_owner_that_nobody_asked_for_stay(machine: Machine, tree: Path) -> None:
    (tree / "etc/hosts").chmod(0o604)
    if os.geteuid() == 0:
        os.chown(tree / "etc/hosts", 1234, 4321)
    before = listing(tree)["etc/hosts"]
    do(machine, Write(path="/etc/hosts", data=b"new\n"))
    assert listing(tree)["etc/hosts"] == (*before[:2], b"new\n")


def test_the_other_actions(machine: Machine, tree: Path) -> None:
    before = listing(tree)
    do(machine, MakeDir(path="/etc/made", mode=0o750))
    do(machine, Link(path="/etc/made/link", target="../hosts"))
    do(machine, Remove(path="/etc/hostname"))
    do(machine, Remove(path="/etc/hostname"))
    after = listing(tree)
    assert changed(before, after) == {"etc/made", "etc/made/link", "etc/hostname"}
    assert after["etc/made"][0] == "drwxr-x---"
    assert after["etc/made/link"][2] == b"../hosts"


FAULT = """
import sys
from azureinit.apply.executor import perform
from azureinit.memory.journal import MemoryJournal
from azureinit.errors import LocalError
from azureinit.machine import Machine
from azureinit.plan.actions import Write
try:
    perform(Machine(root=sys.argv[1]), Write(path="/etc/hosts", data=b"x" * 100_000), journal=MemoryJournal())
except LocalError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        (
            "mount --bind {etc} {etc} && mount -o remount,ro,bind {etc}",
            "ReadOnly cannot write {etc}/hosts: Read-only file system",
        ),
        (
            "mount -t tmpfs -o size=8k none {etc} && echo old >{etc}/hosts",
            "NoSpace cannot write {etc}/hosts: No space left on device",
        ),
        (
            "mount -t tmpfs -o nr_inodes=2 none {etc} && echo old >{etc}/hosts",
            "NoSpace cannot write {etc}/hosts: No space left on device",
        ),
    ],
    ids=["read-only", "no block left", "no inode left"],
)
def test_a_disk_that_refuses_is_named_and_nothing_is_left_on_it(tree: Path, mount: str, told: str) -> None:
    need_root()
    (tree / "etc/hosts").write_text("old\n")
    script = mount.format(etc=tree / "etc") + f' && "$@" && cat {tree}/etc/hosts && ls -A {tree}/etc | grep azure-init'
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", FAULT, str(tree)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.splitlines() == [told.format(etc=tree / "etc"), "old"], ran


# ---- the account files


def append(name: str, number: int) -> EditLine:
    return EditLine(path="/etc/passwd", key=name, line=f"{name}:x:{number}:{number}::/home/{name}:/bin/sh", unique=2)


def test_edits_are_made_together_each_file_once_its_old_self_kept(machine: Machine, tree: Path) -> None:
    before = listing(tree)
    do(machine, Locked(edits=(append("ada", 1000), EditLine(path="/etc/group", key="adm", member="ada"))))
    after = listing(tree)
    assert changed(before, after) == {"etc/passwd", "etc/passwd-", "etc/group", "etc/group-", "etc/.pwd.lock"}
    assert after["etc/passwd-"][2] == before["etc/passwd"][2]
    assert b"ada:x:1000:1000" in after["etc/passwd"][2]
    assert after["etc/shadow"] == before["etc/shadow"]


@pytest.mark.parametrize(
    "stale",
    [
        EditLine(path="/etc/group", key="wheel", member="ada"),
        EditLine(path="/etc/shadow", key="ada", fields=((1, Secret("*")),)),
        append("daemon", 1001),
        append("grace", 1),
    ],
    ids=["no such group", "no such account", "the name is taken", "the number is taken"],
)
def test_one_stale_edit_and_no_file_changes(machine: Machine, tree: Path, stale: EditLine) -> None:
    before = listing(tree)
    with pytest.raises(PlanStale):
        do(machine, Locked(edits=(append("ada", 1000), EditLine(path="/etc/group", key="adm", member="ada"), stale)))
    assert changed(before, listing(tree)) <= {"etc/.pwd.lock"}, "and no lock is left either"


def test_what_needs_the_number_is_done_under_the_locks_and_not_at_all_where_it_is_taken(
    machine: Machine, tree: Path
) -> None:
    home = (MakeDir(path="/home/ada", mode=0o750, owner="1000:1000"), Write(path="/home/ada/.profile", data=b"x"))
    (tree / "home").mkdir(exist_ok=True)
    passwd = (tree / "etc/passwd").read_text()
    (tree / "etc/passwd").write_text(passwd + "rival:x:1000:1000::/home/rival:/bin/sh\n")
    with pytest.raises(PlanStale):
        do(machine, Locked(edits=(append("ada", 1000),), first=home))
    assert not (tree / "home/ada").exists(), "it would be the rival's"
    (tree / "etc/passwd").write_text(passwd)
    do(machine, Locked(edits=(append("ada", 1000),), first=home))
    assert (tree / "home/ada/.profile").exists()
    assert "ada:x:1000:" in (tree / "etc/passwd").read_text()


def test_an_edit_that_changes_nothing_writes_nothing(machine: Machine, tree: Path) -> None:
    (tree / "etc/group").write_text("adm:x:4:ada\n")
    before = listing(tree)
    do(machine, Locked(edits=(EditLine(path="/etc/group", key="adm", member="ada"),)))
    assert changed(before, listing(tree)) <= {"etc/.pwd.lock"}


def test_a_lock_somebody_holds_is_waited_for_and_then_named(machine: Machine, tree: Path) -> None:
    (tree / "etc/passwd.lock").write_bytes(b"1\0")
    before = listing(tree)
    started = machine.clock.monotonic()
    with pytest.raises(HostnameFailed) as caught:
        apply(machine, (step(native(Locked(edits=(append("ada", 1000),)))),))
    assert isinstance(caught.value.failures["native"], LockTimeout)
    assert "process 1" in str(caught.value)
    assert 15 <= machine.clock.monotonic() - started < 30
    assert changed(before, listing(tree)) <= {"etc/.pwd.lock"}


# ---- programs


def test_a_secret_reaches_a_program_by_its_standard_input_only(machine: Machine, tmp_path: Path) -> None:
    script = f"cat >{tmp_path}/stdin; tr '\\0' ' ' </proc/$$/cmdline >{tmp_path}/argv; env >{tmp_path}/env"
    shim(tmp_path, "taker", script)
    do(machine, Run(argv=("taker", "-e"), stdin=Secret("ada:$6$hash\n")))
    assert (tmp_path / "stdin").read_text() == "ada:$6$hash\n"
    assert "$6$hash" not in (tmp_path / "argv").read_text() + (tmp_path / "env").read_text()
    assert (tmp_path / "argv").read_text().endswith("taker -e ")


def test_a_program_that_fails_tells_why_but_no_secret(machine: Machine, tmp_path: Path) -> None:
    shim(tmp_path, "taker", "cat >/dev/null; echo 'line 1: bad' >&2; exit 1")
    with pytest.raises(SubprocessFailed) as caught:
        do(machine, Run(argv=("taker",), stdin=Secret("hunter2")))
    assert "line 1: bad" in str(caught.value)
    assert "hunter2" not in f"{caught.value} {caught.value.supporting()}"


def test_a_program_gets_no_more_time_than_the_run_has(machine: Machine, tmp_path: Path) -> None:
    machine.clock = Clock()
    shim(tmp_path, "forever", "exec sleep 600")
    deadline = machine.clock.monotonic() + 0.2
    with pytest.raises(SubprocessTimeout):
        perform(machine, Run(argv=("forever",), timeout=600), journal=MemoryJournal(), deadline=deadline)


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
    for seconds in (0.5, 2.0, 8.0, 32.0) if late else (HOURS,):  # on a busy machine a tool is slow to start
        calls.unlink(missing_ok=True)
        run = Run(argv=("tool",), timeout=seconds, unit="its.service", output=str(tmp_path / "log"))
        try:
            perform(machine, run, journal=MemoryJournal())
        except SubprocessTimeout:
            assert late
        if "tool" in calls.read_text().split():
            break
    ending = ["systemctl kill --signal=KILL its.service", "systemctl stop its.service"]
    assert calls.read_text().splitlines() == [*ending, "tool", *(ending if late else ())]


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
