"""Set up temporary disks: which disks are used for what, which are left alone, and why.

One plan does what can be seen to be safe now. Where a later part has to see the result of an earlier one (the array, a
new partition, the free space of a new file system), a second plan is made from new facts. A disk is in a step that
writes only if plan/disk_judgement.py says that it may be; each such step checks it again, right before it writes.
"""

from __future__ import annotations

from azureinit.backends.array import SWAP_VOLUME
from azureinit.facts.temporary_disks import SCSI
from azureinit.plan.actions import Caution, Satisfied
from azureinit.plan.disk_goals import SWAP, goals
from azureinit.plan.disk_judgement import FILESYSTEM, in_the_way, is_member
from azureinit.plan.disk_layout import carrier, group_volumes, idle_arrays, swap_area
from azureinit.plan.disk_mounts import KEPT, REFUSED, Place, plan_fstab, plan_mount, point_refusal, refused
from azureinit.plan.disk_new import missing_for, new_work, shape_of
from azureinit.plan.disk_sets import find
from azureinit.plan.disk_steps import Book, assembly_step, finished_step, stop_step, work_steps
from azureinit.plan.disk_work import Assembly, Found, Left, Volume, Work, left_alone
from azureinit.plan.swap import plan_swap_area, plan_swap_device, plan_swap_file
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import DiskFacts, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Item, Plan
    from azureinit.plan.disk_goals import Goal
    from azureinit.plan.disk_new import Shape


class Asked(Record):
    """What a plan is made from."""

    settings: Disk
    facts: DiskFacts
    vm_id: str
    recreate: bool


class Part(Record):
    """One goal's share of the plan. `place`: the file system that is to be mounted after its steps."""

    items: tuple[Item, ...]
    place: Place | None = None
    volume: Volume | None = None


def plan_disks(
    settings: Disk, facts: DiskFacts, sets: tuple[DiskSet, ...], *, vm_id: str, sets_path: str, recreate: bool = False
) -> Plan:
    """`sets`: those that this VM recorded in `sets_path`. `recreate`: the operator typed --recreate."""
    asked = Asked(settings=settings, facts=facts, vm_id=vm_id, recreate=recreate)
    wanted, remarks = goals(settings, facts)
    own = tuple(made for made in sets if made.vm_id == vm_id)
    book, fresh = Book(sets_path, own), iter(facts.fresh)
    parts: list[tuple[Goal, Part]] = []
    for goal in wanted:
        clash = goal.point and any(goal.point == other.point for other, _ in parts)
        why = f"[disk] scsi_mount_point is the mount point of the other disks: {goal.point}"
        parts.append((goal, _refuse(goal, why) if clash else _part(goal, asked, own, book, fresh)))
    places = tuple(part.place for _, part in parts if part.place is not None)
    items: list[Item] = [item for _, part in parts for item in part.items]
    items += plan_fstab(places, settings, facts)
    for goal, part in parts:
        if not _is_covered(goal, places, facts):
            items += _used(goal, part, asked)
    return (*items, *remarks)


def refusals(plan: Plan, *, kept: bool = True) -> tuple[Caution, ...]:
    """What was asked for and cannot be done as the machine is: the setup has failed.

    `kept`: also where the disks hold the user's own data, which a boot leaves alone as a matter of course.
    """
    names = (REFUSED, KEPT) if kept else REFUSED
    return tuple(item for item in plan if isinstance(item, Caution) and item.name.startswith(names))


# ---- one goal


def _part(goal: Goal, asked: Asked, own: tuple[DiskSet, ...], book: Book, fresh: Iterator[str]) -> Part:
    settings, facts = asked.settings, asked.facts
    if not asked.vm_id:
        return _refuse(goal, "this VM's id is not known, so its disks could not be recorded")
    other = _other_program(goal, facts)
    if other:
        return _refuse(goal, other)
    if goal.point:
        refusal = point_refusal(goal, facts, settings, _devices(goal, facts))
        if refusal is not None:
            why = refusal.why.removeprefix("left alone: ")
            return Part(items=(refusal, *_all_left(goal, f"the mount point {goal.point} cannot be used: {why}")))
    found = find(goal, facts, own, settings, recreate=asked.recreate)
    state = found.state
    idle = idle_arrays(goal.disks, facts, own, recreate=asked.recreate) if isinstance(state, Left) else ()
    if idle:
        return Part(items=(stop_step(goal, idle),))
    if isinstance(state, Volume):
        stale = next((made for made in own if made.kind == goal.kind and not made.finished), None)
        done = () if stale is None else (finished_step(goal, stale, state.device, book),)
        part = _volume_part(goal, state, found, asked)
        return replace(part, items=(*done, *part.items))
    if isinstance(state, Assembly):
        return Part(items=(assembly_step(goal, state), *_left(found)))
    if isinstance(state, Work):
        return _work_part(goal, state, _left(found), asked, book)
    return _new_part(goal, found, asked, own, book, fresh)


def _refuse(goal: Goal, why: str) -> Part:
    return Part(items=(refused(goal.name, why), *_all_left(goal, why)))


def _all_left(goal: Goal, why: str) -> tuple[Item, ...]:
    return tuple(left_alone(disk, why) for disk in goal.disks)


def _left(found: Found) -> tuple[Item, ...]:
    return tuple(left_alone(disk, why) for disk, why in found.others)


def _other_program(goal: Goal, facts: DiskFacts) -> str:
    if goal.kind != SCSI:
        return ""
    if facts.waagent_formats:
        return f"WALinuxAgent formats this disk too: set ResourceDisk.Format=n in {facts.waagent_formats}"
    if facts.cloud_init:
        return f"cloud-init sets up this disk too ({facts.cloud_init}): disable that, or set [disk] scsi to off"
    return ""


def _devices(goal: Goal, facts: DiskFacts) -> frozenset[str]:
    names = {disk.name for disk in goal.disks}
    arrays = [one.path for one in facts.assembled if one.members and names.issuperset(one.members)]
    parts = [part.path for disk in goal.disks for part in disk.partitions]
    return frozenset((*(disk.path for disk in goal.disks), *parts, *arrays))


def _volume_part(goal: Goal, volume: Volume, found: Found, asked: Asked) -> Part:
    name = f"{'swap area' if volume.filesystem == SWAP else 'file system'} on the {goal.name}"
    known = f" labelled {volume.label}" if volume.label else ""
    disks = " and ".join(disk.path for disk in volume.disks)
    kept = Satisfied(name=name, why=f"{volume.device} holds {volume.filesystem}{known} ({disks}): kept")
    place = None
    if goal.point:
        place = Place(
            device=volume.device,
            point=goal.point,
            filesystem=volume.filesystem,
            uuid=volume.uuid,
            label=volume.label,
            name=goal.name,
            mounts=volume.mounts,
        )
        point = next((one for one in asked.facts.points if one.path == goal.point), None)
        if point is not None and point.state == "mounted" and point.source != volume.device:
            why = f"{point.source} is mounted there, and {volume.device} holds the finished file system"
            return Part(items=(kept, refused(f"mount point {goal.point}", why), *_left(found)))
    return Part(items=(kept, *_unused_or_left(found, asked)), place=place, volume=volume)


def _unused_or_left(found: Found, asked: Asked) -> tuple[Item, ...]:
    if asked.settings.aggregation == "none":
        return tuple(Satisfied(name=disk.path, why="not used: [disk] aggregation is none") for disk, _ in found.others)
    return _left(found)


def _work_part(goal: Goal, work: Work, others: tuple[Item, ...], asked: Asked, book: Book) -> Part:
    steps = work_steps(goal, work, asked.settings, book)
    if work.what != FILESYSTEM:
        return Part(items=(*steps, *others))
    made, device = work.made, work.paths[0]
    volume = Volume(
        device=device,
        disks=work.disks,
        filesystem=made.filesystem,
        uuid=made.filesystem_uuid,
        label=made.label,
        made=made,
    )
    swap: tuple[Item, ...] = ()
    if made.swap_uuid:
        swap = plan_swap_area(goal, swap_area(made, work.disks, asked.facts), made, asked.facts)
    place = None
    if goal.point:
        place = Place(
            device=device,
            point=goal.point,
            filesystem=made.filesystem,
            uuid=made.filesystem_uuid,
            label=made.label,
            name=goal.name,
            fresh=True,
        )
    return Part(items=(*swap, *steps, *others), place=place, volume=volume)


def _new_part(
    goal: Goal, found: Found, asked: Asked, own: tuple[DiskSet, ...], book: Book, fresh: Iterator[str]
) -> Part:
    settings, facts = asked.settings, asked.facts
    shape = shape_of(goal, facts, settings)
    if shape.refused:
        return _refuse(goal, shape.refused)
    used = {disk.name for disk in shape.disks}
    dirty = {disk.name: why for disk, why in found.others if disk.name in used}
    if dirty and not (asked.recreate and not any(in_the_way(disk) for disk in shape.disks)):
        return _dirty_part(goal, shape, dirty, own, recreate=asked.recreate)
    mounted = next((p for p in facts.points if goal.point and p.path == goal.point and p.state == "mounted"), None)
    if mounted is not None:
        return _refuse(goal, f"{mounted.source} is mounted at {goal.point} and holds no file system of ours")
    wipe = bool(dirty) or any(disk.partitions for disk in shape.disks)
    missing = missing_for(goal, shape, facts, wipe=wipe)
    if missing:
        return _refuse(goal, missing)
    try:
        work = new_work(goal, shape, settings, vm_id=asked.vm_id, fresh=fresh, recreate=asked.recreate)
    except StopIteration:
        return _refuse(goal, "there are not enough new UUIDs")
    if work is None:
        return _dirty_part(goal, shape, dirty, own, recreate=asked.recreate)
    rest = [disk for disk in goal.disks if disk.name not in used]
    others: list[Item] = [Satisfied(name=disk.path, why=_not_used(settings)) for disk in rest]
    others += [Caution(name=goal.name, why=shape.remark)] if shape.remark else []
    return _work_part(goal, work, tuple(others), asked, book)


def _not_used(settings: Disk) -> str:
    why = "[disk] aggregation is none" if settings.aggregation == "none" else "nothing here combines disks"
    return f"not used: {why}, so only the first disk is"


def _dirty_part(goal: Goal, shape: Shape, dirty: dict[str, str], own: tuple[DiskSet, ...], *, recreate: bool) -> Part:
    """At least one disk is not blank: none of them is formatted. That is normal where the data are the user's own."""
    others = " and ".join(disk.path for disk in shape.disks if disk.name in dirty)
    used = {disk.name for disk in shape.disks}
    items: list[Item] = []
    for disk in goal.disks:
        if disk.name in dirty:
            items.append(left_alone(disk, dirty[disk.name]))
        elif disk.name in used:
            items.append(left_alone(disk, f"the set needs {others} too, which cannot be used"))
        else:
            items.append(left_alone(disk, "it is not used"))
    how = (
        "--recreate destroys only disks that are free and can be read"
        if recreate
        else ("azure-init disk setup --recreate formats disks that are free, and destroys what is on them")
    )
    bad = [disk for disk in shape.disks if disk.name in dirty]
    name = REFUSED if recreate or any(_needs_operator(disk, own) for disk in bad) else KEPT
    why = f"nothing is formatted: not every disk is blank; {how}"
    return Part(items=(Caution(name=f"{name}{goal.name}", why=why), *items))


def _needs_operator(disk: TemporaryDisk, own: tuple[DiskSet, ...]) -> bool:
    """It cannot be used at all, or it is part of a set of this VM that is not complete."""
    if disk.trouble or disk.read_only:
        return True
    for made in (made for made in own if disk.identity in made.members):
        number = made.members.index(disk.identity)
        under = carrier(made, disk, number)
        if (made.begun and not made.finished) or (under is not None and is_member(under, made, number)):
            return True
    return False


# ---- after the file systems


def _is_covered(goal: Goal, places: tuple[Place, ...], facts: DiskFacts) -> bool:
    """Its mount point lies in a kept file system that is not mounted yet: what is there, a link perhaps, is unknown."""
    mounted = {(point.path, point.source) for point in facts.points if point.state == "mounted"}
    outer = [place for place in places if goal.point.startswith(f"{place.point}/") and not place.fresh]
    return any((place.point, place.device) not in mounted for place in outer)


def _used(goal: Goal, part: Part, asked: Asked) -> tuple[Item, ...]:
    facts, volume = asked.facts, part.volume
    if volume is None:
        return ()
    if part.place is None:
        return (plan_swap_device(volume.device, facts, name=goal.name),)
    items = list(plan_mount(part.place, asked.settings, facts))
    if not goal.swap_mib:
        return tuple(items)
    made = volume.made
    if made is not None and made.swap_uuid:
        area = swap_area(made, volume.disks, facts)
        if area is None and made.aggregation == "lvm":
            known = group_volumes(made, volume.disks)
            if known is not None and SWAP_VOLUME not in known:
                why = f"the volume group {made.name} has no logical volume {SWAP_VOLUME} any more: it is not made again"
                return (*items, Caution(name=f"swap on the {goal.name}", why=why))
            return (*items, assembly_step(goal, Assembly(made=made, disks=volume.disks, array=volume.device)))
        if not part.place.fresh:
            items += plan_swap_area(goal, area, made, facts)
        if area is not None and not any(isinstance(item, Caution) for item in (*part.items, *items)):
            items.append(plan_swap_device(area.path, facts, name=goal.name))
    elif asked.settings.swap == "file":
        point = next((one for one in facts.points if one.path == goal.point), None)
        if point is not None and point.state == "mounted" and point.source == volume.device:
            items += plan_swap_file(part.place, goal.swap_mib, facts)
    return tuple(items)
