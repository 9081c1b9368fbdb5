"""What was changed and may not be on the disk yet, and how it gets there.

`Machine` notes every name that it changes and every file that it leaves unsynced. Before Ready those on the data
directory's file system are synced one by one, so that other programs' data is not waited for; every other file system
is synced whole, with one `syncfs`. The content of most files is synced when it is written, before the rename.
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
FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a link is followed: a host key may be one
VOLATILE = ("/run/", "/proc/", "/sys/", "/dev/")


class Unsynced:
    """Paths as this computer has them. Threads may add to it."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.directories: set[str] = set()
        # Anything may have changed: a program of somebody else ran, or a run of ours that died before it came to this.
        self.unknown = False

    def changed(self, real: str, *, content: bool = False) -> None:
        """A name in its directory; with `content` also what is in the file."""
        if real.startswith(VOLATILE):
            return
        self.directories.add(real.rpartition("/")[0] or "/")
        if content:
            self.files.add(real)


def sync_files(paths: tuple[str, ...]) -> None:
    """Their content; those that are not there are passed over."""
    _sync_all([(path, FILE) for path in paths])


def _sync_all(places: list[tuple[str, int]]) -> None:
    """At the same time: the file system's journal then writes them in one or two commits, not one after the other."""
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
        except LocalError:  # no more threads
            work(path, flags)
    if places:
        work(*places[0])
    for ended in begun:
        ended.wait()
    if failures:
        raise failures[0]


def sync_elsewhere(machine: Machine, path: str) -> None:
    """The names that were changed on other file systems than that one's, which keeps the order of its own changes."""
    own = _device(machine.real(path))
    elsewhere = [one for one in sorted(machine.unsynced.directories) if _device(one) not in (own, None)]
    _sync_all([(directory, DIRECTORY) for directory in elsewhere])


def make_durable(machine: Machine, anchor: str, *, also: tuple[str, ...] = ()) -> None:
    """Everything that was noted is on the disk afterwards. LocalError where it cannot be.

    `anchor`: a path on the file system whose files are synced one by one. `also`: where things that were not noted may
    lie, if there are any.
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
        return None  # gone meanwhile: the directory that it was in was noted, too


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


def _sync_file_system(file: int) -> None:
    """`posix` has no syncfs: where the C library cannot be called either, all file systems are synced."""
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
