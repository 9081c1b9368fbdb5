"""The parts of a recorded set, as the kernel has them: arrays, partitions of a disk or of an array, logical volumes."""

from __future__ import annotations

from azureinit.backends.array import SWAP_VOLUME, VOLUME, mapped_name, numbered_uuid
from azureinit.facts.temporary_disks import Partition, TemporaryDisk
from azureinit.plan.disk_judgement import has_table, in_the_way, is_member, same_uuid
from azureinit.record import Record, replace

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


def is_cut_below(made: DiskSet) -> bool:
    """Each disk has a table of its own, and LVM's physical volumes are the partitions."""
    return made.aggregation == "lvm" and made.table == "gpt"


def member_table(made: DiskSet, number: int) -> DiskSet:
    """The set with the UUIDs of the table on that disk."""
    own = {name: numbered_uuid(getattr(made, name), number) for name in ("table_uuid", "partition_uuid")}
    return replace(made, **own)


def carrier(made: DiskSet, disk: TemporaryDisk, number: int) -> TemporaryDisk | None:
    """What the array's metadata belong on: the disk, or, as if it were one, the partition of the recorded table."""
    if not is_cut_below(made):
        return disk
    if [part.number for part in disk.partitions] != [1] or not has_table(disk.content, member_table(made, number)):
        return None
    part = disk.partitions[0]
    return replace(disk, path=part.path, size=part.size, content=part.content, partitions=())


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
        carriers = [carrier(made, disk, number) for number, disk in enumerate(members)]
        if all(one is not None and is_member(one, made, number) for number, one in enumerate(carriers)):
            return made
    return None


def idle_arrays(
    disks: tuple[TemporaryDisk, ...], facts: DiskFacts, own: tuple[DiskSet, ...], *, recreate: bool
) -> tuple[Assembled, ...]:
    """Arrays of these disks that do not run, and so hold nothing, but keep the disks in use.

    udev begins an array with the first member that it sees. Of a recorded set whose disks are all there; by `recreate`
    any.
    """
    names = {disk.name for disk in disks}
    found = []
    for one in facts.assembled:
        used = one.size or one.content is not None or one.mounts or one.swaps
        if used or one.parent or not one.name.startswith("md") or not names.issuperset(one.members) or not one.members:
            continue
        sets = [made for made in own if made.aggregation == "mdadm" and same_uuid(one.uuid, made.array_uuid)]
        ours = any({*one.members} <= {disk.name for disk in members_of(made, disks)} for made in sets)
        if ours or recreate:
            found.append(one)
    return tuple(found)


def is_data(one: Assembled, made: DiskSet) -> bool:
    """Whether the set's file system belongs on it: on the array, on its partition, or on the volume of that name."""
    if made.table == "gpt" and not is_cut_below(made):
        return bool(one.parent) and one.number == data_number(made)
    if made.aggregation == "lvm" and made.swap_uuid:
        return one.mapped == mapped_name(made.name, VOLUME)
    return not one.parent


def volume_named(name: str, made: DiskSet, arrays: tuple[Assembled, ...]) -> Assembled | None:
    return next((one for one in arrays if one.mapped == mapped_name(made.name, name)), None)


def group_volumes(made: DiskSet, disks: tuple[TemporaryDisk, ...]) -> frozenset[str] | None:
    """The logical volumes that the recorded group has by its metadata, active or not; None if that is not certain."""
    carriers = [carrier(made, disk, number) for number, disk in enumerate(members_of(made, disks))]
    contents = [one.content for one in carriers if one is not None and one.content is not None]
    signs = [sign for content in contents for sign in content.signatures if sign.kind == "lvm2"]
    if len(signs) != len(made.members) or any(sign.label != made.name for sign in signs):
        return None
    found = {sign.volumes for sign in signs}
    only = found.pop() if len(found) == 1 else None
    return None if only is None else frozenset(only)


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
        sequence=array.sequence,
        partitions=parts,
        mounts=tuple(dict.fromkeys(point for one in (array, *inner) for point in one.mounts)),
        swaps=tuple(dict.fromkeys(path for one in (array, *inner) for path in one.swaps)),
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
        mounted = f"{volume.path} is mounted at {' and '.join(volume.mounts)}" if volume.mounts else ""
        active = f"{volume.path} is in use as swap" if volume.swaps else ""
        trouble = volume.busy or mounted or active
        return SwapArea(
            path=volume.path, size=volume.size, content=volume.content, trouble=trouble, sequence=volume.sequence
        )
    whole = as_disk(arrays[0], facts) if arrays else members[0]
    part = next((part for part in whole.partitions if part.number == 1), None)
    if part is None:
        return None
    trouble = in_the_way(whole)
    if not has_table(whole.content, made):
        trouble = trouble or f"the partition table of {whole.path} is not the recorded one"
    return SwapArea(path=part.path, size=part.size, content=part.content, trouble=trouble, sequence=whole.sequence)
