"""The directories from / to a file: which of them only root can change, and what makes the path unusable."""

from __future__ import annotations

import stat

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import stat_result

    from azureinit.machine import Machine

OTHERS_WRITE = 0o022  # a sticky bit protects existing names, not new ones


class Trail(Record):
    # The first directory that others than root can change: below it no link may be followed. None: only root can.
    beneath: str | None
    # The directories that exist.
    found: dict[str, stat_result]
    problem: str | None = None


def read_trail(machine: Machine, path: str, *, home: str | None) -> Trail:
    """`home`: a directory of the path that belongs to a user, or soon will."""
    beneath: str | None = None
    found: dict[str, stat_result] = {}
    for directory in directories_above(path):
        status = machine.stat(directory, follow=False)
        if status is None:
            break
        if beneath is None and stat.S_ISLNK(status.st_mode):
            # Root made this link. Its target may still lie in a directory of others.
            status = machine.stat(directory)
            through = _changeable(machine, directory)
            if status is None or through is not None:
                why = "is a dangling link" if status is None else f"leads through {through}, which others can change"
                return Trail(beneath=None, found={}, problem=f"{directory} {why}")
        if not stat.S_ISDIR(status.st_mode):
            return Trail(beneath=None, found={}, problem=f"{directory} is {kind(status.st_mode)}")
        found[directory] = status
        if beneath is None and (directory == home or not _is_trusted(machine, status)):
            beneath = directory
    return Trail(beneath=beneath or home, found=found)


def link_problem(machine: Machine, link: str) -> str | None:
    """Why a link in a directory of root's must not be followed."""
    through = _changeable(machine, link)
    return f"{link} leads through {through}, which others can change" if through is not None else None


def why_unsafe(machine: Machine, path: str) -> str:
    """Why a program must not be given a place: others than root can lead it elsewhere by a link. Empty if it may."""
    try:
        trail = read_trail(machine, path, home=None)
        if trail.problem is not None:
            return trail.problem
        status = machine.stat(path, follow=False)
        if status is None or not stat.S_ISLNK(status.st_mode):
            return ""
        if trail.beneath is not None:
            return f"{path} is a symbolic link in {trail.beneath}, which others can change"
        return link_problem(machine, path) or ""
    except (LocalError, UnicodeEncodeError):
        return ""  # it cannot be read: the program says why


def directories_above(path: str) -> list[str]:
    """From / to the file's own directory."""
    steps = parts(path)[:-1]
    return ["/", *("/" + "/".join(steps[: count + 1]) for count in range(len(steps)))]


def parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def normal(path: str) -> str:
    return "/" + "/".join(parts(path))


def path_problem(path: str) -> str | None:
    """Why a path cannot be used as it is."""
    shown = ascii(path[:100])
    if not path.startswith("/"):
        return f"{shown} is not an absolute path"
    if "\0" in path:
        return f"{shown} has a NUL in it"
    return f"{shown} has .. in it" if ".." in path.split("/") else None


def kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a directory" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a special file"


def _is_trusted(machine: Machine, status: stat_result) -> bool:
    """Without privileges the owner does not count: azure-init then has no rights that others lack."""
    return not status.st_mode & OTHERS_WRITE and (status.st_uid == 0 or not machine.privileged)


def _changeable(machine: Machine, link: str) -> str | None:
    """The first directory on the way to a link's target that others than root can change; not the target itself."""
    pending = parts(link)[::-1]
    done: list[str] = []
    while pending:
        part = pending.pop()
        if part == "..":
            del done[-1:]
            continue
        here = "/".join(("", *done, part))
        status = machine.stat(here, follow=False)
        if status is None:
            return None
        if stat.S_ISLNK(status.st_mode):
            target = machine.read_link(here) or ""
            if target.startswith("/"):
                done = []
            pending += parts(target)[::-1]
            continue
        if pending and not _is_trusted(machine, status):
            return here
        done.append(part)
    return None
