"""What the goal's disks hold: a volume to use, work of our own to go on with, disks to format, or data of others."""

from __future__ import annotations

from azureinit.plan.disk_goals import SWAP
from azureinit.plan.disk_judgement import (
    describe_content,
    finished_on,
    in_the_way,
    is_blank,
    is_shipped_ntfs,
    same_uuid,
)
from azureinit.plan.disk_layout import data_number, is_data, members_of, record_of
from azureinit.plan.disk_new import shape_of
from azureinit.plan.disk_unfinished import unfinished
from azureinit.plan.disk_work import Found, Left, Volume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.disk_content import Content
    from azureinit.facts.temporary_disks import DiskFacts, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.disk_goals import Goal


def find(goal: Goal, facts: DiskFacts, sets: tuple[DiskSet, ...], settings: Disk, *, recreate: bool = False) -> Found:
    """`Left`: a new set may be made if `others`, the disks that are not blank, is empty.

    `recreate`: a set that has lost or gained disks does not count, unless it is in use.
    """
    own = tuple(one for one in sets if one.kind == goal.kind)
    volumes = _volumes(goal, facts, own)
    used = {disk.name for disk in shape_of(goal, facts, settings).disks}
    if recreate:
        swaps = {path for disk in goal.disks for path in disk.swaps}
        volumes = [one for one in volumes if one.mounts or one.device in swaps or not _differs(one.disks, used)]
    if volumes:
        volumes.sort(key=lambda volume: (goal.point not in volume.mounts or not goal.point, volume.made is None))
        taken = {disk.name for disk in volumes[0].disks}
        return Found(state=volumes[0], others=_others(goal, taken, f"{volumes[0].device} is used"))
    for made in own:
        if (made.filesystem == SWAP) != (goal.filesystem == SWAP):
            continue  # what is asked for has changed
        disks = members_of(made, goal.disks)
        if recreate and _differs(disks, used):
            continue
        state = unfinished(made, disks, facts, trust=settings.trust_unreadable_ntfs) if disks else None
        if state is not None:
            return Found(state=state, others=_others(goal, {disk.name for disk in disks}, "it is not part of that set"))
    return Found(state=Left(), others=_not_blank(goal, own, settings))


def _differs(disks: tuple[TemporaryDisk, ...], used: set[str]) -> bool:
    """Some of the disks that a new set would use, and others or not all of them."""
    names = {disk.name for disk in disks}
    return names != used and not names.isdisjoint(used)


def _others(goal: Goal, used: set[str], why: str) -> tuple[tuple[TemporaryDisk, str], ...]:
    rest = [disk for disk in goal.disks if disk.name not in used]
    return tuple((disk, f"{in_the_way(disk) or describe_content(disk)}; {why}") for disk in rest)


def _not_blank(goal: Goal, own: tuple[DiskSet, ...], settings: Disk) -> tuple[tuple[TemporaryDisk, str], ...]:
    trust = settings.trust_unreadable_ntfs
    bad = [disk for disk in goal.disks if not is_blank(disk) and not is_shipped_ntfs(disk, trust=trust)]
    return tuple((disk, (in_the_way(disk) or describe_content(disk)) + _interrupted(disk, own)) for disk in bad)


def _interrupted(disk: TemporaryDisk, own: tuple[DiskSet, ...]) -> str:
    """What this VM began there: the disk, its companions or the settings are not as they were then."""
    made = next((one for one in own if disk.identity in one.members and one.begun and not one.finished), None)
    if made is None:
        return ""
    return f"; this VM began {made.filesystem} for {made.purpose} there, was interrupted, and cannot go on with it"


# ---- finished


def _volumes(goal: Goal, facts: DiskFacts, own: tuple[DiskSet, ...]) -> list[Volume]:
    names = {disk.name for disk in goal.disks}
    found: list[Volume | None] = []
    for one in facts.assembled:
        if one.members and names.issuperset(one.members):
            disks = tuple(disk for disk in goal.disks if disk.name in one.members)
            made = record_of(one, disks, own)
            made = made if made is not None and is_data(one, made) else None
            found.append(_volume(goal, one.path, one.content, disks, one.mounts, made))
    for disk in goal.disks:
        if disk.holders:
            continue
        record = next((made for made in own if made.aggregation == "none" and members_of(made, (disk,))), None)
        whole = record if record and record.table == "none" else None
        # Partitions that the kernel has of a table that is gone do not count.
        found.append(_volume(goal, disk.path, disk.content, (disk,), disk.mounts, whole))
        for part in disk.partitions:
            cut = record if record and record.table == "gpt" and part.number == data_number(record) else None
            found.append(_volume(goal, part.path, part.content, (disk,), part.mounts, cut))
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
