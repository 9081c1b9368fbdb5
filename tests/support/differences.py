"""A machine's disk, compared with its image and with itself: each file that differs, its mode, owner and content."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from re import compile as pattern

from support.installed import Disk

States = dict[str, str]
Contents = dict[str, tuple[str, bytes]]

# Changes that any boot of this system makes, and mounts of the platform.
OF_ANY_BOOT = pattern(
    r"/(etc|var)/\.updated|/etc/ld\.so\.cache|/etc/machine-id|/var/lib/dbus/machine-id|/var/cache/ldconfig(/.*)?"
    r"|/var/lib/(systemd|private|hyperv)(/.*)?|/var/log/(journal|private|[bw]tmp|lastlog|wtmp\.db)(/.*)?"
    r"|/var/(log|lib)/README|/(var/)?tmp/systemd-private-.*|.*/99-fakeazure\.toml|/(root/)?\.cache.*"
)


def differences(disk: Disk) -> Contents:
    """Each file of a machine that differs from its image: type, mode, owner and content."""
    found = {}
    users, groups = names(disk, "passwd"), names(disk, "group")
    for path in sorted(disk.layer.rglob("*")):
        inside = path.relative_to(disk.layer)
        name = f"/{inside}".replace(disk.vm_id, "VM")
        state = look(path, users, groups)
        older = next((old for layer in disk.lower if os.path.lexists(old := layer / inside)), None)
        if not OF_ANY_BOOT.fullmatch(name) and (older is None or look(older, users, groups) != state):
            found[name] = state
    return found


def look(path: Path, users: dict[int, str], groups: dict[int, str]) -> tuple[str, bytes]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return f"-> {path.readlink()}", b""
    if stat.S_ISCHR(status.st_mode):
        return "gone", b""
    kind, data = ("dir", b"") if path.is_dir() else ("file", path.read_bytes())
    owner = f"{users.get(status.st_uid, status.st_uid)}:{groups.get(status.st_gid, status.st_gid)}"
    return f"{kind} {stat.S_IMODE(status.st_mode):04o} {owner}", data


def names(disk: Disk, file: str) -> dict[int, str]:
    path = next(path for layer in (disk.layer, *disk.lower) if (path := layer / "etc" / file).exists())
    return {int(words[2]): words[0] for words in (line.split(":") for line in path.read_text().splitlines())}


def changes(before: Contents, after: Contents) -> States:
    """Files that are missing now are marked as removed."""
    changed = {path: state for path, (state, data) in after.items() if before.get(path) != (state, data)}
    return changed | {path: "gone" for path in before if path not in after}
