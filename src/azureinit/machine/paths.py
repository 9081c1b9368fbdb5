"""What `os` adds to the system calls, as far as we need it: loading the rest of it takes 2 ms of every start."""

from __future__ import annotations

import _stat as stat
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def mode_of(path: str, *, follow: bool = True) -> int:
    """Kind and permissions; 0 for what is not there, or where nobody lets us look."""
    try:
        return posix.stat(path, follow_symlinks=follow).st_mode
    except (OSError, ValueError):
        return 0


def is_there(path: str) -> bool:
    """Also a link that leads nowhere."""
    return bool(mode_of(path, follow=False))


def is_link(path: str) -> bool:
    return stat.S_ISLNK(mode_of(path, follow=False))


def is_regular(path: str) -> bool:
    return stat.S_ISREG(mode_of(path))


def is_directory(path: str) -> bool:
    return stat.S_ISDIR(mode_of(path))


def is_same(one: posix.stat_result, other: posix.stat_result) -> bool:
    return (one.st_ino, one.st_dev) == (other.st_ino, other.st_dev)


def make_directories(path: str, *, mode: int) -> list[str]:
    """Those that are missing, and are returned; only the last of them gets the mode, the others 0777 and the umask."""
    above = path.rstrip("/").rpartition("/")[0]
    made = make_directories(above, mode=0o777) if above and not is_there(above) else []
    try:
        posix.mkdir(path, mode)
    except FileExistsError:
        if not is_directory(path):
            raise
        return made
    return [*made, path]


def without_links(path: str) -> str:
    if path == "/":
        return path
    from posixpath import realpath

    return realpath(path)


def environment() -> Mapping[str, str]:
    """As it changes, where somebody has loaded what tells that."""
    loaded = sys.modules.get("os")
    if loaded is not None:
        environ: Mapping[str, str] = loaded.environ
        return environ
    return {_text(name): _text(value) for name, value in posix.environ.items()}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
