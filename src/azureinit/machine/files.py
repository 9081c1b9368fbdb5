"""System calls on files: links are followed only on request, and OSError becomes LocalError."""

from __future__ import annotations

import errno
import os
import select
import stat

from azureinit.errors import LocalError, NoSpace, ReadOnly

MOST_BYTES = 16 << 20  # of an account file: some hold a whole company's directory
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MAX_LINKS = 40
END = 2  # SEEK_END
# Attributes kept when a file is replaced: SELinux label, ACL, user attributes. Not integrity seals of the old content.
KEPT = ("security.selinux", "system.posix_acl_access", "user.")
SLOWEST_PIPE = 10.0  # seconds to wait for a pipe without a writer in a file's place
CDROM_DRIVE_STATUS, CDSL_CURRENT = 0x5326, 0x7FFFFFFF
CDROM_NOT_READY = (1, 2, 3)  # no disc, tray open, not ready yet


def local_error(error: OSError, doing: str, path: str) -> LocalError:
    kind = {errno.ENOSPC: NoSpace, errno.EDQUOT: NoSpace, errno.EROFS: ReadOnly}.get(error.errno or 0, LocalError)
    failure = kind(f"cannot {doing} {path}: {error.strerror or error}", path=path)
    failure.errno = error.errno or 0
    return failure


def temporary_path(path: str) -> str:
    """A name that readers of drop-in directories skip: hidden, not *.conf, with a trailing tilde (for sudo)."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.azure-init~"


def is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".azure-init~")


def inside(base: str, path: str, *, final: bool) -> str:
    """`path` with its links resolved as if `base` were the root."""
    pending = [part for part in path.split("/") if part not in ("", ".")][::-1]
    done: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        if part == "..":
            del done[-1:]
            continue
        here = "/".join(["", *done, part])
        if pending or final:
            try:
                target = os.readlink(base + here)
            except OSError:
                target = ""
            if target:
                links += 1
                if links > MAX_LINKS:
                    raise LocalError(f"too many links at {base}{path}", path=base + path)
                if target.startswith("/"):
                    done = []
                pending.extend([step for step in target.split("/") if step not in ("", ".")][::-1])
                continue
        done.append(part)
    return "/".join(["", *done])


def without_links(path: str) -> str:
    return os.path.realpath(path)


def open_beneath(base: str, below: str, path: str) -> tuple[int, str]:
    parts = [part for part in below.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise LocalError(f"cannot write {path}: it is outside its directory", path=path)
    directory = os.open(base, DIRECTORY)
    for part in parts[:-1]:
        try:
            deeper = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        finally:
            os.close(directory)
        directory = deeper
    return directory, parts[-1]


def read_file(
    real: str,
    path: str,
    limit: int,
    flags: int,
    directory: int | None = None,
    status: list[os.stat_result] | None = None,
) -> bytes | None:
    try:
        file = os.open(real, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=directory)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise local_error(error, "read", path) from error
    try:
        if status is not None:
            status.append(os.fstat(file))
        data = bytearray()
        while len(data) <= limit:
            try:
                more = os.read(file, min(limit + 1 - len(data), 1 << 16))
            except BlockingIOError:
                wait_for_pipe(file)
                continue
            if not more:
                return bytes(data)
            data += more
    except OSError as error:
        raise local_error(error, "read", path) from error
    finally:
        os.close(file)
    raise LocalError(f"cannot read {path}: it is larger than {limit} bytes", path=path)


def wait_for_pipe(file: int) -> None:
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    if not waiting.poll(SLOWEST_PIPE * 1000):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def list_names(real: str, path: str) -> tuple[str, ...] | None:
    try:
        return tuple(sorted(os.listdir(real)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise local_error(error, "list", path) from error


def make_directories(path: str, *, mode: int) -> list[str]:
    """Makes and returns the missing ones; only the last one gets the mode, the others 0777 and the umask."""
    above = path.rstrip("/").rpartition("/")[0]
    made = make_directories(above, mode=0o777) if above and not os.path.lexists(above) else []
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return made
    return [*made, path]


def create(name: str, directory: int | None) -> int:
    """Create a file with mode 0600. One left by a killed run is removed first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, 0o600, dir_fd=directory)
    except FileExistsError:
        os.unlink(name, dir_fd=directory)
        return os.open(name, flags, 0o600, dir_fd=directory)


def lstat(name: str, directory: int | None) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def copy_attributes(name: str, directory: int | None, new: int) -> None:
    """Copy the kept attributes, best effort: where SELinux is enabled, a later step restores labels."""
    try:
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return
    try:
        for attribute in os.listxattr(old):
            if attribute.startswith(KEPT):
                os.setxattr(new, attribute, os.getxattr(old, attribute))
    except OSError:
        pass
    finally:
        os.close(old)


def unlink(name: str, directory: int | None) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass


def close(directory: int | None) -> None:
    if directory is not None:
        os.close(directory)


def write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


class ImageFile:
    """A medium: a device or an image file, read at any offset."""

    def __init__(self, real: str, path: str) -> None:
        self.path = path
        try:
            # Non-blocking, or opening an empty drive waits for a disc.
            self.fd = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise local_error(error, "open", path) from error
        try:
            if stat.S_ISBLK(os.fstat(self.fd).st_mode):
                _check_medium(self.fd)
            self.size = os.lseek(self.fd, 0, END)
        except OSError as error:
            os.close(self.fd)
            raise local_error(error, "open", path) from error

    def read(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self.fd, length, offset)
        except OSError as error:
            raise local_error(error, "read", self.path) from error

    def close(self) -> None:
        os.close(self.fd)


def _check_medium(drive: int) -> None:
    """Ask an optical drive whether it holds a disc: reading an empty drive looks like a broken medium."""
    import fcntl

    try:
        status = fcntl.ioctl(drive, CDROM_DRIVE_STATUS, CDSL_CURRENT)
    except OSError:
        return  # not an optical drive
    if status in CDROM_NOT_READY:
        raise OSError(errno.ENOMEDIUM, os.strerror(errno.ENOMEDIUM))


class Appender:
    """A log or journal, open for appending."""

    def __init__(self, real: str, path: str, mode: int) -> None:
        self.path = path
        try:
            # Non-blocking, or a pipe in the log's place would hold up the boot.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            self.fd = os.open(real, flags, mode)
        except OSError as error:
            raise local_error(error, "write", path) from error

    def write(self, data: bytes, *, sync: bool = False) -> None:
        try:
            write_all(self.fd, data)
            if sync:
                os.fsync(self.fd)
        except OSError as error:
            raise local_error(error, "write", self.path) from error

    def close(self) -> None:
        os.close(self.fd)
