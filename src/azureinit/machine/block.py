"""Block devices: exclusive claims on them, reads of what they hold now, and questions that only an ioctl answers."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from array import array
from sys import byteorder

from azureinit.errors import LocalError, LockTimeout
from azureinit.machine.files import END, local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azureinit.machine import Machine

# ---- what was read

PIECE = 1 << 20
ZEROS = bytes(PIECE)


def is_zero(data: bytes) -> bool:
    """For at most one piece."""
    return data == (ZEROS if len(data) == PIECE else ZEROS[: len(data)])


class Digest:
    """SHA-256 of pieces of at most PIECE bytes. Of one that is all zeros only the length is hashed: 1 MiB takes 0.05 ms
    instead of 0.5 to 2.5 ms, and a blank disk is 96 MiB of them."""

    def __init__(self) -> None:
        import hashlib

        self._hash = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        zero = is_zero(piece)
        self._hash.update((b"zero" if zero else b"data") + len(piece).to_bytes(8, "big"))
        if not zero:
            self._hash.update(piece)

    def text(self) -> str:
        return self._hash.hexdigest()


# ---- exclusive claims

BLKFLSBUF, BLKGETDISKSEQ = 0x1261, 0x80081280
PATIENCE = 5.0  # seconds: udev and its helpers hold a device that just appeared for a moment
PAUSE = 0.02


def claim(machine: Machine, paths: Iterable[str]) -> Claims:
    """For `with`. LocalError for a device that is in use: mounted, swap, part of an array, or opened exclusively."""
    return Claims(machine, tuple(dict.fromkeys(paths)))


class Claims:
    """Devices that are open exclusively, and locked so that udev does not probe them.

    They are opened for reading: closing a device that was open for writing makes udev probe it again. `share` gives up
    the exclusive opens and keeps the locks, for a program that opens the devices exclusively itself. An image file is
    handled like a device, but other programs can still open it.
    """

    def __init__(self, machine: Machine, paths: tuple[str, ...]) -> None:
        self._machine = machine
        self._paths = paths
        self._open: dict[str, int] = {}
        self._locks: dict[tuple[int, int], int] = {}

    def __enter__(self) -> Claims:
        try:
            until = self._machine.clock.monotonic() + PATIENCE
            for path in self._paths:
                self._lock(path, until)
            self._claim_all(until)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.share()
        while self._locks:
            os.close(self._locks.popitem()[1])

    def share(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def claim_again(self) -> None:
        """After `share`."""
        self._claim_all(self._machine.clock.monotonic() + PATIENCE)

    def _claim_all(self, until: float) -> None:
        for path in self._paths:
            self._claim(path, until)

    def size(self, path: str) -> int:
        try:
            return os.lseek(self._open[path], 0, END)
        except OSError as error:
            raise local_error(error, "measure", path) from error

    def sequence(self, path: str) -> int:
        """The kernel's number of the disk, also for a partition; 0 where it has none (before Linux 5.15, or a file)."""
        try:
            return int.from_bytes(fcntl.ioctl(self._open[path], BLKGETDISKSEQ, bytes(8)), byteorder)
        except OSError:
            return 0

    def digest(self, path: str, regions: Iterable[tuple[int, int]]) -> str:
        """Of the bytes of these regions, (offset, length) each, in this order; not from the kernel's cache."""
        digest = Digest()
        for start, length in regions:
            for offset in range(start, start + length, PIECE):
                digest.add(self._piece(path, offset, min(PIECE, start + length - offset)))
        return digest.text()

    def _piece(self, path: str, offset: int, length: int) -> bytes:
        data = b""
        while len(data) < length:
            try:
                more = os.pread(self._open[path], length - len(data), offset + len(data))
            except OSError as error:
                raise local_error(error, "read", path) from error
            if not more:
                raise LocalError(f"cannot read {path}: it ends at byte {offset + len(data)}", path=path)
            data += more
        return data

    def _lock(self, path: str, until: float) -> None:
        """udev locks the whole disk, also for a partition."""
        whole = _whole_disk(self._machine, path) or path
        file = self._opened(whole, os.O_RDONLY)
        key = _key(os.fstat(file))
        if key in self._locks:
            os.close(file)
            return
        self._locks[key] = file
        if not self._retried(lambda: _try_lock(file), until):
            raise LockTimeout(f"another program has locked {whole} for {PATIENCE:g} s", path=path)

    def _claim(self, path: str, until: float) -> None:
        def attempt() -> bool:
            try:
                file = self._opened(path, os.O_RDONLY | os.O_EXCL)
            except LocalError as error:
                if error.errno == errno.EBUSY:
                    return False
                raise
            self._open[path] = file
            return True

        if not self._retried(attempt, until):
            raise LocalError(f"{path} is in use: it cannot be opened exclusively", path=path)
        file = self._open[path]
        if stat.S_ISBLK(os.fstat(file).st_mode):
            try:
                fcntl.ioctl(file, BLKFLSBUF, 0)
            except OSError as error:
                raise local_error(error, "read anew", path) from error

    def _opened(self, path: str, flags: int) -> int:
        try:
            file = os.open(self._machine.real(path), flags | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise local_error(error, "open", path) from error
        mode = os.fstat(file).st_mode
        if not stat.S_ISBLK(mode) and not stat.S_ISREG(mode):
            os.close(file)
            raise LocalError(f"{path} is not a block device", path=path)
        return file

    def _retried(self, attempt: Callable[[], bool], until: float) -> bool:
        while not attempt():
            if self._machine.clock.monotonic() >= until:
                return False
            self._machine.clock.sleep(PAUSE)
        return True


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _key(status: os.stat_result) -> tuple[int, int]:
    return (0, status.st_rdev) if stat.S_ISBLK(status.st_mode) else (status.st_dev, status.st_ino)


def _whole_disk(machine: Machine, path: str) -> str | None:
    """The disk that a partition is on; None for anything else."""
    try:
        status = os.stat(machine.real(path))
    except OSError as error:
        raise local_error(error, "open", path) from error
    if not stat.S_ISBLK(status.st_mode):
        return None
    place = f"/sys/dev/block/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    link = machine.read_link(place)
    if link is None or machine.stat(f"{place}/partition") is None:
        return None
    return "/dev/" + link.split("/")[-2].replace("!", "/")


# ---- NVMe

NVME_ID, NVME_ADMIN_COMMAND = 0x4E40, 0xC0484E41
IDENTIFY, IDENTIFY_LENGTH = 0x06, 4096


def identify_namespace(machine: Machine, path: str) -> bytes:
    """The answer of Identify Namespace, 4096 bytes. `path` is a namespace or a partition on one; needs root."""
    answer = array("B", bytes(IDENTIFY_LENGTH))
    try:
        device = os.open(machine.real(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            nsid = fcntl.ioctl(device, NVME_ID)
            fcntl.ioctl(device, NVME_ADMIN_COMMAND, _identify_command(nsid, answer.buffer_info()[0]))
        finally:
            os.close(device)
    except OSError as error:
        raise local_error(error, "identify", machine.shown(path)) from error
    return answer.tobytes()


def _identify_command(nsid: int, address: int) -> bytes:
    """The kernel's `struct nvme_passthru_cmd`, 72 bytes; fields that are not set are zero."""
    command = bytearray(72)
    command[0] = IDENTIFY
    command[4:8] = nsid.to_bytes(4, byteorder)
    command[24:32] = address.to_bytes(8, byteorder)
    command[36:40] = IDENTIFY_LENGTH.to_bytes(4, byteorder)
    return bytes(command)
