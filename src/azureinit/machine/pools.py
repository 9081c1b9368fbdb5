"""A KVP pool file, open and locked in both domains: flock, as cloud-init does, then fcntl, as hv_kvp_daemon does.

The fcntl lock belongs to the open file, not to the process, so that closing another one does not drop it. Closing
releases both. Every change is one write of whole records or one change of length; a write that fails is undone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from azureinit.errors import LocalError, LockTimeout
from azureinit.machine.files import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine

FLOCK = "hhqqi4x"
START = 0  # SEEK_SET
SHORTEST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02
BUSY = (errno.EAGAIN, errno.EACCES)


class PoolFile:
    def __init__(self, file: int, path: str) -> None:
        self.file, self.path = file, path

    def __enter__(self) -> PoolFile:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self.file)

    def size(self) -> int:
        return os.fstat(self.file).st_size

    def modified_ns(self) -> int:
        return os.fstat(self.file).st_mtime_ns

    def read(self, *, limit: int | None) -> bytes:
        size = self.size()
        if limit is not None and size > limit:
            raise LocalError(f"cannot read {self.path}: it is larger than {limit} bytes", path=self.path)
        pieces = []
        done = 0
        try:
            while done < size:
                piece = os.pread(self.file, size - done, done)
                if not piece:
                    break
                pieces.append(piece)
                done += len(piece)
        except OSError as error:
            raise local_error(error, "read", self.path) from error
        return b"".join(pieces)

    def append(self, data: bytes) -> None:
        """All of it or nothing: a partial write on a full disk is undone."""
        end = self.size()
        try:
            _write(self.file, data, end)
        except OSError as error:
            self._restore(b"", 0, end)
            raise local_error(error, "write", self.path) from error

    def overwrite(self, data: bytes, *, offset: int, before: bytes) -> None:
        try:
            _write(self.file, data, offset)
        except OSError as error:
            self._restore(before, offset, None)
            raise local_error(error, "write", self.path) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self.file, size)
        except OSError as error:
            raise local_error(error, "write", self.path) from error

    def replace(self, data: bytes, *, before: bytes) -> None:
        """Truncate first, then write: in between the file holds only old records, never a mixture."""
        if len(data) < len(before):
            self.truncate(len(data))
        try:
            _write(self.file, data, 0)
        except OSError as error:
            self._restore(before, 0, len(before))
            raise local_error(error, "write", self.path) from error

    def _restore(self, before: bytes, offset: int, size: int | None) -> None:
        try:
            if size is not None and size < self.size():
                os.ftruncate(self.file, size)
            _write(self.file, before, offset)
        except OSError:
            pass  # report the first error


def open_pool(machine: Machine, path: str, *, change: bool, create: bool = False, timeout: float) -> PoolFile | None:
    """Open with a shared lock, or with `change` with an exclusive one. None if there is no such file."""
    shown = machine.shown(path)
    flags = (os.O_RDWR if change else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        file = os.open(machine.real(path), flags | (os.O_CREAT if create else 0), 0o600)
    except (FileNotFoundError, NotADirectoryError) as error:
        if create:
            raise local_error(error, "write", shown) from error
        return None
    except OSError as error:
        raise local_error(error, "open", shown) from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise LocalError(f"cannot open {shown}: it is not a regular file", path=shown)
        _lock(machine, file, shown, exclusive=change, timeout=timeout)
    except BaseException:
        os.close(file)
        raise
    return PoolFile(file, shown)


def _lock(machine: Machine, file: int, path: str, *, exclusive: bool, timeout: float) -> None:
    until = machine.clock.monotonic() + timeout

    def wait_for(take: Callable[[], object], verb: str) -> None:
        pause = SHORTEST_PAUSE
        while True:
            try:
                take()
                return
            except OSError as error:
                if error.errno not in BUSY:
                    raise LocalError(f"failed to {verb} KVP file {path}: {error.strerror}", path=path) from error
            left = until - machine.clock.monotonic()
            if left <= 0:
                holder = _record_lock_holder(file)
                who = f"process {holder}" if holder else "another process"
                raise LockTimeout(f"failed to {verb} KVP file {path}: {who} has held it for {timeout:g} s", path=path)
            machine.clock.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)

    whole_flock = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    wait_for(lambda: fcntl.flock(file, whole_flock), "flock")
    request = _whole_file(fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK)
    wait_for(lambda: fcntl.fcntl(file, fcntl.F_OFD_SETLK, request), "fcntl-lock")


def _whole_file(kind: int) -> bytes:
    return struct.pack(FLOCK, kind, START, 0, 0, 0)


def _record_lock_holder(file: int) -> int | None:
    """None if the lock belongs to an open file and not to a process."""
    try:
        holder = int(struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK)))[4])
    except OSError:
        return None
    return holder if holder > 0 else None


def _write(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
