"""Script directories: programs that run once, once for each VM, or at every boot."""

from __future__ import annotations

from stat import S_ISREG

from azureinit.facts.commands import Commands, read_environment
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

HEAD = 256  # bytes: as much of the first line as the kernel reads


class ScriptFile(Record):
    path: str
    executable: bool
    head: bytes


class Scripts(Record):
    files: tuple[ScriptFile, ...]
    commands: Commands


def read_scripts(machine: Machine, directories: tuple[str, ...]) -> Scripts:
    """Regular files, links followed; anything else there is ignored."""
    files = []
    for directory in directories:
        for name in sorted(machine.names(directory) or ()):
            path = f"{directory}/{name}"
            status = machine.stat(path)
            if status is None or not S_ISREG(status.st_mode):
                continue
            executable = bool(status.st_mode & 0o111)
            files.append(ScriptFile(path=path, executable=executable, head=_head(machine, path) if executable else b""))
    return Scripts(files=tuple(files), commands=Commands(env=read_environment(machine)))


def _head(machine: Machine, path: str) -> bytes:
    image = machine.open_image(path)
    try:
        return image.read(0, HEAD)
    finally:
        image.close()
