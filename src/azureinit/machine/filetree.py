"""Files of the machine that is set up, by their paths as that machine sees them.

`/proc`, `/sys` and `/dev` are looked up under `kernel`, everything else under `root`; links resolve inside them. Errors
name the real path, with the root.
"""

from __future__ import annotations

import errno
import os
import stat

from azureinit.errors import LocalError
from azureinit.machine.durable import Unsynced
from azureinit.machine.files import (
    DIRECTORY,
    MOST_BYTES,
    Appender,
    ImageFile,
    close,
    copy_attributes,
    create,
    inside,
    list_names,
    local_error,
    lstat,
    make_directories,
    open_beneath,
    read_file,
    temporary_path,
    unlink,
    write_all,
)

KERNEL = ("/proc/", "/sys/", "/dev/")


class FileTree:
    def __init__(self, *, root: str, kernel: str) -> None:
        self.root = _base(root)
        self.kernel = _base(kernel)
        self.privileged = os.geteuid() == 0
        self.unsynced = Unsynced()
        self._known_ids: dict[str, tuple[int, int]] = {}

    @property
    def rooted(self) -> bool:
        """True if the files are not those of the running system: then its kernel and services are left alone."""
        return self.root != "/"

    # ---- reading

    def real(self, path: str, *, final: bool = True) -> str:
        """The real path. Links are resolved inside the root; the last component only if `final`."""
        if "\0" in path:
            raise LocalError(f"not a path: {path!r}")
        base = self._base_of(path)
        return path if base == "/" else base + inside(base, path, final=final)

    def shown(self, path: str) -> str:
        """The path as errors name it: with the root, links as they are."""
        base = self._base_of(path)
        return path if base == "/" else base + path

    def _base_of(self, path: str) -> str:
        return self.kernel if path.startswith(KERNEL) else self.root

    def read(self, path: str, *, limit: int = 1 << 20, beneath: str | None = None) -> bytes | None:
        """None if there is no such file. `beneath`: a directory of another user; no link below it is followed."""
        if beneath is None:
            return read_file(self.real(path), self.shown(path), limit, os.O_NONBLOCK)
        try:
            directory, name = self._place(path, beneath)
        except LocalError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        try:
            return read_file(name, self.shown(path), limit, os.O_NONBLOCK | os.O_NOFOLLOW, directory)
        finally:
            close(directory)

    def read_with_status(
        self, path: str, *, limit: int = 1 << 20, beneath: str | None = None
    ) -> tuple[bytes, os.stat_result] | None:
        """Content and status of the same open file, so that it cannot be swapped in between."""
        directory, name = self._place(path, beneath) if beneath is not None else (None, self.real(path))
        try:
            status: list[os.stat_result] = []
            follow = 0 if beneath is None else os.O_NOFOLLOW
            data = read_file(name, self.shown(path), limit, os.O_NONBLOCK | follow, directory, status)
            return None if data is None else (data, status[0])
        finally:
            close(directory)

    def read_host(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """A file named on the command line: never under the root."""
        return read_file(path, path, limit, os.O_NONBLOCK)

    def names(self, path: str) -> tuple[str, ...] | None:
        return list_names(self.real(path), self.shown(path))

    def names_host(self, path: str) -> tuple[str, ...] | None:
        return list_names(path, path)

    def stat(self, path: str, *, follow: bool = True) -> os.stat_result | None:
        try:
            return os.stat(self.real(path, final=follow), follow_symlinks=follow)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise local_error(error, "look at", self.shown(path)) from error

    def read_link(self, path: str) -> str | None:
        """A link's target; None if there is no link."""
        try:
            return os.readlink(self.real(path, final=False))
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                return None
            raise local_error(error, "read", self.shown(path)) from error

    def vendor_target(self, path: str) -> str | None:
        """The target of a link into /usr, which belongs to the vendor and is never written through."""
        if self.read_link(path) is None:
            return None
        followed = self.real(path)[len(self.root) :] if self.rooted else os.path.realpath(path)
        return followed if followed.startswith("/usr/") else None

    def is_dir(self, path: str) -> bool:
        found = self.stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def is_open(self, path: str) -> bool:
        """False for an existing path that this process may not read."""
        real = self.real(path)
        wanted = os.R_OK | os.X_OK if os.path.isdir(real) else os.R_OK
        return not os.path.lexists(real) or os.access(real, wanted)

    def is_file(self, path: str) -> bool:
        found = self.stat(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def open_image(self, path: str) -> ImageFile:
        real = self.real(path)
        if not path.startswith(KERNEL) and self.rooted and not os.path.lexists(real):
            real = path  # a medium named in the configuration is the running system's
        return ImageFile(real, self.shown(path) if real != path else path)

    # ---- changing files

    def write(
        self,
        path: str,
        data: bytes,
        *,
        mode: int | None = None,
        owner: str | None = None,
        beneath: str | None = None,
        sync: bool = True,
    ) -> None:
        """Replace a file atomically: write a temporary file beside it, sync, rename. Unset mode and owner are kept.

        `beneath`: a directory of another user; no link below it is followed. Without `sync` the file may not survive a
        power cut.
        """
        directory, name = self._place(path, beneath)
        temporary = temporary_path(name)
        try:
            before = lstat(name, directory)
            if before is not None and not stat.S_ISREG(before.st_mode):
                if beneath is not None or not stat.S_ISLNK(before.st_mode):
                    shown = self.shown(path)
                    raise LocalError(f"cannot write {shown}: it is not a regular file", path=shown)
                before = None
            file = create(temporary, directory)
            try:
                write_all(file, data)
                if self.privileged:
                    ids = self.owner_ids(owner) if owner else (before.st_uid, before.st_gid) if before else None
                    if ids:
                        os.fchown(file, *ids)
                if before:
                    copy_attributes(name, directory, file)
                wanted = mode if mode is not None else stat.S_IMODE(before.st_mode) if before else 0o644
                os.fchmod(file, wanted)
                if sync:
                    os.fsync(file)
            finally:
                os.close(file)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            self.unsynced.changed(self._seen(path, name, directory), content=not sync)
        except (OSError, LocalError) as error:
            try:
                unlink(temporary, directory)
            except OSError:
                pass  # report the first error; the next run removes the temporary file
            if isinstance(error, LocalError):
                raise
            raise local_error(error, "write", self.shown(path)) from error
        finally:
            close(directory)

    def keep(self, path: str, copy: str) -> None:
        """Keep the file at `path`, which is about to be replaced, under the name `copy` as well."""
        # A hard link to a symbolic link would show the new content, and its target may be on another file system: copy.
        found = self.read_with_status(path, limit=MOST_BYTES) if self.read_link(path) is not None else None
        name = self.real(copy, final=False)
        try:
            unlink(name, None)
            if found is None:
                os.link(self.real(path), name)
            self.unsynced.changed(name)
        except OSError as error:
            raise local_error(error, "write", self.shown(copy)) from error
        if found is not None:
            data, status = found
            self.write(copy, data, mode=stat.S_IMODE(status.st_mode), owner=f"{status.st_uid}:{status.st_gid}")

    def appender(self, path: str, *, mode: int = 0o600) -> Appender:
        return Appender(self.real(path, final=False), self.shown(path), mode)

    def make_dir(self, path: str, *, mode: int, owner: str | None = None, beneath: str | None = None) -> None:
        """Make a directory, or set mode and owner of an existing one. Its parent must exist."""
        directory, name = self._place(path, beneath) if beneath is not None else (None, self.real(path))
        try:
            try:
                os.mkdir(name, 0o700, dir_fd=directory)
            except FileExistsError:
                pass
            follow = 0 if beneath is None else os.O_NOFOLLOW
            made = os.open(name, DIRECTORY | follow, dir_fd=directory)
            self.unsynced.changed(self._seen(path, name, directory) + "/")  # its mode and owner
            self.unsynced.changed(self._seen(path, name, directory))
            try:
                if owner and self.privileged:
                    os.fchown(made, *self.owner_ids(owner))
                if stat.S_IMODE(os.fstat(made).st_mode) != mode:
                    os.fchmod(made, mode)
            finally:
                os.close(made)
        except OSError as error:
            raise local_error(error, "make directory", self.shown(path)) from error
        finally:
            close(directory)

    def make_dirs(self, path: str, *, mode: int) -> None:
        """Make every missing directory down to `path`. Existing ones are not changed."""
        try:
            for made in make_directories(self.real(path), mode=mode):
                self.unsynced.changed(made)
        except OSError as error:
            raise local_error(error, "make directory", self.shown(path)) from error

    def symlink(self, path: str, target: str, *, owner: str | None = None, beneath: str | None = None) -> None:
        directory, name = self._place(path, beneath) if beneath is not None else (None, self.real(path, final=False))
        try:
            unlink(name, directory)
            os.symlink(target, name, dir_fd=directory)
            if owner and self.privileged:
                os.chown(name, *self.owner_ids(owner), dir_fd=directory, follow_symlinks=False)
            self.unsynced.changed(self._seen(path, name, directory))
        except OSError as error:
            raise local_error(error, "make link", self.shown(path)) from error
        finally:
            close(directory)

    def remove(self, path: str) -> bool:
        """True if there was something to remove."""
        real = self.real(path, final=False)
        try:
            os.unlink(real)
            self.unsynced.changed(real)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise local_error(error, "remove", self.shown(path)) from error
        return True

    def owner_ids(self, owner: str) -> tuple[int, int]:
        """User and group id of `name`, `name:group` or numbers: from the target's files, then from the running
        system's.
        """
        if owner not in self._known_ids:
            from azureinit.machine.owners import find_ids

            user, _, group = owner.partition(":")
            uid, gid = find_ids(self, user, "/etc/passwd")
            self._known_ids[owner] = uid, find_ids(self, group, "/etc/group")[0] if group else gid
        return self._known_ids[owner]

    def _place(self, path: str, beneath: str | None) -> tuple[int | None, str]:
        """Where to make a name: an open directory and the name in it, or no directory and the real path."""
        try:
            if beneath is not None:
                return open_beneath(self.real(beneath), path[len(beneath) :], self.shown(path))
            real = self.real(path, final=False).rstrip("/")
            if os.path.islink(real):
                followed = self.real(path) if self.rooted else os.path.realpath(real)
                # A dangling link is replaced; any other one is followed, except into /usr.
                if os.path.isfile(followed) and self.vendor_target(path) is None:
                    real = followed
            return None, real
        except OSError as error:
            raise local_error(error, "write", self.shown(path)) from error

    def _seen(self, path: str, name: str, directory: int | None) -> str:
        """The real path of what `_place` found."""
        return name if directory is None else self.real(path, final=False)


def _base(path: str) -> str:
    return "/" + os.path.realpath(path).strip("/")
