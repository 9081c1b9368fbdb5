"""Disks that customData names: what each is, who uses it and what it holds."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.facts.block_devices import partitions, read_blocks, read_number, read_text, resolve, whole_disks
from azureinit.facts.disk_content import Content, read_device
from azureinit.facts.disk_identity import read_signs
from azureinit.facts.disk_use import read_claim, read_disk_use, read_uses, read_writers, system_disks
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.facts.block_devices import Block, Blocks
    from azureinit.facts.disk_use import Uses
    from azureinit.machine import Machine

TOOLS = ("sfdisk", "wipefs", "mkswap")
MKFS = "mkfs."
NEW_UUID = "/proc/sys/kernel/random/uuid"
UNKNOWN_MOUNTS = "what is mounted is unknown: /proc/self/mountinfo is missing or empty"


class NamedPartition(Record):
    path: str
    number: int
    start: int
    size: int
    content: Content | None = None
    used: bool = False  # mounted, swap, or part of an array


class NamedDisk(Record):
    """One disk. All sizes are in bytes.

    `system`: why it is the operating system's; `temporary`: it is a temporary disk. The content of neither is read.
    `busy`: why it, or a partition of it, is in use. `trouble`: why it cannot be read.
    """

    path: str
    size: int
    sector: int = 512
    sequence: int = 0
    partitions: tuple[NamedPartition, ...] = ()
    content: Content | None = None
    system: str = ""
    temporary: bool = False
    read_only: bool = False
    busy: str = ""
    trouble: str = ""
    used: bool = False


class NamedDisks(Record):
    """`names`: the path of the device for each name in customData that a block device has. `disks`: those under them,
    by path; a partition is found in its disk."""

    names: tuple[tuple[str, str], ...] = ()
    disks: tuple[NamedDisk, ...] = ()
    tools: frozenset[str] = frozenset()
    fresh: tuple[str, ...] = ()  # new UUIDs


def read_named_disks(machine: Machine, names: Iterable[str], *, filesystems: Iterable[str] = ()) -> NamedDisks:
    """`names`: paths of devices. `filesystems`: whose tools are looked for."""
    blocks = read_blocks(machine)
    found = {name: resolve(machine, blocks, name) for name in dict.fromkeys(names)}
    wanted = {blocks[name].parent or name for name in found.values() if name}
    uses = read_uses(machine, blocks)
    system = system_disks(machine, blocks, uses)
    signs = read_signs(machine, blocks, system)
    known = {disk.name for disk in whole_disks(blocks)}
    disks = []
    for name in sorted(wanted):
        if name not in known and not name.startswith("loop"):
            continue
        sign = signs.get(name)
        disk = _read(machine, blocks, uses, blocks[name])
        if not uses.table:
            disk = replace(disk, trouble=UNKNOWN_MOUNTS)
        if name in system:
            disk = replace(disk, system=f"{system[name]} lies on it")
        elif sign is not None and not sign.why:
            disk = replace(disk, temporary=True)
        else:
            disk = _with_content(machine, disk)
        disks.append(disk)
    tools = (*TOOLS, *(f"{MKFS}{kind}" for kind in filesystems))
    return NamedDisks(
        names=tuple((name, blocks[kernel].path) for name, kernel in found.items() if kernel),
        disks=tuple(disks),
        tools=frozenset(tool for tool in tools if machine.find(tool)),
        fresh=tuple(dict.fromkeys(text for _ in range(8 + 2 * len(disks)) if (text := read_text(machine, NEW_UUID)))),
    )


def _read(machine: Machine, blocks: Blocks, uses: Uses, disk: Block) -> NamedDisk:
    use = read_disk_use(machine, blocks, uses, disk.name)
    parts = tuple(
        NamedPartition(
            path=part.path,
            number=part.number,
            start=part.start,
            size=part.size,
            used=bool(read_disk_use(machine, blocks, uses, part.name).busy),
        )
        for part in partitions(blocks, disk.name)
    )
    return NamedDisk(
        path=disk.path,
        size=disk.size,
        sector=disk.sector,
        sequence=read_number(machine, f"{disk.place}/diskseq") or 0,
        partitions=parts,
        read_only=disk.read_only,
        busy=use.busy,
        used=bool(use.busy),
    )


def _with_content(machine: Machine, disk: NamedDisk) -> NamedDisk:
    """With who claims it or writes to it. Something in use is never called blank."""
    if disk.trouble:
        return disk
    paths = (disk.path, *(part.path for part in disk.partitions))
    busy = disk.busy
    try:
        if not busy:
            busy = read_claim(machine, paths) or "; ".join(read_writers(machine, paths).values())
        content = _read_content(machine, disk.path, disk.size, busy=bool(busy))
        parts = tuple(
            replace(part, content=_read_content(machine, part.path, part.size, busy=bool(busy)))
            for part in disk.partitions
        )
    except LocalError as error:
        return replace(disk, busy=busy, trouble=error.message)
    return replace(disk, busy=busy, content=content, partitions=parts)


def _read_content(machine: Machine, path: str, size: int, *, busy: bool) -> Content:
    content = read_device(machine, path, size)
    return replace(content, blank=False, pristine_ntfs=False) if busy else content
