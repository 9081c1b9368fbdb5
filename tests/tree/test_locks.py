"""Both kinds of lock, against another process that holds them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from azureinit.errors import LocalError, LockTimeout
from azureinit.machine import Clock, Machine
from azureinit.machine.locks import account_locks, clear_stale

FILES = ("/etc/passwd", "/etc/shadow")
LOCKS = ("/etc/passwd.lock", "/etc/shadow.lock")


class OwnClock(Clock):
    """Moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "etc").mkdir()
    return Machine(root=str(tmp_path), clock=OwnClock())


def names(machine: Machine) -> list[str]:
    return sorted(os.listdir(f"{machine.root}/etc"))


def hold(machine: Machine, *, timeout: float = 2.0) -> None:
    with account_locks(machine, FILES, timeout=timeout, record=lambda _paths: None):
        pass


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_locks_are_announced_made_whole_and_removed(machine: Machine) -> None:
    announced: list[tuple[tuple[str, ...], list[str]]] = []
    with account_locks(machine, FILES, timeout=1, record=lambda paths: announced.append((paths, names(machine)))):
        assert announced == [(LOCKS, [])]
        assert names(machine) == [".pwd.lock", "passwd.lock", "shadow.lock"]
        for lock in LOCKS:
            assert machine.read(lock) == b"%d\0" % os.getpid()
            assert os.stat(machine.real(lock)).st_mode & 0o777 == 0o600
        assert os.stat(machine.real("/etc/.pwd.lock")).st_mode & 0o777 == 0o600
        assert not _can_lock(machine)
    assert names(machine) == [".pwd.lock"]
    assert _can_lock(machine)


def _can_lock(machine: Machine) -> bool:
    """Asked of another process: one's own record locks never conflict."""
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    argv = [sys.executable, "-c", script, machine.real("/etc/.pwd.lock")]
    return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0


def test_they_are_removed_when_the_work_fails(machine: Machine) -> None:
    with pytest.raises(ZeroDivisionError), account_locks(machine, FILES, timeout=1, record=lambda _paths: None):
        raise ZeroDivisionError
    assert names(machine) == [".pwd.lock"]


def test_a_living_holder_is_waited_for_and_named(machine: Machine) -> None:
    lock = Path(machine.real("/etc/shadow.lock"))
    lock.write_bytes(b"%d\0" % os.getppid())
    with pytest.raises(LockTimeout, match=f"/etc/shadow.lock was held by process {os.getppid()} for 2 s"):
        hold(machine)
    assert names(machine) == [".pwd.lock", "shadow.lock"]
    assert machine.clock.monotonic() >= 2


def test_a_dead_holders_lock_is_taken_over(machine: Machine) -> None:
    Path(machine.real("/etc/passwd.lock")).write_bytes(b"%d\0" % dead_pid())
    hold(machine)
    assert names(machine) == [".pwd.lock"]


def test_our_number_from_an_earlier_boot_is_not_waited_for(machine: Machine) -> None:
    mine = Path(machine.real(f"/etc/passwd.{os.getpid()}"))
    mine.write_bytes(b"%d\0" % os.getpid())
    os.link(mine, machine.real("/etc/passwd.lock"))
    hold(machine)
    assert names(machine) == [".pwd.lock"]


def test_a_lock_without_a_number_is_nobodys_to_break(machine: Machine) -> None:
    Path(machine.real("/etc/passwd.lock")).write_bytes(b"")
    with pytest.raises(LockTimeout, match="an unknown process"):
        hold(machine)
    assert "passwd.lock" in names(machine)


def test_the_c_librarys_lock_is_waited_for_and_its_holder_named(machine: Machine) -> None:
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    argv = [sys.executable, "-c", script, machine.real("/etc/.pwd.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LockTimeout, match=f"/etc/.pwd.lock was held by process {holder.pid}"):
            hold(machine)
        holder.communicate(b"\n")
    hold(machine)


def test_the_c_librarys_lock_is_waited_for_longer_than_a_lock_file(machine: Machine) -> None:
    """Its holder lives: the run's own deadline is the limit."""
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    argv = [sys.executable, "-c", script, machine.real("/etc/.pwd.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        feed = holder.stdin

        class Patient(OwnClock):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                if self.time > 100 and not feed.closed:
                    feed.close()
                    holder.wait()

        machine.clock = Patient()
        with account_locks(machine, FILES, timeout=15, patience=600, record=lambda _paths: None):
            assert machine.clock.monotonic() > 100


def test_a_lock_given_up_meanwhile_is_obtained(machine: Machine) -> None:
    lock = Path(machine.real("/etc/shadow.lock"))
    lock.write_bytes(b"%d\0" % os.getppid())

    class Patient(OwnClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.time > 1 and lock.exists():
                lock.unlink()

    machine.clock = Patient()
    hold(machine)
    assert names(machine) == [".pwd.lock"]


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=rf"cannot lock {tmp_path}/etc/\.pwd\.lock"):
        hold(Machine(root=str(tmp_path), clock=OwnClock()))


def test_what_a_dead_run_left_is_cleared_and_nothing_else(machine: Machine) -> None:
    etc = Path(machine.real("/etc"))
    (etc / "passwd.4711").write_bytes(b"4711\0")
    (etc / "passwd.lock").write_bytes(b"4711\0")
    (etc / "shadow.lock").write_bytes(b"1\0")
    (etc / "group.lock").write_bytes(b"")
    removed = clear_stale(machine, (*LOCKS, "/etc/group.lock", "/etc/gshadow.lock"), pid=4711)
    assert removed == ("/etc/passwd.4711", "/etc/passwd.lock", "/etc/group.lock")
    assert names(machine) == ["shadow.lock"]


def test_a_link_planted_as_the_password_lock_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "etc/.pwd.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(LocalError):
        hold(machine)
    assert not (tmp_path / "victim").exists()


def test_the_lock_is_the_kind_lckpwdf_takes(machine: Machine) -> None:
    with account_locks(machine, ("/etc/passwd",), timeout=1, record=lambda _paths: None):
        ours = fcntl.F_WRLCK
        listed = Path("/proc/locks").read_text()
        inode = os.stat(machine.real("/etc/.pwd.lock")).st_ino
        assert ours
        assert any("POSIX" in line and "WRITE" in line and f":{inode} " in line for line in listed.splitlines())
