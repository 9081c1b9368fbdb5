"""Removal of directory trees, without following links and without leaving the file system."""

from __future__ import annotations

import errno
import os
import stat

from azureinit.errors import LocalError
from azureinit.machine.files import DIRECTORY, local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine


def remove_tree(machine: Machine, path: str) -> bool:
    """Remove a tree, a file or a link; True if it existed. If something cannot be removed, the rest still is."""
    path = path.rstrip("/")
    shown = machine.shown(path)
    directory, _, name = machine.real(path, final=False).rpartition("/")
    failures: list[LocalError] = []
    try:
        above = os.open(directory or "/", DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise local_error(error, "remove", shown) from error
    try:
        there = _remove(name, above, path=shown, device=os.fstat(above).st_dev, failures=failures)
    except RecursionError:
        raise LocalError(f"cannot remove {shown}: its directories are nested too deep", path=shown) from None
    finally:
        os.close(above)
    if there:
        machine.unsynced.changed(f"{directory}/{name}")
    if failures:
        raise failures[0]
    return there


def _remove(name: str, above: int, *, path: str, device: int, failures: list[LocalError]) -> bool:
    try:
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=above)
            return True
        if status.st_dev != device:
            raise OSError(errno.EBUSY, "something is mounted there")
        already = len(failures)
        here = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        try:
            for below in os.listdir(here):
                _remove(below, here, path=f"{path}/{below}", device=device, failures=failures)
        finally:
            os.close(here)
        if len(failures) == already:  # otherwise it is not empty, and the cause is recorded
            os.rmdir(name, dir_fd=above)
    except FileNotFoundError:
        return False
    except OSError as error:
        failures.append(local_error(error, "remove", path))
    return True
