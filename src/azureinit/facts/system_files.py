"""Files that modules of a cloud-config write: what is in their place, and the tools and accounts that they need."""

from __future__ import annotations

import stat
from errno import EACCES

from azureinit.errors import LocalError
from azureinit.facts.distros import Distro, choose_distro, read_release
from azureinit.facts.host import Host, read_host
from azureinit.facts.path_safety import directories_above, kind, link_problem, read_trail
from azureinit.machine import TOOLS
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.machine import Machine

MOST_BYTES = 64 << 20  # of a file that is compared or appended to


class Target(Record):
    """The place of a file."""

    path: str
    # Why it cannot be written; empty if it can.
    problem: str = ""
    # The first directory that others than root can change: below it no link is followed.
    beneath: str | None = None
    # Directories that have to be made, the highest one first.
    missing: tuple[str, ...] = ()
    # None: there is no file. Also None, with `large`, for one of more than MOST_BYTES.
    content: Secret | None = None
    large: bool = False
    link: str | None = None
    mode: int = 0
    uid: int = 0
    gid: int = 0

    @property
    def exists(self) -> bool:
        return self.content is not None or self.large

    @property
    def data(self) -> bytes | None:
        return self.content.reveal() if self.content is not None else None


class SystemFiles(Record):
    host: Host
    files: Mapping[str, Target]
    # Those of the tools that were asked for that are installed: a name, or a path.
    tools: frozenset[str] = frozenset()
    # Ids of those names that exist.
    users: Mapping[str, int] = {}
    groups: Mapping[str, int] = {}


def read_system_files(
    machine: Machine,
    *,
    files: Iterable[str] = (),
    tools: Iterable[str] = (),
    users: Iterable[str] = (),
    groups: Iterable[str] = (),
) -> SystemFiles:
    return SystemFiles(
        host=read_host(machine),
        files={path: read_target(machine, path) for path in files},
        tools=frozenset(tool for tool in tools if is_installed(machine, tool)),
        users={name: ids[0] for name in users if (ids := _ids(machine, name))},
        groups={name: ids[1] for name in groups if (ids := _ids(machine, f"0:{name}"))},
    )


def read_distro(machine: Machine) -> Distro:
    return choose_distro(read_release(machine))


def is_installed(machine: Machine, tool: str) -> bool:
    """In the tree, if the machine is one: not on the system that the program runs on."""
    if tool.startswith("/"):
        return machine.is_file(tool)
    if machine.rooted:
        return any(machine.is_file(f"{directory}/{tool}") for directory in TOOLS)
    return machine.find(tool) is not None


def read_target(machine: Machine, path: str) -> Target:
    try:
        return _read_target(machine, path)
    except UnicodeEncodeError:
        return Target(path=path, problem="it is not a path")
    except LocalError as error:
        if error.errno == EACCES and not machine.privileged:
            return Target(path=path)  # a plan that is only shown: root would see the file
        return Target(path=path, problem=str(error))


def _read_target(machine: Machine, path: str) -> Target:
    if path == "/":
        return Target(path=path, problem="/ is a directory")
    trail = read_trail(machine, path, home=None)
    if trail.problem is not None:
        return Target(path=path, problem=trail.problem)
    missing = tuple(directory for directory in directories_above(path) if directory not in trail.found)
    found = None if missing else machine.stat(path, follow=False)
    if found is None:
        return Target(path=path, beneath=trail.beneath, missing=missing)
    link = None
    if stat.S_ISLNK(found.st_mode):
        link = machine.read_link(path)
        if trail.beneath is not None:
            why = f"{path} is a symbolic link in {trail.beneath}, which others can change: it is not followed"
            return Target(path=path, problem=why)
        followed = machine.stat(path)  # first: it refuses links that lead back to themselves
        problem = link_problem(machine, path)
        if problem is not None:
            return Target(path=path, problem=problem)
        if followed is None:  # it is replaced by a file
            return Target(path=path, link=link)
        found = followed
    if not stat.S_ISREG(found.st_mode):
        return Target(path=path, problem=f"{path} is {_kind(found.st_mode)}, not a file", link=link)
    large = found.st_size > MOST_BYTES
    content = None if large else machine.read(path, limit=MOST_BYTES, beneath=trail.beneath)
    return Target(
        path=path,
        beneath=trail.beneath,
        content=None if content is None else Secret(content),
        large=large,
        link=link,
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
    )


def _kind(mode: int) -> str:
    return "a device" if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else kind(mode)


def _ids(machine: Machine, owner: str) -> tuple[int, int] | None:
    try:
        return machine.owner_ids(owner)
    except (LocalError, UnicodeEncodeError):
        return None
