"""The parts of a recorded set, as the kernel has them: arrays, partitions of a disk or of an array, logical volumes."""

from __future__ import annotations

from azureinit.backends.array import SWAP_VOLUME, VOLUME, mapped_name
from azureinit.facts.temporary_disks import Partition, TemporaryDisk
from azureinit.plan.disk_judgement import has_table, in_the_way, is_member, same_uuid
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disk_content import Content
    from azureinit.facts.temporary_disks import Assembled, DiskFacts
    from azureinit.memory.disk_sets import DiskSet


class SwapArea(Record):
    """Where the swap beside the file system belongs. `trouble`: why nothing may be written there."""

    path: str
    size: int
    content: Content | None
    trouble: str = ""
    sequence: int = 0


def members_of(made: DiskSet, disks: tuple[TemporaryDisk, ...]) -> tuple[TemporaryDisk, ...]:
    """The disks of a set in its own order; empty if one is missing or has another size."""
    present = {disk.identity: disk for disk in disks}
    found = tuple(present[identity] for identity in made.members if identity in present)
    complete = len(found) == len(made.members) and tuple(disk.size for disk in found) == made.sizes
    return found if complete else ()


def data_number(made: DiskSet) -> int:
    """The number of the partition that is not the small swap partition."""
    return 2 if made.swap_partition_uuid else 1


def on_members(disks: tuple[TemporaryDisk, ...], facts: DiskFacts) -> tuple[Assembled, ...]:
    """Every array and volume that one of the disks is under; not their partitions."""
    names = {disk.name for disk in disks}
    return tuple(one for one in facts.assembled if names.intersection(one.members) and not one.parent)


def record_of(array: Assembled, disks: tuple[TemporaryDisk, ...], own: tuple[DiskSet, ...]) -> DiskSet | None:
    """The record of an array that the kernel has: the same disks, and each of them says that it is that member."""
    for made in own:
        members = members_of(made, disks)
        if made.aggregation == "none" or not members or {disk.name for disk in members} != {*array.members}:
            continue
        if made.aggregation == "mdadm" and not same_uuid(array.uuid, made.array_uuid):
            continue
        if all(is_member(disk, made, number) for number, disk in enumerate(members)):
            return made
    return None


def is_data(one: Assembled, made: DiskSet) -> bool:
    """Whether the set's file system belongs on it: on the array, on its partition, or on the volume of that name."""
    if made.table == "gpt":
        return bool(one.parent) and one.number == data_number(made)
    if made.aggregation == "lvm" and made.swap_uuid:
        return one.mapped == mapped_name(made.name, VOLUME)
    return not one.parent


def volume_named(name: str, made: DiskSet, arrays: tuple[Assembled, ...]) -> Assembled | None:
    return next((one for one in arrays if one.mapped == mapped_name(made.name, name)), None)


def as_disk(array: Assembled, facts: DiskFacts) -> TemporaryDisk:
    """An array with its partitions: what is written to it follows the rules of a partitioned disk."""
    inner = sorted((one for one in facts.assembled if one.parent == array.name), key=lambda one: one.number)
    parts = tuple(
        Partition(
            name=one.name,
            path=one.path,
            number=one.number,
            start=one.start,
            size=one.size,
            mounts=one.mounts,
            swaps=one.swaps,
            content=one.content,
        )
        for one in inner
    )
    return TemporaryDisk(
        name=array.name,
        path=array.path,
        kind="",
        identity="",
        size=array.size,
        evidence="",
        partitions=parts,
        mounts=array.mounts,
        swaps=array.swaps,
        busy=next((one.busy for one in (array, *inner) if one.busy), ""),
        content=array.content,
    )


def swap_area(made: DiskSet, disks: tuple[TemporaryDisk, ...], facts: DiskFacts) -> SwapArea | None:
    """The recorded one: the first partition, or the volume of that name. None where the kernel does not have it."""
    members = members_of(made, disks)
    arrays = [one for one in on_members(members, facts) if record_of(one, members, (made,)) is not None]
    if not members or (made.aggregation != "none" and not arrays):
        return None
    if made.aggregation == "lvm":
        volume = volume_named(SWAP_VOLUME, made, tuple(arrays))
        if volume is None:
            return None
        return SwapArea(path=volume.path, size=volume.size, content=volume.content, trouble=volume.busy)
    whole = as_disk(arrays[0], facts) if arrays else members[0]
    part = next((part for part in whole.partitions if part.number == 1), None)
    if part is None:
        return None
    trouble = in_the_way(whole)
    if not has_table(whole.content, made):
        trouble = trouble or f"the partition table of {whole.path} is not the recorded one"
    return SwapArea(path=part.path, size=part.size, content=part.content, trouble=trouble, sequence=whole.sequence)
