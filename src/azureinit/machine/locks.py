"""Both kinds of lock on the account files: the C library's on /etc/.pwd.lock, and shadow-utils' one file per file."""

from __future__ import annotations

import fcntl
import os

from azureinit.errors import LockTimeout
from azureinit.machine.files import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine

PASSWORD_LOCK = "/etc/.pwd.lock"
PAUSE = 0.05
START = 0  # SEEK_SET


class AccountLocks:
    """A context manager. /etc/.pwd.lock is taken first, so that two agents cannot deadlock."""

    def __init__(
        self,
        machine: Machine,
        files: tuple[str, ...],
        *,
        timeout: float,
        patience: float,
        record: Callable[[tuple[str, ...]], None],
    ) -> None:
        self.machine = machine
        self.files = files
        self.timeout, self.patience = timeout, patience
        self.record = record
        self.waiting = self.deadline = 0.0
        self._password_lock = -1
        self._held: list[str] = []

    def __enter__(self) -> AccountLocks:
        self.record(tuple(f"{file}.lock" for file in self.files))
        try:
            # A kernel lock has a live holder. A lock file may be a dead program's, with a PID that was reused since.
            self._until(self.patience, self._lock_passwords)
            self._until(self.timeout, self._lock_files)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        failure = self._release()
        if failure is not None and kind is None:
            raise failure

    def _until(self, seconds: float, lock: Callable[[], None]) -> None:
        self.waiting, self.deadline = seconds, self.machine.clock.monotonic() + seconds
        lock()

    def _lock_passwords(self) -> None:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            self._password_lock = os.open(self.machine.real(PASSWORD_LOCK, final=False), flags, 0o600)
            while True:
                try:
                    fcntl.lockf(self._password_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except (BlockingIOError, PermissionError):
                    self._pause(PASSWORD_LOCK, _record_lock_holder(self._password_lock))
        except OSError as error:
            raise local_error(error, "lock", self.machine.shown(PASSWORD_LOCK)) from error

    def _lock_files(self) -> None:
        """Each lock file appears with its content: one file with this process's PID is made and hard-linked to each
        name.
        """
        mine = self.machine.real(f"{self.files[0]}.{self.machine.pid}", final=False)
        try:
            _unlink(mine)  # a leftover of an earlier process with this PID may be a link to the lock itself
            made = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(made, b"%d\0" % self.machine.pid)
            finally:
                os.close(made)
            try:
                for file in self.files:
                    self._lock_file(mine, file)
            finally:
                _unlink(mine)
        except OSError as error:
            raise local_error(error, "lock", self.machine.shown(self.files[0])) from error

    def _lock_file(self, mine: str, file: str) -> None:
        lock = self.machine.real(f"{file}.lock", final=False)
        while not self._linked(mine, lock):
            holder = _holder(lock)
            if holder is not None and not self._alive(holder):
                _unlink(lock)
            else:
                self._pause(f"{file}.lock", holder)

    def _linked(self, mine: str, lock: str) -> bool:
        try:
            os.link(mine, lock)
        except FileExistsError:
            return False
        self._held.append(lock)
        return True

    def _alive(self, holder: int) -> bool:
        if holder == self.machine.pid:
            return False  # left by an earlier process with this PID
        try:
            os.kill(holder, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass
        return True

    def _pause(self, lock: str, holder: int | None) -> None:
        if self.machine.clock.monotonic() >= self.deadline:
            who = f"process {holder}" if holder else "an unknown process"
            shown = self.machine.shown(lock)
            hint = (
                f"end it, or remove {shown} if that process is not changing accounts" if lock != PASSWORD_LOCK else ""
            )
            raise LockTimeout(f"{shown} was held by {who} for {self.waiting:g} s", hint=hint, path=shown)
        self.machine.clock.sleep(PAUSE)

    def _release(self) -> Exception | None:
        """Release every lock, even if some fail. Returns the first failure."""
        failure: Exception | None = None
        while self._held:
            lock = self._held.pop()
            try:
                _unlink(lock)
            except OSError as error:
                failure = failure or local_error(error, "unlock", lock)
        if self._password_lock >= 0:
            os.close(self._password_lock)
            self._password_lock = -1
        return failure


def account_locks(
    machine: Machine,
    files: tuple[str, ...],
    *,
    timeout: float,
    patience: float | None = None,
    record: Callable[[tuple[str, ...]], None],
) -> AccountLocks:
    """`patience`: how long to wait for the C library's lock, if longer than for the lock files."""
    return AccountLocks(
        machine, files, timeout=timeout, patience=timeout if patience is None else patience, record=record
    )


def clear_stale(machine: Machine, locks: tuple[str, ...], *, pid: int) -> tuple[str, ...]:
    """Remove the locks that an azure-init process with that PID left, and return them. Other holders' locks stay."""
    removed = []
    for lock in locks:
        mine = f"{lock[: -len('.lock')]}.{pid}"
        if machine.remove(mine):
            removed.append(mine)
        # An empty lock lost its content in a power cut. It is this agent's: the journal lists it.
        if machine.stat(lock, follow=False) and _holder(machine.real(lock, final=False)) in (pid, None):
            machine.remove(lock)
            removed.append(lock)
    return tuple(removed)


def _holder(lock: str) -> int | None:
    try:
        file = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None  # released meanwhile, or not a regular file
    try:
        number = os.read(file, 32).partition(b"\0")[0].strip()
    finally:
        os.close(file)
    return int(number) if number.isdigit() and int(number) > 0 else None


def _record_lock_holder(file: int) -> int | None:
    import struct

    layout = "hhqqi4x"
    try:
        question = struct.pack(layout, fcntl.F_WRLCK, START, 0, 0, 0)
        return int(struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, question))[4]) or None
    except (OSError, struct.error):
        return None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
