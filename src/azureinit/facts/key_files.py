"""The files of a user's keys: authorized_keys, the pieces that some distributions merge into it, and key pairs."""

from __future__ import annotations

import _stat as stat

from azureinit.errors import LocalError
from azureinit.facts.path_safety import directories_above, kind, normal, path_problem, read_trail
from azureinit.facts.ssh import DENIED
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.path_safety import Trail
    from azureinit.machine import Machine

PIECES = ".ssh/authorized_keys.d"
MOST_PIECES = 100


class Directory(Record):
    """A directory above a key file, below the home if it lies in one; mode None where it does not exist."""

    path: str
    mode: int | None = None
    uid: int | None = None


class KeysFile(Record):
    path: str
    # The home that it lies in, whose owner owns it. None for a file outside homes.
    home: str | None
    # The directory below which others than root can place links: no link is followed there.
    beneath: str | None
    directories: tuple[Directory, ...] = ()
    data: bytes | None = None
    mode: int | None = None
    uid: int | None = None
    # Why it cannot be written.
    problem: str | None = None
    # It cannot be read without privileges.
    hidden: bool = False

    @classmethod
    def absent(cls, path: str, home: str) -> KeysFile:
        """A file that does not exist, nor the directories above it."""
        problem = path_problem(home) or path_problem(path)
        path, base = normal(path), normal(home)
        inside = path.startswith(f"{base.rstrip('/')}/")
        way = [directory for directory in directories_above(path) if len(directory) > (len(base) if inside else 1)]
        return cls(
            path=path,
            home=base if inside else None,
            beneath=base if inside else None,
            directories=tuple(Directory(path=directory) for directory in way),
            problem=problem,
        )


def read_keys_files(machine: Machine, *, home: str, paths: tuple[str, ...]) -> tuple[KeysFile, ...]:
    return tuple(_read_keys_file(machine, KeysFile.absent(path, home)) for path in paths)


def _read_keys_file(machine: Machine, file: KeysFile) -> KeysFile:
    if file.problem is not None:
        return file
    try:
        trail = read_trail(machine, file.path, home=file.home)
        if trail.problem is not None:
            return replace(file, problem=trail.problem)
        if file.home is None and trail.beneath is not None:
            return replace(file, problem=f"{trail.beneath} can be changed by others than root")
        way = tuple(_directory(trail, directory.path) for directory in file.directories)
        return _with_content(machine, replace(file, beneath=trail.beneath, directories=way))
    except LocalError as error:
        return replace(file, problem=str(error), hidden=not machine.privileged and error.errno in DENIED)


def _directory(trail: Trail, path: str) -> Directory:
    found = trail.found.get(path)
    return Directory(path=path, mode=stat.S_IMODE(found.st_mode), uid=found.st_uid) if found else Directory(path=path)


def _with_content(machine: Machine, file: KeysFile) -> KeysFile:
    """Checked before it is opened, since opening a device has effects, and after it, since it could be swapped."""
    found = machine.stat(file.path, follow=False)
    if found is not None and not stat.S_ISREG(found.st_mode):
        return replace(file, problem=f"{file.path} is {kind(found.st_mode)}")
    opened = machine.read_with_status(file.path, beneath=file.beneath) if found is not None else None
    if opened is None:
        return file
    data, status = opened
    if not stat.S_ISREG(status.st_mode):
        return replace(file, problem=f"{file.path} is {kind(status.st_mode)}")
    if status.st_nlink != 1:
        # Another name may be a file that the user cannot read, and must not read through azure-init.
        return replace(file, problem=f"{file.path} has other names (hard links)")
    return replace(file, data=data, mode=stat.S_IMODE(status.st_mode), uid=status.st_uid)


class PairFile(Record):
    """One half of a key pair; `file` has all but its content."""

    file: KeysFile
    data: Secret | None = None


def read_pair_files(machine: Machine, *, home: str, paths: tuple[str, ...]) -> tuple[PairFile, ...]:
    return tuple(
        PairFile(file=replace(file, data=None), data=None if file.data is None else Secret(file.data))
        for file in read_keys_files(machine, home=home, paths=paths)
    )


def read_pieces(machine: Machine, home: str) -> tuple[str, ...]:
    """The names in the directory of pieces. Errors are reported when the pieces are read."""
    try:
        names = machine.names(f"{home.rstrip('/')}/{PIECES}") or ()
    except LocalError:
        return ()
    return tuple(name for name in names if not name.startswith("."))[:MOST_PIECES]


class AdminFiles(Record):
    """The files of the admin's keys, read once the admin's name is known."""

    keys_files: tuple[KeysFile, ...] = ()
    pair_files: tuple[PairFile, ...] = ()
    # The names in authorized_keys.d; read only where a program merges them.
    key_pieces: tuple[str, ...] = ()
