"""A new set: how its disks are combined, and the UUIDs that it gets. Only for disks that may be formatted."""

from __future__ import annotations

from azureinit.backends.array import LVM, MDADM
from azureinit.backends.filesystem import longest_label, tool_of
from azureinit.memory.disk_sets import DiskSet
from azureinit.plan.disk_goals import SWAP
from azureinit.plan.disk_judgement import (
    ARRAY,
    FILESYSTEM,
    TABLE,
    describe_content,
    in_the_way,
    is_blank,
    is_shipped_ntfs,
)
from azureinit.plan.disk_work import Work, seen, seen_inside
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import DiskFacts, TemporaryDisk
    from azureinit.plan.disk_goals import Goal

MIB = 1 << 20
TABLE_ROOM = 4 * MIB  # for the partition table, its copy and the alignment
MEMBER_ROOM, MD_SHARE = 8 * MIB, 512  # for an array's metadata on each disk, and for mdadm's reserve, a share of it


class Shape(Record):
    """`disks`: those that are used. `remark`: what is asked for and not done. `refused`: why nothing can be done."""

    disks: tuple[TemporaryDisk, ...]
    aggregation: str = "none"
    table: str = "none"
    swap_mib: int = 0  # of a swap partition
    remark: str = ""
    refused: str = ""


def shape_of(goal: Goal, facts: DiskFacts, settings: Disk) -> Shape:
    asked, several = settings.aggregation, len(goal.disks) > 1
    here = {"mdadm": MDADM in facts.tools, "lvm": LVM in facts.tools}
    if asked in here and not here[asked]:
        missing = MDADM if asked == "mdadm" else LVM
        return Shape(disks=goal.disks, refused=f"[disk] aggregation is {asked}, and {missing} is not installed")
    if asked == "auto":
        asked = next((one for one in ("mdadm", "lvm") if here[one]), "none") if several else "none"
    if not several or asked == "none":
        first = goal.disks[:1]
        unable = settings.aggregation == "auto" and several
        remark = "only the first disk is used: neither mdadm nor lvm2 is installed" if unable else ""
        return _with_table(Shape(disks=first, remark=remark), goal, settings)
    shape = Shape(disks=goal.disks, aggregation=asked)
    return _with_volume(shape, goal, settings) if asked == "lvm" else _with_table(shape, goal, settings)


def _with_table(shape: Shape, goal: Goal, settings: Disk) -> Shape:
    partition = bool(goal.swap_mib) and settings.swap == "partition"
    if settings.table != "gpt":
        remark = (
            "no swap partition is made: it needs [disk] table = gpt" if partition and goal.filesystem != SWAP else ""
        )
        return replace(shape, remark=shape.remark or remark)
    size = goal.swap_mib if partition else 0
    if size * MIB + TABLE_ROOM > _room(shape):
        return _too_small(shape, f"a swap partition of {size} MiB")
    return replace(shape, table="gpt", swap_mib=size)


def _with_volume(shape: Shape, goal: Goal, settings: Disk) -> Shape:
    """A table lies below the volumes, on each disk: the kernel does not read one inside a volume."""
    beside = bool(goal.swap_mib) and settings.swap == "partition" and goal.filesystem != SWAP
    size = goal.swap_mib if beside else 0
    cut = len(shape.disks) * TABLE_ROOM if settings.table == "gpt" else 0
    if size * MIB + TABLE_ROOM + cut > _room(shape):
        return _too_small(shape, f"a swap volume of {size} MiB")
    return replace(shape, swap_mib=size, table=settings.table)


def _room(shape: Shape) -> int:
    """Bytes that are there for the file system and swap; at least as many, for an array."""
    sizes = [disk.size for disk in shape.disks]
    if shape.aggregation == "none":
        return sizes[0]
    if shape.aggregation == "lvm":  # stripes are as long on every disk
        sizes = [min(sizes)] * len(sizes)
    return sum(size - size // MD_SHARE - MEMBER_ROOM for size in sizes)


def _too_small(shape: Shape, what: str) -> Shape:
    return replace(shape, refused=f"{what} does not fit on {' and '.join(disk.path for disk in shape.disks)}")


def missing_for(goal: Goal, shape: Shape, facts: DiskFacts, *, wipe: bool) -> str:
    """Why the set cannot be made here, before anything is written."""
    tools = [tool_of(goal.filesystem)]
    tools += ["sfdisk"] if shape.table == "gpt" else []
    tools += ["mkswap"] if shape.swap_mib else []
    tools += ["wipefs"] if wipe else []
    absent = [tool for tool in tools if tool not in facts.tools]
    if absent:
        return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"
    if len(goal.label.encode()) > longest_label(goal.filesystem):
        most = longest_label(goal.filesystem)
        return f"the label {goal.label} is longer than the {most} bytes that {goal.filesystem} allows"
    return ""


def new_work(
    goal: Goal, shape: Shape, settings: Disk, *, vm_id: str, fresh: Iterator[str], recreate: bool
) -> Work | None:
    """None where a disk may not be formatted."""
    trust = settings.trust_unreadable_ntfs
    shipped = [is_shipped_ntfs(disk, trust=trust) for disk in shape.disks]
    dirty = [disk for disk, ntfs in zip(shape.disks, shipped) if not ntfs and not is_blank(disk)]
    if dirty and (not recreate or any(in_the_way(disk) for disk in dirty)):
        return None
    table, array, lvm = shape.table == "gpt", shape.aggregation != "none", shape.aggregation == "lvm"
    what = TABLE if table and (lvm or not array) else ARRAY if array else FILESYSTEM
    beside = bool(shape.swap_mib) and goal.filesystem != SWAP
    made = DiskSet(
        purpose=goal.purpose,
        kind=goal.kind,
        vm_id=vm_id,
        members=tuple(disk.identity for disk in shape.disks),
        sizes=tuple(disk.size for disk in shape.disks),
        aggregation=shape.aggregation,
        table=shape.table,
        filesystem=goal.filesystem,
        label=goal.label,
        array_uuid=next(fresh) if array else "",
        table_uuid=next(fresh) if table else "",
        partition_uuid=next(fresh) if table else "",
        filesystem_uuid=next(fresh),
        begun=what,
        name=settings.md_name if array else "",
        over="data" if dirty else "ntfs" if any(shipped) else "",
        swap_mib=shape.swap_mib,
        swap_uuid=next(fresh) if beside else "",
        swap_partition_uuid=next(fresh) if beside and table and not lvm else "",
        chunk_kib=settings.chunk_kib if array else 0,
    )
    devices = [seen(disk) for disk in shape.disks]
    devices += [seen_inside(disk, disk.partitions[0]) for disk, ntfs in zip(shape.disks, shipped) if ntfs]
    return Work(
        what=what,
        made=made,
        disks=shape.disks,
        devices=tuple(devices),
        paths=tuple(disk.path for disk in shape.disks),
        new=True,
        again=bool(dirty) or any(shipped),
        wipe=tuple(disk.path for disk in shape.disks if not is_blank(disk)),
        destroys=tuple(f"{disk.path}: {describe_content(disk)}" for disk in dirty),
    )
