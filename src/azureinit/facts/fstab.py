"""/etc/fstab, and the mount points of temporary disks."""

from __future__ import annotations

import stat

from azureinit.errors import LocalError
from azureinit.facts.block_devices import device_path, join, read_names, resolve
from azureinit.facts.disk_use import mount_of, unescape
from azureinit.facts.temporary_disks import FstabEntry, MountPoint
from azureinit.machine.disk_use import is_writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.facts.block_devices import Blocks
    from azureinit.facts.disk_use import Mount
    from azureinit.machine import Machine

FSTAB = "/etc/fstab"
BY_LABEL = "/dev/disk/by-label"
UDEV, UDEV_LABEL = "/run/udev/data", "E:ID_FS_LABEL_ENC="
MOST_OF_UDEV = 1 << 20
MOST_LINKS = 40
AUTOFS = "autofs"
ABSENT, EMPTY, NOT_EMPTY, LINK, BELOW_LINK, NO_DIRECTORY, MOUNTED, HIDDEN = (
    "absent",
    "empty",
    "not empty",
    "a symbolic link",
    "below a symbolic link",
    "not a directory",
    "mounted",
    "hidden",
)


def parse_fstab(data: bytes) -> tuple[FstabEntry, ...]:
    """Lines without a mount point are skipped. Missing fields are empty."""
    found = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        fields = line.split()
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        point = unescape(fields[1])
        kind, options = (*fields[2:4], "", "")[:2]
        source = unescape(fields[0])
        found.append(FstabEntry(line=line, source=source, point=point, filesystem=kind, options=options))
    return tuple(found)


def is_fstab_writable(machine: Machine, table: tuple[Mount, ...]) -> bool:
    """Whether the file can be replaced: a file of the vendor, a read-only or immutable one, or a mounted one cannot."""
    try:
        if machine.vendor_target(FSTAB) is not None or any(mount.point == FSTAB for mount in table):
            return False
    except LocalError:
        return False
    return is_writable(machine, FSTAB) and is_writable(machine, FSTAB.rpartition("/")[0])


def read_point(
    machine: Machine, blocks: Blocks, table: tuple[Mount, ...], path: str, labels: Mapping[str, str]
) -> MountPoint:
    """Without entering an automount point: that would mount it, or wait for it. `labels`: by kernel name."""
    try:
        return _read_point(machine, blocks, table, path, labels)
    except LocalError:
        return MountPoint(path=path, state=HIDDEN)


def _read_point(
    machine: Machine, blocks: Blocks, table: tuple[Mount, ...], path: str, labels: Mapping[str, str]
) -> MountPoint:
    real, left, links = "", [part for part in path.split("/") if part not in ("", ".")], 0
    while left:
        part = left.pop(0)
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        here = f"{real}/{part}"
        mounted = _mounted_at(table, here)
        if mounted is not None and not left and not links:
            name = resolve(machine, blocks, mounted.source)
            label = labels.get(name) or _label(machine, blocks, name)
            source = device_path(name) if name else mounted.source
            return MountPoint(path=path, state=MOUNTED, source=source, label=label)
        if mounted is not None and mounted.filesystem == AUTOFS:
            return MountPoint(path=path, state=HIDDEN)
        target = machine.read_link(here)
        if target is not None and not left and not links:
            return MountPoint(path=path, state=LINK)
        if target is None:
            real = here
        elif links < MOST_LINKS:
            links += 1
            real, left = "", [*join(here, target)[1:].split("/"), *left]
        else:
            return MountPoint(path=path, state=HIDDEN)
    if links:  # the kernel's table of mounts has the other path, and so have systemd's units
        return MountPoint(path=path, state=BELOW_LINK, source=real or "/")
    return MountPoint(path=path, state=_state(machine, real or "/"))


def _mounted_at(table: tuple[Mount, ...], path: str) -> Mount | None:
    """The topmost mount of a place that is visible: a later mount above the place hides it."""
    found = mount_of(table, path)
    return found if found is not None and found.point == path else None


def _state(machine: Machine, path: str) -> str:
    found = machine.stat(path, follow=False)
    if found is None:
        above = path
        while (found := machine.stat(above or "/")) is None and above:
            above = above.rpartition("/")[0]
        return ABSENT if found is not None and stat.S_ISDIR(found.st_mode) else NO_DIRECTORY
    if not stat.S_ISDIR(found.st_mode):
        return NO_DIRECTORY
    return NOT_EMPTY if machine.names(path) else EMPTY


def _label(machine: Machine, blocks: Blocks, name: str) -> str:
    for label in read_names(machine, BY_LABEL) if name else ():
        if resolve(machine, blocks, f"{BY_LABEL}/{label}") == name:
            return _without_hexadecimal(label)
    return ""


def read_udev_labels(machine: Machine, blocks: Blocks) -> Iterable[tuple[str, str]]:
    """What LABEL= in fstab can name, also on disks that are not temporary: the device and its label."""
    for block in blocks.values():
        try:
            data = machine.read(f"{UDEV}/b{block.device}", limit=MOST_OF_UDEV) if block.device else None
        except LocalError:
            continue
        for line in (data or b"").decode("utf-8", "surrogateescape").split("\n"):
            if line.startswith(UDEV_LABEL):
                yield block.path, _without_hexadecimal(line[len(UDEV_LABEL) :])


def _without_hexadecimal(text: str) -> str:
    """udev writes a blank in a link's name as \\x20."""
    first, *rest = text.split("\\x")
    out = first.encode("utf-8", "surrogateescape")
    for piece in rest:
        try:
            out += bytes([int(piece[:2], 16)]) + piece[2:].encode("utf-8", "surrogateescape")
        except ValueError:
            out += b"\\x" + piece.encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")
