"""What is left to do of a recorded set, where its disks are exactly as the set's own work leaves them."""

from __future__ import annotations

from azureinit.backends.array import SWAP_VOLUME, VOLUME
from azureinit.plan.disk_goals import SWAP
from azureinit.plan.disk_judgement import (
    ARRAY,
    FILESYSTEM,
    TABLE,
    finished_on,
    has_no_signature,
    has_only,
    has_table,
    holds_nothing,
    in_the_way,
    is_blank,
    is_member,
    is_pristine,
)
from azureinit.plan.disk_layout import (
    as_disk,
    carrier,
    data_number,
    group_volumes,
    is_cut_below,
    member_table,
    on_members,
    record_of,
    volume_named,
)
from azureinit.plan.disk_work import Assembly, Work, seen, seen_part
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disk_content import Content
    from azureinit.facts.temporary_disks import Assembled, DiskFacts, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Untouched

# sfdisk begins with the copy at the disk's end: 16 KiB of entries and one sector. Killed before its header is written,
# it leaves bytes there and nowhere else.
COPY = 64 << 10


def unfinished(
    made: DiskSet, disks: tuple[TemporaryDisk, ...], facts: DiskFacts, *, trust: bool
) -> Work | Assembly | None:
    """None if its disks are not exactly as its own work leaves them."""
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
        and _is_copy_of_table(disk, made)
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
    device = seen_part(part, sequence=disk.sequence)
    return _work(FILESYSTEM, made, (disk,), (device,), (part.path,), again=not holds_nothing(part.content))


def _unfinished_array(made: DiskSet, disks: tuple[TemporaryDisk, ...], facts: DiskFacts) -> Work | Assembly | None:
    arrays = on_members(disks, facts)
    if arrays:
        return _running(made, disks, arrays, facts)
    if any(in_the_way(disk) for disk in disks):
        return None
    found = [carrier(made, disk, number) for number, disk in enumerate(disks)]
    carriers = tuple(one for one in found if one is not None)
    if is_cut_below(made) and made.begun == TABLE and not made.finished:
        return _unfinished_member_tables(made, disks, found)
    if len(carriers) != len(disks) or any(map(in_the_way, carriers)):
        return None
    members = [is_member(one, made, number) for number, one in enumerate(carriers)]
    known = group_volumes(made, disks)
    if all(members) and _is_array_complete(made):
        lost = known is not None and not known.intersection((VOLUME, SWAP_VOLUME))
        return None if lost else Assembly(made=made, disks=disks)
    if made.begun == ARRAY and not made.finished and _may_hold_data(made, carriers):
        # What is on it decides, when it can be read.
        return Assembly(made=made, disks=disks) if all(members) else None
    if made.finished or made.begun != ARRAY or all(map(is_blank, disks)):
        return None
    for member, one in zip(members, carriers):
        if not member and (one.partitions or not _is_between(one, made)):
            return None
    return _array_of(carriers, made, disks, again=True)


def _may_hold_data(made: DiskSet, carriers: tuple[TemporaryDisk, ...]) -> bool:
    """The array is complete, or one of the disks says that the group has a volume, or does not say that it has none."""
    contents = [one.content for one in carriers if one.content is not None]
    if made.aggregation == "mdadm":
        return all(any(sign.kind == "md" for sign in content.signatures) for content in contents)
    signs = [sign for content in contents for sign in content.signatures if sign.kind == "lvm2"]
    return any(sign.label != "" and sign.volumes != () for sign in signs)


def _array_of(
    carriers: tuple[TemporaryDisk, ...], made: DiskSet, disks: tuple[TemporaryDisk, ...], *, again: bool
) -> Work:
    return _work(ARRAY, made, disks, tuple(map(seen, carriers)), tuple(one.path for one in carriers), again=again)


def _unfinished_member_tables(
    made: DiskSet, disks: tuple[TemporaryDisk, ...], carriers: list[TemporaryDisk | None]
) -> Work | None:
    """Disks without their table get it; the array is made when each has one. `carriers`: None for the former."""
    done = tuple(one for one in carriers if one is not None)
    left = tuple((number, disk) for number, disk in enumerate(disks) if carriers[number] is None)
    if all(map(is_blank, disks)) or not all(_may_begin(one.content, made) for one in done):
        return None
    if not left:
        return _array_of(done, made, disks, again=not all(holds_nothing(one.content) for one in done))
    if not all(_may_get_table(disk, made, number) for number, disk in left):
        return None
    rest = tuple(disk for _, disk in left)
    return _work(TABLE, made, disks, tuple(map(seen, rest)), tuple(disk.path for disk in rest), again=True)


def _may_get_table(disk: TemporaryDisk, made: DiskSet, number: int) -> bool:
    content = disk.content
    if has_table(content, member_table(made, number)):  # and the kernel has not seen its partition
        return all(part.number == 1 and holds_nothing(part.content) for part in disk.partitions)
    if is_blank(disk):
        return True
    return not disk.partitions and _is_copy_of_table(disk, made)


def _is_copy_of_table(disk: TemporaryDisk, made: DiskSet) -> bool:
    """Nothing but bytes that sfdisk may have left, or of what was on the disk before."""
    content = disk.content
    if content is None or not has_no_signature(content, over=made.over):
        return False
    return made.over != "" or (content.nonzero is not None and content.nonzero >= disk.size - COPY)


def _is_array_complete(made: DiskSet) -> bool:
    return made.finished or made.begun in ((FILESYSTEM,) if is_cut_below(made) else (TABLE, FILESYSTEM))


def _is_between(disk: TemporaryDisk, made: DiskSet) -> bool:
    """Not a member yet. mdadm writes nothing but the superblock; pvcreate writes its label last."""
    if made.aggregation == "mdadm" and not made.over:
        return is_blank(disk)
    return has_no_signature(disk.content, over=made.over)


def _running(
    made: DiskSet, disks: tuple[TemporaryDisk, ...], arrays: tuple[Assembled, ...], facts: DiskFacts
) -> Work | Assembly | None:
    """The kernel has the array, or some volume of the group, and the file system is not there."""
    if any(record_of(array, disks, (made,)) is None for array in arrays):
        return None
    names = {array.name for array in arrays}
    if any(disk.trouble or disk.read_only or {*disk.holders} - names for disk in disks):
        return None
    if made.aggregation == "lvm" and made.swap_uuid:
        return _unfinished_volumes(made, disks, arrays)
    if len(arrays) != 1:
        return None
    array = arrays[0]
    if made.table == "gpt" and not is_cut_below(made):
        return _unfinished_on_array(made, disks, as_disk(array, facts))
    if made.finished or made.begun not in (ARRAY, FILESYSTEM) or _is_used(disks):
        return None
    return _filesystem_on(array, made, disks)


def _is_used(disks: tuple[TemporaryDisk, ...]) -> bool:
    return any(disk.mounts or disk.swaps for disk in disks)


def _unfinished_on_array(
    made: DiskSet, disks: tuple[TemporaryDisk, ...], whole: TemporaryDisk
) -> Work | Assembly | None:
    """`whole`: the array as a disk."""
    if in_the_way(whole) or _is_used(disks):
        return None
    complete = made.finished or made.begun == FILESYSTEM
    if complete and not whole.partitions and has_table(whole.content, made):
        return Assembly(made=made, disks=disks, array=whole.path)
    if made.finished:
        return None
    if made.begun == ARRAY or (made.begun == TABLE and holds_nothing(whole.content)):
        if whole.partitions or not _may_begin(whole.content, made):
            return None
        again = not holds_nothing(whole.content)
        return _work(TABLE, made, disks, (seen(whole),), (whole.path,), again=again)
    work = _unfinished_table(made, whole, trust=False)
    return None if work is None else replace(work, disks=disks)


def _unfinished_volumes(
    made: DiskSet, disks: tuple[TemporaryDisk, ...], arrays: tuple[Assembled, ...]
) -> Work | Assembly | None:
    """A volume for swap, which is made first, and one for the file system."""
    swap, data = volume_named(SWAP_VOLUME, made, arrays), volume_named(VOLUME, made, arrays)
    if len(arrays) != (swap is not None) + (data is not None):
        return None  # another program has added one
    interrupted = made.begun == ARRAY and not made.finished
    # With a swap area on the first volume, the second one exists, and is only not active.
    if interrupted and data is None and swap is not None and not _has_swap(swap, made):
        if swap.busy or swap.mounts or swap.swaps or _is_used(disks) or not _may_begin(swap.content, made):
            return None
        paths = tuple(disk.path for disk in disks)
        device = seen_part(swap, sequence=swap.sequence)
        return replace(_work(ARRAY, made, disks, (device,), paths, again=True), partly=True)
    if swap is None or data is None:
        known = group_volumes(made, disks)
        missing = {name for name, one in ((SWAP_VOLUME, swap), (VOLUME, data)) if one is None}
        if known is not None and missing - known:
            return None  # it was removed
        return Assembly(made=made, disks=disks, array=arrays[0].path)
    if made.finished or made.begun not in (ARRAY, FILESYSTEM) or _is_used(disks):
        return None
    return _filesystem_on(data, made, disks)


def _has_swap(volume: Assembled, made: DiskSet) -> bool:
    return finished_on(volume.content, uuid=made.swap_uuid, kind=SWAP, label="", swap=True) is not None


def _filesystem_on(array: Assembled, made: DiskSet, disks: tuple[TemporaryDisk, ...]) -> Work | None:
    """The array or the volume exists, and its file system does not."""
    content = array.content
    if array.mounts or array.swaps or array.busy or content is None or not content.regions or not content.digest:
        return None
    again = made.begun == FILESYSTEM and has_only(
        content, kind=made.filesystem, uuid=made.filesystem_uuid, over=made.over
    )
    if not again and not _may_begin(content, made):
        return None
    device = seen_part(array, sequence=array.sequence)
    return _work(FILESYSTEM, made, disks, (device,), (array.path,), again=not holds_nothing(content))


def _may_begin(content: Content | None, made: DiskSet) -> bool:
    """Nothing of this set was written there: it is blank, or has bytes of what was on the disks before."""
    if content is None or not content.regions or not content.digest:
        return False
    return holds_nothing(content) or (made.over != "" and has_no_signature(content, over=made.over))


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
