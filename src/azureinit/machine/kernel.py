"""Operations of the running kernel: host name, settings, optical drive, a private mount, the lock of a run."""

from __future__ import annotations

import fcntl
import os
from sys import byteorder

from azureinit.errors import LocalError, LockTimeout
from azureinit.machine.files import local_error
from azureinit.machine.sockets import sethostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine

CDROM_LOCKDOOR, CDROM_EJECT = 0x5329, 0x5309
XFS_GEOMETRY = 0x80705864
MOUNT_POINT = "/run/azure-init/media"
# In a separate mount namespace, so that a killed agent leaves nothing mounted.
MOUNT_AND_READ = 'mount -t udf,iso9660 -o "$4" "$1" "$2" && cat "$2/$3"'
MOUNT_TIMEOUT = 30.0


def set_hostname(name: str) -> None:
    try:
        sethostname(name)
    except OSError as error:
        raise local_error(error, "set", "the kernel's host name") from error


def architecture() -> str:
    return os.uname().machine


def write_in_place(machine: Machine, path: str, data: bytes) -> None:
    """Write to a file of /proc or /sys: never created, never replaced, one write call."""
    try:
        file = os.open(machine.real(path), os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.write(file, data)
        finally:
            os.close(file)
    except OSError as error:
        raise local_error(error, "write", machine.shown(path)) from error


def xfs_size(machine: Machine, mount: str) -> int | None:
    """Size in bytes as the kernel has it; the superblock on the device may be older. None if it is not XFS."""
    try:
        file = os.open(machine.real(mount), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            geometry = fcntl.ioctl(file, XFS_GEOMETRY, bytes(112))
        finally:
            os.close(file)
    except OSError:
        return None
    return int.from_bytes(geometry[:4], byteorder) * int.from_bytes(geometry[32:40], byteorder)


def eject(machine: Machine, device: str, *, timeout: float) -> None:
    """Eject with a time limit: a drive that does not answer blocks only a thread."""
    from azureinit.machine.threads import start

    failures: list[OSError] = []

    def work() -> None:
        try:
            drive = os.open(machine.real(device), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                try:
                    fcntl.ioctl(drive, CDROM_LOCKDOOR, 0)
                except OSError:
                    pass  # many drives cannot be locked, and they eject
                fcntl.ioctl(drive, CDROM_EJECT)
            finally:
                os.close(drive)
        except OSError as error:
            failures.append(error)

    if not machine.clock.wait(start(work).wait, timeout):
        raise LocalError(f"cannot eject {device}: no answer within {timeout:g} s", path=device)
    if failures:
        raise local_error(failures[0], "eject", device)


def mount_and_read(machine: Machine, device: str, name: str, *, limit: int) -> bytes | None:
    if not machine.privileged:
        raise LocalError(f"cannot mount {device}: it needs root", path=device)
    options = "ro,nosuid,nodev,noexec" + ("" if device.startswith("/dev/") else ",loop")
    machine.make_dirs(MOUNT_POINT, mode=0o700)
    script = ("sh", "-c", MOUNT_AND_READ, "sh", machine.real(device), machine.real(MOUNT_POINT), name, options)
    ran = machine.run(("unshare", "--mount", *script), timeout=MOUNT_TIMEOUT).check()
    if len(ran.out) > limit:
        raise LocalError(f"cannot read {name} on {device}: it is larger than {limit} bytes", path=device)
    return ran.out


def hold(machine: Machine, path: str, *, timeout: float, note: bytes = b"") -> bytes:
    """Lock the file, replace its content with `note`, and return the last holder's note."""
    try:
        file = os.open(machine.real(path, final=False), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise local_error(error, "lock", machine.shown(path)) from error
    until = machine.clock.monotonic() + timeout
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if machine.clock.monotonic() >= until:
                os.close(file)
                shown = machine.shown(path)
                raise LockTimeout(f"another azure-init has held {shown} for {timeout:g} s", path=shown) from None
            machine.clock.sleep(0.1)
        else:
            return _exchange(file, note)


def try_lock(machine: Machine, path: str) -> Callable[[], None] | None:
    """Lock the file for a moment. Returns the function that unlocks it; None where another process holds it."""
    try:
        file = os.open(machine.real(path, final=False), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise local_error(error, "lock", machine.shown(path)) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return lambda: os.close(file)


def _exchange(file: int, note: bytes) -> bytes:
    """Best effort: the lock is held even if the note cannot be read or written."""
    try:
        before = os.pread(file, 4096, 0)
        if before != note:
            os.ftruncate(file, 0)
            os.pwrite(file, note, 0)
    except OSError:
        return b""
    return before
