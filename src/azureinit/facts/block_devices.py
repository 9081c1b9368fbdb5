"""Block devices as sysfs has them: disks, partitions, and what is stacked on them (md, device mapper, loop devices).

sysfs is read defensively: a file that is missing, too long or not a number counts as absent.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.machine import Machine

    Blocks = Mapping[str, "Block"]

ALL = "/sys/class/block"
SECTOR = 512  # sysfs counts in sectors of 512 bytes, whatever the disk's are
LARGEST = 1 << 63  # bytes; the kernel's own limit
LONGEST = 4096  # bytes of a file in sysfs
MOST_LINKS = 8
STACKED = ("md", "dm-")
NO_DISKS = ("loop", "ram", "zram", "sr", "fd", *STACKED)


class Block(Record):
    """`place`: its directory in sysfs, without links. `parent`: the disk of a partition. All sizes are in bytes."""

    name: str
    place: str
    device: str = ""  # major:minor
    size: int = 0
    start: int = 0
    parent: str = ""
    number: int = 0  # of the partition
    sector: int = SECTOR
    read_only: bool = False
    hidden: bool = False  # one path of an NVMe namespace with several
    holders: tuple[str, ...] = ()
    slaves: tuple[str, ...] = ()
    mapped_name: str = ""  # device mapper's
    mapped_uuid: str = ""
    backing: str = ""  # of a loop device: the file or device under it

    @property
    def path(self) -> str:
        return device_path(self.name)

    @property
    def stacked(self) -> bool:
        return self.name.startswith(STACKED)


def device_path(name: str) -> str:
    return "/dev/" + name.replace("!", "/")


def read_blocks(machine: Machine) -> dict[str, Block]:
    """By kernel name."""
    names = read_names(machine, ALL)
    places = {name: read_place(machine, f"{ALL}/{name}") for name in names}
    by_place = {place: name for name, place in places.items()}
    return {name: _block(machine, name, place, by_place) for name, place in places.items()}


def read_place(machine: Machine, path: str) -> str:
    """The directory in sysfs that a link of sysfs leads to."""
    try:
        link = machine.read_link(path)
    except LocalError:
        link = None
    return path if link is None else "/sys/" + "/".join(part for part in link.split("/") if part not in ("", ".", ".."))


def _block(machine: Machine, name: str, place: str, by_place: Mapping[str, str]) -> Block:
    here = f"{ALL}/{name}"
    fields = ("size", "start", "partition", "ro", "hidden")
    numbers = {field: read_number(machine, f"{here}/{field}") for field in fields}
    mapped = name.startswith("dm-")
    return Block(
        name=name,
        place=place,
        device=read_text(machine, f"{here}/dev"),
        size=_bytes(numbers["size"]),
        start=_bytes(numbers["start"]),
        parent=by_place.get(place.rpartition("/")[0], ""),
        number=numbers["partition"] or 0,
        sector=read_number(machine, f"{here}/queue/logical_block_size") or SECTOR,
        read_only=bool(numbers["ro"]),
        hidden=bool(numbers["hidden"]),
        holders=read_names(machine, f"{here}/holders"),
        slaves=read_names(machine, f"{here}/slaves"),
        mapped_name=read_text(machine, f"{here}/dm/name") if mapped else "",
        mapped_uuid=read_text(machine, f"{here}/dm/uuid") if mapped else "",
        backing=read_text(machine, f"{here}/loop/backing_file") if name.startswith("loop") else "",
    )


def _bytes(sectors: int | None) -> int:
    size = (sectors or 0) * SECTOR
    return size if size < LARGEST else 0


def read_text(machine: Machine, path: str) -> str:
    """Empty if it cannot be read. Bytes that are not ASCII are replaced, so such a text equals no known one."""
    try:
        return (machine.read(path, limit=LONGEST) or b"").decode("ascii", "replace").strip(" \t\r\n\0")
    except LocalError:
        return ""


def read_number(machine: Machine, path: str) -> int | None:
    text = read_text(machine, path)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def read_names(machine: Machine, path: str) -> tuple[str, ...]:
    try:
        return machine.names(path) or ()
    except LocalError:
        return ()


def partitions(blocks: Blocks, name: str) -> tuple[Block, ...]:
    found = [block for block in blocks.values() if block.parent == name]
    return tuple(sorted(found, key=lambda block: (block.start, block.number, block.name)))


def above(machine: Machine, blocks: Blocks, name: str) -> tuple[str, ...]:
    """What is stacked on a disk: its partitions, arrays, mapped devices, loop devices, and what lies on those."""
    return _closure(name, lambda one: _directly_above(machine, blocks, one))


def _directly_above(machine: Machine, blocks: Blocks, name: str) -> set[str]:
    found = set(blocks[name].holders) if name in blocks else set()
    for block in blocks.values():
        on_loop = block.backing and resolve(machine, blocks, block.backing) == name
        if block.parent == name or name in block.slaves or on_loop:
            found.add(block.name)
    return found


def under(machine: Machine, blocks: Blocks, name: str) -> tuple[str, ...]:
    """The whole disks at the bottom of a device; the device itself if it is one. A disk on top of others counts too."""
    found = (name, *_closure(name, lambda one: _directly_under(machine, blocks, one)))
    return tuple(one for one in found if _is_whole(blocks, one) or not _directly_under(machine, blocks, one))


def _is_whole(blocks: Blocks, name: str) -> bool:
    block = blocks.get(name)
    return block is not None and not (block.stacked or block.parent or block.backing)


def _directly_under(machine: Machine, blocks: Blocks, name: str) -> set[str]:
    block = blocks.get(name)
    if block is None:
        return set()
    found = {*block.slaves, *(other.name for other in blocks.values() if name in other.holders)}
    if block.parent:
        found.add(block.parent)
    if block.backing:
        found.add(resolve(machine, blocks, block.backing))
    return found - {"", name}


def _closure(name: str, step: Step) -> tuple[str, ...]:
    found: dict[str, None] = {}
    left = [name]
    while left:
        new = sorted(one for one in step(left.pop(0)) if one not in found and one != name)
        found.update(dict.fromkeys(new))
        left += new
    return tuple(found)


def resolve(machine: Machine, blocks: Blocks, path: str) -> str:
    """The kernel name of a device by its path, through links, device mapper's name or its number; empty if unknown."""
    if not path.startswith("/dev/"):
        return ""
    try:
        followed = _follow(machine, path)
        name = followed[len("/dev/") :].replace("/", "!")
        if name in blocks:
            return name
        status = machine.stat(followed)
    except LocalError:
        return ""
    if followed.startswith("/dev/mapper/"):
        mapped = followed[len("/dev/mapper/") :]
        return next((block.name for block in blocks.values() if block.mapped_name == mapped), "")
    if status is None or not status.st_rdev:
        return ""
    device = f"{status.st_rdev >> 8 & 0xFFF}:{status.st_rdev & 0xFF | status.st_rdev >> 12 & 0xFFF00}"
    return by_number(blocks, device)


def by_number(blocks: Blocks, device: str) -> str:
    return next((block.name for block in blocks.values() if device and block.device == device), "")


def _follow(machine: Machine, path: str) -> str:
    for _ in range(MOST_LINKS):
        link = machine.read_link(path)
        if link is None:
            return path
        path = join(path, link)
    return path


def join(path: str, link: str) -> str:
    """Where a link at `path` leads to."""
    parts = [] if link.startswith("/") else path.split("/")[1:-1]
    for part in link.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def whole_disks(blocks: Blocks) -> Iterable[Block]:
    """Disks, in the order of their names; not loop devices, memory disks, optical drives or what is made of disks."""
    for name in sorted(blocks, key=_order):
        block = blocks[name]
        kind = name.rstrip("0123456789")
        is_other = kind in NO_DISKS or block.stacked or block.hidden or _is_path_of_nvme(name)
        if not block.parent and not is_other and not (kind == "nbd" and not block.size):
            yield block


def _order(name: str) -> list[tuple[int, str]]:
    """sdz before sdaa, nvme9n1 before nvme10n1."""
    runs: list[str] = []
    for letter in name:
        if runs and runs[-1][-1].isdigit() == letter.isdigit():
            runs[-1] += letter
        else:
            runs.append(letter)
    return [(len(run), run) for run in runs]


def _is_path_of_nvme(name: str) -> bool:
    """nvme0c1n1: one path of the namespace nvme0n1."""
    rest = name[len("nvme") :] if name.startswith("nvme") else ""
    return rest.lstrip("0123456789").startswith("c")


if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[str], set[str]]
