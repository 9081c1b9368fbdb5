"""The executor on a tree: atomic steps, restored content after a failure, and the journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.apply.executor import perform
from azureinit.errors import (
    HostnameFailed,
    LocalError,
    LockTimeout,
    PlanStale,
    SubprocessFailed,
    SubprocessTimeout,
    ToolMissing,
)
from azureinit.machine import Clock, Machine
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import (
    EditLine,
    Link,
    Locked,
    MakeDir,
    Remove,
    Run,
    Write,
)
from azureinit.record import Secret
from support.need import need_root
from support.trees import changed, listing, make_tree

if TYPE_CHECKING:
    from azureinit.plan.actions import Action
from support.execution import HOURS, Stepping, append, apply, native, shim, step

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root")


@pytest.fixture
def machine(tree: Path, tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(root=str(tree), search=(str(tmp_path / "bin"), "/usr/bin", "/bin"), clock=Stepping())


def do(machine: Machine, action: Action) -> None:
    journal = MemoryJournal()
    journal.open_run(machine, ())
    perform(machine, action, journal=journal, deadline=machine.clock.monotonic() + HOURS)


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
    with pytest.raises(PlanStale, match=f"^{tree}/etc/"):
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


@pytest.mark.parametrize("path", ["/dev/shm/azure-init-test", "/proc/azure-init-test", "/sys/azure-init-test"])
def test_a_tree_does_not_reach_the_running_kernel(tmp_path: Path, path: str) -> None:
    """/dev, /proc and /sys are looked up on the running system, also where the files are those of a tree."""
    machine = Machine(root=str(tmp_path))
    actions: tuple[Action, ...] = (
        MakeDir(path=path, mode=0o755, kept=True),
        MakeDir(path=path, mode=0o755),
        Write(path=path, data=b"x"),
        Link(path=path, target="/etc/passwd"),
        Remove(path=path),
    )
    for action in actions:
        with pytest.raises(LocalError, match="belongs to the running system"):
            perform(machine, action, journal=MemoryJournal())
    assert not os.path.lexists(path)
