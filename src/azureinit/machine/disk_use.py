"""Questions about the use of a device or a file system that only a system call answers."""

from __future__ import annotations

import errno
import os

from azureinit.machine.files import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine


def is_claimed(machine: Machine, path: str) -> str:
    """Why a device cannot be opened exclusively; empty if it can. It is opened for reading and closed at once."""
    try:
        device = os.open(machine.real(path), os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return "the kernel or another program has opened it exclusively"
        raise local_error(error, "open", machine.shown(path)) from error
    os.close(device)
    return ""


def is_writable(machine: Machine, path: str) -> bool:
    """False for a missing or immutable file, on a read-only file system or mount, and without permission."""
    return os.access(machine.real(path), os.W_OK)


def free_bytes(machine: Machine, path: str) -> int:
    """On the file system at `path`, for unprivileged users."""
    try:
        status = os.statvfs(machine.real(path))
    except OSError as error:
        raise local_error(error, "look at", machine.shown(path)) from error
    return status.f_bavail * status.f_frsize
