"""What rows of fstab that customData asks for are decided by: fstab itself, mounts, swap, the devices named."""

from __future__ import annotations

import stat

from azureinit.errors import LocalError
from azureinit.facts.block_devices import read_blocks, resolve
from azureinit.facts.disk_use import mount_of, read_uses
from azureinit.facts.fstab import FSTAB, parse_fstab
from azureinit.facts.path_safety import why_unsafe
from azureinit.facts.signatures import View, find_signatures
from azureinit.facts.temporary_disks import FstabEntry
from azureinit.machine.disk_use import free_bytes
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.facts.block_devices import Blocks
    from azureinit.facts.disk_use import Uses
    from azureinit.machine import Machine

MOST = 1 << 20
MEMORY = "/proc/meminfo"
SYSTEMD = "/run/systemd/system"
TOOLS = ("chattr", "fallocate", "mkswap", "mount", "swapon")
BY = {"LABEL=": "by-label", "UUID=": "by-uuid", "PARTLABEL=": "by-partlabel", "PARTUUID=": "by-partuuid"}
HEAD, SWAP_KINDS = 64 << 10, ("swap", "suspended system")
# What is where a swap file belongs. Unfinished: a file that begins with zeros.
NOTHING, SWAP, UNFINISHED, OTHER = "nothing", "swap", "unfinished", "something else"


class Found(Record):
    """A device by its name and the number of a partition. `path`: as a row of fstab names it; empty if it is no block
    device. `kernel`: the same without links."""

    name: str
    partition: str
    path: str = ""
    kernel: str = ""


class SwapFile(Record):
    path: str
    state: str = NOTHING
    problem: str = ""  # why it must not be made or used
    size: int = 0
    active: bool = False
    free: int | None = None  # bytes of the file system under it
    filesystem: str = ""
    memory: int | None = None  # bytes


class MountFacts(Record):
    fstab: bytes | None = None
    entries: tuple[FstabEntry, ...] = ()
    devices: tuple[Found, ...] = ()
    mounted: tuple[str, ...] = ()  # mount points
    points: tuple[str, ...] = ()  # of the mount points asked for, those that are directories
    unsafe: Mapping[str, str] = {}  # of the mount points asked for, those that must not be used, and why
    active_swaps: tuple[str, ...] = ()  # devices without links, and files
    swap: SwapFile | None = None
    tools: frozenset[str] = frozenset()
    systemd: bool = False


def read_mount_facts(
    machine: Machine, names: Iterable[tuple[str, str]], *, points: Iterable[str] = (), swap_file: str = ""
) -> MountFacts:
    """`names`: devices and partitions as customData names them. `points`: the mount points. `swap_file`: the path of a
    swap file, if one is asked for."""
    blocks = read_blocks(machine)
    uses = read_uses(machine, blocks)
    fstab = machine.read(FSTAB, limit=MOST)
    return MountFacts(
        fstab=fstab,
        entries=parse_fstab(fstab or b""),
        devices=tuple(_find(machine, blocks, name, number) for name, number in dict.fromkeys(names)),
        mounted=() if machine.rooted else tuple(mount.point for mount in uses.table),
        points=tuple(point for point in points if _is_dir(machine, point)),
        unsafe={point: why for point in points if point.startswith("/") and (why := why_unsafe(machine, point))},
        active_swaps=() if machine.rooted else uses.active_swaps,
        swap=_read_swap_file(machine, uses, swap_file) if swap_file else None,
        tools=frozenset(tool for tool in TOOLS if machine.find(tool)),
        systemd=not machine.rooted and machine.is_dir(SYSTEMD),
    )


def _is_dir(machine: Machine, path: str) -> bool:
    try:
        return path.startswith("/") and machine.is_dir(path)
    except LocalError:
        return False


def _find(machine: Machine, blocks: Blocks, name: str, number: str) -> Found:
    """As cloud-init looks: a partition by its number, the first partition of a disk that has any, the disk."""
    for tag, place in BY.items():
        if name.startswith(tag):
            kernel = resolve(machine, blocks, f"/dev/disk/{place}/{name[len(tag) :]}")
            return Found(name=name, partition=number, kernel=blocks[kernel].path if kernel else "")
    disk = resolve(machine, blocks, name)
    if not disk:
        return Found(name=name, partition=number)
    kernel = blocks[disk].path
    if blocks[disk].parent:  # a partition: the name stays as it is written
        return Found(name=name, partition=number, path="" if number else name, kernel="" if number else kernel)
    for suffix in (number or "1", f"p{number or '1'}", f"-part{number or '1'}"):
        part = resolve(machine, blocks, f"{name}{suffix}")
        if part and blocks[part].parent == disk:
            return Found(name=name, partition=number, path=f"{name}{suffix}", kernel=blocks[part].path)
    return Found(name=name, partition=number, path="" if number else name, kernel="" if number else kernel)


def _read_swap_file(machine: Machine, uses: Uses, path: str) -> SwapFile:
    directory = path.rpartition("/")[0] or "/"
    while directory != "/" and not machine.is_dir(directory):
        directory = directory.rpartition("/")[0] or "/"
    try:
        free: int | None = free_bytes(machine, directory)
    except LocalError:
        free = None
    mount = mount_of(uses.table, directory)
    state, size = _state(machine, path)
    return SwapFile(
        path=path,
        state=state,
        problem=why_unsafe(machine, path),
        size=size,
        active=not machine.rooted and path in uses.active_swaps,
        free=free,
        filesystem=mount.filesystem if mount is not None else "",
        memory=parse_memory(machine.read(MEMORY, limit=MOST) or b""),
    )


def parse_memory(data: bytes) -> int | None:
    """Bytes of memory, from /proc/meminfo."""
    for line in data.decode("ascii", "replace").split("\n"):
        words = line.split()
        if len(words) >= 2 and words[0] == "MemTotal:" and words[1].isdigit():
            return int(words[1]) * 1024
    return None


def _state(machine: Machine, path: str) -> tuple[str, int]:
    try:
        found = machine.stat(path, follow=False)
        if found is None:
            return NOTHING, 0
        if not stat.S_ISREG(found.st_mode):
            return OTHER, 0
        image = machine.open_image(path)
    except LocalError:
        return OTHER, 0
    try:
        head = image.read(0, HEAD)
    except LocalError:
        return OTHER, found.st_size
    finally:
        image.close()
    is_swap = any(one.kind in SWAP_KINDS for one in find_signatures(View(((0, head),)), found.st_size))
    return SWAP if is_swap else UNFINISHED if not head.strip(b"\0") else OTHER, found.st_size
