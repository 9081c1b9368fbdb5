"""What the goal's disks hold: a volume to use, work of our own to go on with, disks to format, or data of others."""

from __future__ import annotations

from azureinit.plan.actions import Caution, Untouched
from azureinit.plan.disk_goals import SWAP
from azureinit.plan.disk_judgement import (
    ARRAY,
    FILESYSTEM,
    TABLE,
    describe_content,
    finished_on,
    has_no_signature,
    has_only,
    has_table,
    holds_nothing,
    in_the_way,
    is_blank,
    is_member,
    is_pristine,
    is_shipped_ntfs,
    same_uuid,
)
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.disk_content import Content
    from azureinit.facts.temporary_disks import Assembled, DiskFacts, Partition, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.disk_goals import Goal


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
    signatures are removed first. `destroys`: what an operator asked to destroy.
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


class Assembly(Record):
    """The array is complete, and the kernel does not have it yet."""

    made: DiskSet
    disks: tuple[TemporaryDisk, ...]


class Left(Record):
    """Nothing of ours is on the disks."""


class Found(Record):
    """`others`: disks of the goal that are left alone, each with its reason."""

    state: Volume | Work | Assembly | Left
    others: tuple[tuple[TemporaryDisk, str], ...] = ()


def find(goal: Goal, facts: DiskFacts, sets: tuple[DiskSet, ...], settings: Disk) -> Found:
    """`Left`: a new set may be made if `others`, the disks that are not blank, is empty."""
    own = tuple(one for one in sets if one.kind == goal.kind)
    volumes = _volumes(goal, facts, own)
    if volumes:
        volumes.sort(key=lambda volume: (goal.point not in volume.mounts or not goal.point, volume.made is None))
        used = {disk.name for disk in volumes[0].disks}
        return Found(state=volumes[0], others=_others(goal, used, f"{volumes[0].device} is used"))
    for made in own:
        if (made.filesystem == SWAP) != (goal.filesystem == SWAP):
            continue  # what is asked for has changed
        disks = members_of(made, goal.disks)
        state = _unfinished(made, disks, facts, trust=settings.trust_unreadable_ntfs) if disks else None
        if state is not None:
            return Found(state=state, others=_others(goal, {disk.name for disk in disks}, "it is not part of that set"))
    return Found(state=Left(), others=_not_blank(goal, settings))


def members_of(made: DiskSet, disks: tuple[TemporaryDisk, ...]) -> tuple[TemporaryDisk, ...]:
    """The disks of a set in its own order; empty if one is missing or has another size."""
    present = {disk.identity: disk for disk in disks}
    found = tuple(present[identity] for identity in made.members if identity in present)
    complete = len(found) == len(made.members) and tuple(disk.size for disk in found) == made.sizes
    return found if complete else ()


def _others(goal: Goal, used: set[str], why: str) -> tuple[tuple[TemporaryDisk, str], ...]:
    rest = [disk for disk in goal.disks if disk.name not in used]
    return tuple((disk, f"{in_the_way(disk) or describe_content(disk)}; {why}") for disk in rest)


def _not_blank(goal: Goal, settings: Disk) -> tuple[tuple[TemporaryDisk, str], ...]:
    trust = settings.trust_unreadable_ntfs
    bad = [disk for disk in goal.disks if not is_blank(disk) and not is_shipped_ntfs(disk, trust=trust)]
    return tuple((disk, in_the_way(disk) or describe_content(disk)) for disk in bad)


# ---- finished


def _volumes(goal: Goal, facts: DiskFacts, own: tuple[DiskSet, ...]) -> list[Volume]:
    names = {disk.name for disk in goal.disks}
    found: list[Volume | None] = []
    for one in facts.assembled:
        if one.members and names.issuperset(one.members):
            disks = tuple(disk for disk in goal.disks if disk.name in one.members)
            found.append(_volume(goal, one.path, one.content, disks, one.mounts, _record(one, disks, own)))
    for disk in goal.disks:
        if disk.holders:
            continue
        record = next((made for made in own if made.aggregation == "none" and members_of(made, (disk,))), None)
        whole = record if record and record.table == "none" else None
        # Partitions that the kernel has of a table that is gone do not count.
        found.append(_volume(goal, disk.path, disk.content, (disk,), disk.mounts, whole))
        for part in disk.partitions:
            cut = record if record and record.table == "gpt" and part.number == data_number(record) else None
            found.append(_volume(goal, part.path, part.content, (disk,), disk.mounts, cut))
    return [volume for volume in found if volume is not None]


def _volume(
    goal: Goal,
    device: str,
    content: Content | None,
    disks: tuple[TemporaryDisk, ...],
    mounts: tuple[str, ...],
    made: DiskSet | None,
) -> Volume | None:
    uuid, kind = (made.filesystem_uuid, made.filesystem) if made else ("", "")
    # On a new array the file system of an older one can show through, with our label: the UUID tells them apart.
    older = made is not None and made.aggregation != "none" and made.over != "" and not made.finished
    label = "" if older else goal.label
    found = finished_on(content, uuid=uuid, kind=kind, label=label, swap=goal.filesystem == SWAP)
    # What the settings ask for now may be something else than what was made: then only a label that fits counts.
    if found is None or (found.kind == SWAP) != (goal.filesystem == SWAP) or any(disk.trouble for disk in disks):
        return None
    own = made if made is not None and same_uuid(found.uuid, uuid) else None
    return Volume(
        device=device, disks=disks, filesystem=found.kind, uuid=found.uuid, label=found.label, mounts=mounts, made=own
    )


def _record(array: Assembled, disks: tuple[TemporaryDisk, ...], own: tuple[DiskSet, ...]) -> DiskSet | None:
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


def data_number(made: DiskSet) -> int:
    """The number of the partition that is not the small swap partition."""
    return 2 if made.swap_partition_uuid else 1


# ---- unfinished


def _unfinished(
    made: DiskSet, disks: tuple[TemporaryDisk, ...], facts: DiskFacts, *, trust: bool
) -> Work | Assembly | None:
    """What is left to do of a recorded set; None if its disks are not exactly as that work leaves them."""
    if made.aggregation != "none":
        return _unfinished_array(made, disks, facts)
    disk = disks[0]
    if in_the_way(disk) or made.finished:
        return None
    if made.table == "none":
        ours = made.begun == FILESYSTEM and not disk.partitions and not holds_nothing(disk.content)
        if not ours or not has_only(disk.content, kind=made.filesystem, uuid=made.filesystem_uuid, over=made.over):
            return None
        return _work(FILESYSTEM, made, disks, (seen(disk),), (disk.path,), again=True)
    return _unfinished_table(made, disk, trust=trust)


def _unfinished_table(made: DiskSet, disk: TemporaryDisk, *, trust: bool) -> Work | None:
    if (
        made.begun == TABLE
        and not disk.partitions
        and not holds_nothing(disk.content)
        and has_no_signature(disk.content, over=made.over)
    ):
        return _work(TABLE, made, (disk,), (seen(disk),), (disk.path,), again=True)
    if made.begun not in (TABLE, FILESYSTEM) or not has_table(disk.content, made):
        return None
    if len(disk.partitions) > data_number(made):
        return None  # another program has added one
    part = next((part for part in disk.partitions if part.number == data_number(made)), None)
    if part is None or len(disk.partitions) != data_number(made):
        empty = all(holds_nothing(part.content) for part in disk.partitions)
        if made.begun != TABLE or not empty:
            return None
        return _work(TABLE, made, (disk,), (seen(disk),), (disk.path,), again=True)
    if part.content is None or not part.content.regions or not part.content.digest:
        return None
    again = made.begun == FILESYSTEM and has_only(
        part.content, kind=made.filesystem, uuid=made.filesystem_uuid, over=made.over
    )
    left = made.over == "ntfs" and is_pristine(part.content, trust=trust)
    left = left or (made.over != "" and has_no_signature(part.content, over=made.over))
    if not holds_nothing(part.content) and not again and not left:
        return None
    device = seen_partition(disk, part)
    return _work(FILESYSTEM, made, (disk,), (device,), (part.path,), again=not holds_nothing(part.content))


def _unfinished_array(made: DiskSet, disks: tuple[TemporaryDisk, ...], facts: DiskFacts) -> Work | Assembly | None:
    names = {disk.name for disk in disks}
    arrays = [one for one in facts.assembled if names.intersection(one.members)]
    if arrays:
        return _unfinished_volume(made, disks, arrays)
    if any(in_the_way(disk) for disk in disks):
        return None
    members = [is_member(disk, made, number) for number, disk in enumerate(disks)]
    if all(members) and (made.finished or made.begun == FILESYSTEM):
        return Assembly(made=made, disks=disks)
    if made.finished or made.begun != ARRAY or all(map(is_blank, disks)):
        return None
    for member, disk in zip(members, disks):
        if not member and (disk.partitions or not _is_between(disk, made)):
            return None
    return _work(ARRAY, made, disks, tuple(map(seen, disks)), tuple(disk.path for disk in disks), again=True)


def _is_between(disk: TemporaryDisk, made: DiskSet) -> bool:
    """Not a member yet. mdadm writes nothing but the superblock; pvcreate writes its label last."""
    if made.aggregation == "mdadm" and not made.over:
        return is_blank(disk)
    return has_no_signature(disk.content, over=made.over)


def _unfinished_volume(made: DiskSet, disks: tuple[TemporaryDisk, ...], arrays: list[Assembled]) -> Work | None:
    """The array exists, and its file system does not."""
    array = arrays[0]
    if len(arrays) != 1 or _record(array, disks, (made,)) is None or made.finished or array.mounts or array.busy:
        return None
    if any(
        disk.mounts or disk.swaps or disk.trouble or disk.read_only or {*disk.holders} - {array.name} for disk in disks
    ):
        return None
    content = array.content
    if content is None or not content.regions or not content.digest or made.begun not in (ARRAY, FILESYSTEM):
        return None
    again = made.begun == FILESYSTEM and has_only(
        content, kind=made.filesystem, uuid=made.filesystem_uuid, over=made.over
    )
    left = made.over != "" and has_no_signature(content, over=made.over)
    if not holds_nothing(content) and not again and not left:
        return None
    device = Untouched(path=array.path, size=array.size, regions=content.regions, digest=content.digest)
    return _work(FILESYSTEM, made, disks, (device,), (array.path,), again=not holds_nothing(content))


def _work(
    what: str,
    made: DiskSet,
    disks: tuple[TemporaryDisk, ...],
    devices: tuple[Untouched, ...],
    paths: tuple[str, ...],
    *,
    again: bool,
) -> Work:
    return Work(what=what, made=replace(made, begun=what), disks=disks, devices=devices, paths=paths, again=again)


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


def seen_partition(disk: TemporaryDisk, part: Partition) -> Untouched:
    content = part.content
    regions, digest = (content.regions, content.digest) if content is not None else ((), "")
    return Untouched(path=part.path, size=part.size, regions=regions, digest=digest, sequence=disk.sequence)


def left_alone(disk: TemporaryDisk, why: str) -> Caution:
    return Caution(name=disk.path, why=f"left alone: {why}")
