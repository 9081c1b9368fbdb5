"""Outputs of log lines: standard error, the log file, the console, the journal's socket.

None of them may stop or delay a boot: lines that cannot be written are dropped, and no error is raised.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from azureinit.errors import LocalError
from azureinit.machine.files import write_all
from azureinit.machine.threads import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.machine.sockets import socket

STDERR = 2
LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LOG_MODE = 0o600
MOST_TRIES = 3
TOO_LARGE = (errno.EMSGSIZE, errno.ENOBUFS)
NOT_NOW = (errno.EAGAIN, None)  # None: a timeout, before Python 3.10


def stderr_is_terminal() -> bool:
    return os.isatty(STDERR)


def stderr_is_journal(machine: Machine) -> bool:
    """Whether standard error is still the stream that systemd connected to the journal, and not redirected since."""
    told = machine.environ.get("JOURNAL_STREAM")
    if not told:
        return False
    try:
        status = os.fstat(STDERR)
    except OSError:
        return False
    return told == f"{status.st_dev}:{status.st_ino}"


class LogFile:
    """A log file that other azure-init processes may append to as well. It is rotated to `.1` before it exceeds
    `limit`.
    """

    def __init__(self, machine: Machine, path: str, *, limit: int) -> None:
        self.machine, self.path, self.limit = machine, path, limit
        self.real = ""
        self._file: int | None = None
        self._given_up = False
        self._lock = allocate_lock()

    def write(self, line: bytes) -> None:
        with self._lock:
            if self._given_up:
                return
            try:
                self._append(line)
            except (OSError, LocalError):
                self._given_up = self._file is None  # the disk may have space again

    def close(self) -> None:
        with self._lock:
            self._given_up = True
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _append(self, line: bytes) -> None:
        file = self._open() if self._file is None else self._file
        for _try in range(MOST_TRIES):
            file = self._with_room(file, len(line))
            write_all(file, line)
            if os.fstat(file).st_nlink:
                return
            file = self._open()  # another process rotated it twice during this write

    def _with_room(self, file: int, length: int) -> int:
        size = os.fstat(file).st_size
        if not self.limit or not size or size + length <= self.limit:
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return file  # another process is rotating it
        try:
            # If another process has rotated it already, the name refers to a new file.
            if os.path.samestat(os.fstat(file), os.lstat(self.real)):
                os.rename(self.real, f"{self.real}.1")
        except FileNotFoundError:
            pass
        except OSError:
            self.limit = 0  # a log above the limit is better than none
            fcntl.flock(file, fcntl.LOCK_UN)
            return file
        return self._open()

    def _open(self) -> int:
        before, self._file = self._file, None
        if before is not None:
            os.close(before)  # closing releases the lock
        self.real = self.machine.real(self.path, final=False)
        self._file = _open_log(self.real)
        return self._file


def _open_log(path: str) -> int:
    """Open with mode 0600. Refuse links, pipes, and files of another owner or with several names."""
    file = os.open(path, LOG_FLAGS, LOG_MODE)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        if stat.S_IMODE(status.st_mode) != LOG_MODE:
            os.fchmod(file, LOG_MODE)
    except OSError:
        os.close(file)
        raise
    return file


class Console:
    """Kept open: closing a serial line last blocks until all output has been sent."""

    def __init__(self, machine: Machine, path: str) -> None:
        self.path = machine.real(path)
        self._file = -1

    def write(self, line: bytes) -> None:
        for _try in range(2):  # reopen a line that was hung up
            try:
                if self._file < 0:
                    self._file = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                write_all(self._file, line)
                return
            except BlockingIOError:
                return
            except OSError:
                if self._file >= 0:
                    os.close(self._file)
                self._file = -1


class Datagrams:
    """Messages to a daemon's socket. A daemon that does not read is waited for once, for `patience` seconds."""

    def __init__(self, address: str, *, patience: float) -> None:
        self.address, self.patience = address, patience
        self._socket: socket | None = None

    def send(self, data: bytes) -> bool:
        """False if no daemon listens. A message that a listening daemon does not read is lost."""
        try:
            self._send(data)
        except AttributeError:
            return False  # too large, and this Python lacks memfd_create
        except OSError as error:
            if error.errno not in NOT_NOW and not isinstance(error, TimeoutError):
                self.close()
                return False
            self.patience = 0.0
            if self._socket is not None:
                self._socket.settimeout(0.0)
        return True

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            from azureinit.machine.sockets import AF_UNIX, SOCK_DGRAM, socket

            self._socket = socket(AF_UNIX, SOCK_DGRAM)
            self._socket.settimeout(self.patience)
            self._socket.connect(self.address)
        try:
            self._socket.send(data)
        except OSError as error:
            if error.errno not in TOO_LARGE:
                raise
            _send_as_file(self._socket, data)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _send_as_file(connected: socket, data: bytes) -> None:
    """Pass a large message as a sealed memory file, as journald requires."""
    import sys

    from azureinit.machine.sockets import SCM_RIGHTS, SOL_SOCKET

    file = os.memfd_create("azure-init", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        write_all(file, data)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        connected.sendmsg((), ((SOL_SOCKET, SCM_RIGHTS, file.to_bytes(4, sys.byteorder)),))
    finally:
        os.close(file)
