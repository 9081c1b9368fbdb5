"""What a look at the disks of a goal finds: a finished volume, work to do, an array to start, or nothing of ours."""

from __future__ import annotations

from azureinit.plan.actions import Caution, Untouched
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.temporary_disks import Assembled, Partition, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.disk_layout import SwapArea


class Volume(Record):
    """A finished file system or swap area. `made`: its record, where there is one."""

    device: str
    disks: tuple[TemporaryDisk, ...]
    filesystem: str
    uuid: str
    label: str
    mounts: tuple[str, ...] = ()
    made: DiskSet | None = None


class Work(Record):
    """What is to be written next, on exactly these devices as they were seen. `made`: as it is recorded now.

    `new`: the set is not recorded yet. `again`: interrupted work of our own is overwritten. `wipe`: disks whose
    signatures are removed first. `destroys`: what an operator asked to destroy. `partly`: the volume group exists, and
    a volume of it is missing.
    """

    what: str
    made: DiskSet
    disks: tuple[TemporaryDisk, ...]
    devices: tuple[Untouched, ...]
    paths: tuple[str, ...]
    new: bool = False
    again: bool = False
    wipe: tuple[str, ...] = ()
    destroys: tuple[str, ...] = ()
    partly: bool = False


class Assembly(Record):
    """The array is complete, and the kernel does not have it yet. `array`: it has that, but not all of its parts."""

    made: DiskSet
    disks: tuple[TemporaryDisk, ...]
    array: str = ""


class Left(Record):
    """Nothing of ours is on the disks."""


class Found(Record):
    """`others`: disks of the goal that are left alone, each with its reason."""

    state: Volume | Work | Assembly | Left
    others: tuple[tuple[TemporaryDisk, str], ...] = ()


# ---- devices as they were seen


def seen(disk: TemporaryDisk) -> Untouched:
    content = disk.content
    regions, digest = (content.regions, content.digest) if content is not None else ((), "")
    return Untouched(path=disk.path, size=disk.size, regions=regions, digest=digest, sequence=disk.sequence)


def seen_inside(disk: TemporaryDisk, part: Partition) -> Untouched:
    """A partition's bytes at their places on the disk: the disk and its partition cannot both be opened exclusively."""
    content = part.content
    regions, digest = (content.regions, content.digest) if content is not None else ((), "")
    shifted = tuple((part.start + offset, length) for offset, length in regions)
    return Untouched(path=disk.path, size=disk.size, regions=shifted, digest=digest, sequence=disk.sequence)


def seen_part(part: Partition | Assembled | SwapArea, *, sequence: int) -> Untouched:
    """A partition, an array or a volume. `sequence`: its own, or of the disk or array under a partition."""
    content = part.content
    regions, digest = (content.regions, content.digest) if content is not None else ((), "")
    return Untouched(path=part.path, size=part.size, regions=regions, digest=digest, sequence=sequence)


def left_alone(disk: TemporaryDisk, why: str) -> Caution:
    return Caution(name=disk.path, why=f"left alone: {why}")
