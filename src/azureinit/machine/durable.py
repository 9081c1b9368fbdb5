"""Durability: which changed files and directories may not be on the disk yet, and syncing them.

`Machine` records every name that it changes and every file that it leaves unsynced. Before Ready, those on the data
directory's file system are synced one by one, which does not wait for other programs' data; every other file system is
synced with one `syncfs`. The content of most files is synced when it is written, before the rename.
"""

from __future__ import annotations

import errno
import os

from azureinit.errors import LocalError
from azureinit.machine.files import DIRECTORY, local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)  # some network file systems, for a directory
FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # links are followed: a host key may be a link
VOLATILE = ("/run/", "/proc/", "/sys/", "/dev/")


class Unsynced:
    """Real paths, recorded by any thread."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.directories: set[str] = set()
        # Unrecorded changes are possible: another program ran, or an earlier run died before its sync.
        self.unknown = False

    def changed(self, real: str, *, content: bool = False) -> None:
        """Record a changed directory entry; with `content` also the file's content."""
        if real.startswith(VOLATILE):
            return
        self.directories.add(real.rpartition("/")[0] or "/")
        if content:
            self.files.add(real)


def sync_files(paths: tuple[str, ...]) -> None:
    """Sync the content of files. Missing files are skipped."""
    _sync_all([(path, FILE) for path in paths])


def _sync_all(places: list[tuple[str, int]]) -> None:
    """Sync in parallel: the file system then needs one or two journal commits instead of one for each file."""
    from azureinit.machine.threads import start

    failures: list[LocalError] = []

    def work(path: str, flags: int) -> None:
        try:
            _sync(path, flags)
        except LocalError as error:
            failures.append(error)

    begun = []
    for path, flags in places[1:]:
        try:
            begun.append(start(lambda path=path, flags=flags: work(path, flags)))  # type: ignore[misc]
        except LocalError:  # thread limit reached
            work(path, flags)
    if places:
        work(*places[0])
    for ended in begun:
        ended.wait()
    if failures:
        raise failures[0]


def sync_elsewhere(machine: Machine, path: str) -> None:
    """Sync the changed directories on other file systems than that of `path`, which keeps its own changes in order."""
    own = _device(machine.real(path))
    elsewhere = [one for one in sorted(machine.unsynced.directories) if _device(one) not in (own, None)]
    _sync_all([(directory, DIRECTORY) for directory in elsewhere])


def make_durable(machine: Machine, anchor: str, *, also: tuple[str, ...] = ()) -> None:
    """Sync everything that was recorded. LocalError if that fails.

    `anchor`: a path on the file system whose files are synced one by one. `also`: paths on file systems that unrecorded
    changes may be on.
    """
    noted, machine.unsynced = machine.unsynced, Unsynced()
    own = None if noted.unknown else _device(machine.real(anchor))
    places = {*noted.directories, *(machine.real(path) for path in (anchor, *also) if noted.unknown)}
    devices = {path: _device(path) for path in sorted(places)}
    mine = [(path, FILE) for path in sorted(noted.files) if own is not None and _device(path) == own]
    mine += [(path, DIRECTORY) for path, device in devices.items() if device is not None and device == own]
    _sync_all(mine)
    others = {device: path for path, device in devices.items() if device not in (None, own)}
    for path in others.values():
        _sync(path, DIRECTORY, whole=True)


def _device(path: str) -> int | None:
    try:
        return os.stat(path, follow_symlinks=False).st_dev
    except OSError:
        return None  # deleted meanwhile: its directory is recorded too


def _sync(path: str, flags: int, *, whole: bool = False) -> None:
    try:
        file = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise local_error(error, "sync", path) from error
    try:
        if whole:
            _sync_file_system(file)
        else:
            os.fsync(file)
    except OSError as error:
        if error.errno not in UNABLE:
            raise local_error(error, "sync", path) from error
    finally:
        os.close(file)


def load_syncfs() -> None:
    """Import what a later `make_durable` may need, 3 ms, while this process has nothing else to do."""
    try:
        import ctypes  # noqa: F401
    except ImportError:
        pass  # `_sync_file_system` does without it


def _sync_file_system(file: int) -> None:
    """Python has no syncfs: call the C library's, or sync all file systems if that is impossible."""
    try:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        syncfs = library.syncfs
    except (ImportError, OSError, AttributeError):
        os.sync()
        return
    if syncfs(file):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
