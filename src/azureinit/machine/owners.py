"""User and group ids by name: from the target's account files, then from the running system's name service."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.machine.files import MOST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine.filetree import FileTree


def find_ids(machine: FileTree, name: str, file: str) -> tuple[int, int]:
    """The id, and that of the user's primary group."""
    if name.isdigit():
        return int(name), int(name)
    prefix = name.encode() + b":"
    for line in (machine.read(file, limit=MOST_BYTES) or b"").split(b"\n"):
        fields = line.split(b":")
        if line.startswith(prefix) and len(fields) >= 4 and fields[2].isdigit():
            return int(fields[2]), int(fields[3]) if fields[3].isdigit() else int(fields[2])
    if not machine.rooted:
        import grp
        import pwd

        try:
            if file == "/etc/group":
                return grp.getgrnam(name).gr_gid, 0
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
        except KeyError:
            pass
    raise LocalError(f"no {name} in {machine.shown(file)}", path=machine.shown(file))
