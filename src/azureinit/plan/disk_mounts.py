"""Where a temporary disk is mounted: the mount point, the fstab entry, the mount, its owner and the notice."""

from __future__ import annotations

from azureinit.backends.mount import (
    check_mount,
    mount,
    reload_units,
    remove_units,
    restore_label,
    set_owner,
    unit_paths,
)
from azureinit.plan.actions import Caution, Satisfied, Step, Way, Write
from azureinit.plan.disk_goals import SCSI_LABEL
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import DiskFacts, FstabEntry, MountPoint
    from azureinit.plan.actions import Item
    from azureinit.plan.disk_goals import Goal

FSTAB = "/etc/fstab"
COMMENT = "comment=azure-ephemeral-disk-setup"  # azure-vm-utils' own: either program replaces the other's entry
CLOUD_INIT_COMMENT = "comment=cloudconfig"
NOFAIL = "nofail"
NOTICE = "DATALOSS_WARNING_README.txt"
NOTICE_TEXT = """\
WARNING: everything on this disk can be lost at any time.

This is the virtual machine's temporary disk. It is on the computer that the machine runs on, and is not backed up.
When the machine is stopped and deallocated, resized, redeployed or moved to another computer, the disk is replaced
by an empty one. What was on it cannot be recovered.

Keep here only what can be made again: caches, scratch files, swap. Everything else belongs on a managed disk.
"""
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
# How the names of Cautions begin that make the setup fail: always, or only for an operator and not in a boot.
REFUSED, KEPT = "refused: ", "not set up: "


class Place(Record):
    """A file system, and where it belongs."""

    device: str
    point: str
    filesystem: str
    uuid: str
    label: str
    name: str
    fresh: bool = False  # it is made in the same plan
    mounts: tuple[str, ...] = ()


def refused(name: str, why: str) -> Caution:
    return Caution(name=f"{REFUSED}{name}", why=why)


# ---- before anything is formatted


def point_refusal(goal: Goal, facts: DiskFacts, settings: Disk, devices: frozenset[str]) -> Caution | None:
    """Why nothing can be mounted there. `devices`: of the goal's own disks; one of them may be mounted there."""
    name = f"mount point {goal.point}"
    for entry in facts.entries:
        if entry.point.rstrip("/") != goal.point or COMMENT in entry.options.split(","):
            continue
        if CLOUD_INIT_COMMENT in entry.options.split(","):
            why = f"cloud-init has an entry for it in {FSTAB} ({entry.source}); remove that, or choose another place"
            return refused(name, why) if settings.scsi != "off" else Caution(name=name, why=f"left alone: {why}")
        why = f"{FSTAB} has another entry for it ({entry.source}); remove that, or choose another mount point"
        return refused(name, why)
    foreign = [path for path, ours in facts.mount_units if path in unit_paths(goal.point) and not ours]
    if foreign and facts.systemd and not _by_fstab(goal.point, facts):
        theirs = f"{foreign[0]} is not a unit of azure-init"
        return refused(name, f"{FSTAB} cannot be changed, and {theirs}; remove that, or choose another place")
    point = point_of(facts, goal.point)
    if point is None or point.state in ("absent", "empty"):
        return None
    if point.state == "mounted":
        if point.source in devices:
            return None
        return refused(name, f"{point.source} is mounted there; unmount it, or choose another mount point")
    if point.state == "hidden":
        return refused(name, "it cannot be read, so it is not known to be empty; run this as root")
    if point.state == "below a symbolic link":
        return refused(name, f"it is below a symbolic link; its path without links is {point.source}: configure that")
    state = f"it is {point.state}"
    return refused(name, f"{state}; a file system is mounted only on an empty directory that is not a link")


def point_of(facts: DiskFacts, path: str) -> MountPoint | None:
    return next((point for point in facts.points if point.path == path), None)


# ---- fstab


def fstab_line(place: Place, settings: Disk, facts: DiskFacts) -> str:
    """By label, unless that has characters that end a field, or names another device too."""
    by_label = PLAIN.issuperset(place.label) and not (place.uuid and also_labelled(place, facts))
    source = f"LABEL={place.label}" if place.label and by_label else f"UUID={place.uuid}"
    return f"{source} {place.point} {place.filesystem} {options_of(settings)} 0 2"


def also_labelled(place: Place, facts: DiskFacts) -> tuple[str, ...]:
    """Other devices with the same label, whatever disk they are on."""
    return tuple(device for device, label in facts.labels if label == place.label and device != place.device)


def options_of(settings: Disk) -> str:
    """The configured ones. Without `nofail` a disk that is gone would stop the boot; the comment marks our entry."""
    words = [word for word in settings.mount_options.split(",") if word]
    return ",".join([*words, *(word for word in (NOFAIL, COMMENT) if word not in words)])


def plan_fstab(places: tuple[Place, ...], settings: Disk, facts: DiskFacts) -> tuple[Item, ...]:
    """Our entries, and every other byte as it was."""
    if facts.fstab is None or not facts.fstab_writable or not places:
        return ()
    wanted = {place.point: fstab_line(place, settings, facts) for place in places}
    named = [(f"LABEL={place.label}", f"UUID={place.uuid}") for place in places]
    sources = frozenset((f"LABEL={settings.label}", f"LABEL={SCSI_LABEL}", *(one for pair in named for one in pair)))
    data = edited_fstab(facts.fstab, facts.entries, wanted, settings, sources=sources)
    points = " and ".join(place.point for place in places)
    doubts = [_doubt(place, others) for place in places if (others := also_labelled(place, facts))]
    if data == facts.fstab:
        return (*doubts, Satisfied(name=f"{FSTAB} entry", why=f"there is one for {points}"))
    write = Write(path=FSTAB, data=data, was=facts.fstab)
    return (
        *doubts,
        Step(
            name=f"{FSTAB} entry",
            why=f"{points} is mounted at every boot",
            did=f"wrote the entry for {points} to {FSTAB}",
            ways=(Way(backend="native", actions=(write, reload_units()) if facts.systemd else (write,)),),
        ),
    )


def _doubt(place: Place, others: tuple[str, ...]) -> Caution:
    told = f"{' and '.join(others)} has it too: {FSTAB} names {place.device} by its UUID"
    return Caution(name=f"label {place.label}", why=told)


def edited_fstab(
    data: bytes,
    entries: tuple[FstabEntry, ...],
    wanted: dict[str, str],
    settings: Disk,
    *,
    sources: frozenset[str],
) -> bytes:
    """An entry of ours that is as wanted stays where it is.

    Another one goes if it is for a mount point that is set up now, or mounts one of our own file systems (`sources`) at
    a place that is not configured any more. An entry that was copied for another disk stays.
    """
    configured = {settings.mount_point, settings.scsi_mount_point}
    ours = {
        entry.line.rstrip("\n"): entry.point
        for entry in entries
        if COMMENT in entry.options.split(",") and (entry.point in wanted or entry.source in sources)
    }
    missing = dict(wanted)
    kept: list[bytes] = []
    for raw in data.splitlines(keepends=True):
        line = raw.decode("utf-8", "surrogateescape").rstrip("\n")
        point = ours.get(line)
        if point is None:
            kept.append(raw)
        elif missing.get(point) == line:
            del missing[point]
            kept.append(raw)
        elif point not in wanted and point in configured:
            kept.append(raw)
    text = b"".join(kept)
    if missing and text and not text.endswith(b"\n"):
        text += b"\n"
    return text + b"".join(line.encode("utf-8", "surrogateescape") + b"\n" for line in missing.values())


# ---- the mount


def plan_mount(place: Place, settings: Disk, facts: DiskFacts) -> tuple[Item, ...]:
    point = point_of(facts, place.point)
    mounted = point is not None and point.state == "mounted" and point.source == place.device
    if not mounted and place.mounts:
        where = " and ".join(place.mounts)
        return (refused(f"mount point {place.point}", f"{place.device} is mounted at {where}; unmount it there first"),)
    items: list[Item] = []
    left = tuple(path for path, ours in facts.mount_units if ours and path in unit_paths(place.point))
    if left and _by_fstab(place.point, facts):
        why = f"{FSTAB} has the entry, which the unit would override"
        did = f"removed {' and '.join(left)}"
        items.append(Step(name=f"unit of {place.point}", why=why, did=did, ways=(remove_units(left),)))
    if mounted:
        items.append(Satisfied(name=f"mount of {place.point}", why=f"{place.device} is mounted there"))
    else:
        items.append(_mount(place, settings, facts))
        items += [_checked(place)] if place.fresh else []
    items += _belongings(place, settings, facts, mounted=mounted)
    return tuple(items)


def _mount(place: Place, settings: Disk, facts: DiskFacts) -> Step:
    ways = mount(
        place.device,
        place.point,
        filesystem=place.filesystem,
        options=options_of(settings),
        uuid=place.uuid,
        systemd=facts.systemd,
        listed=_by_fstab(place.point, facts),
    )
    return Step(
        name=f"mount of {place.point}",
        why=f"{place.device} is not mounted",
        did=f"mounted {place.device} ({place.filesystem} {place.label}) at {place.point}",
        ways=ways,
    )


def _checked(place: Place) -> Step:
    """systemd mounts what a label, or a unit of others, names: that may be another disk."""
    return Step(
        name=f"device at {place.point}",
        why=f"what follows is only for {place.device}",
        did=f"{place.device} is what is mounted at {place.point}",
        ways=(Way(backend="mount table", actions=(check_mount(place.device, place.point),)),),
    )


def _by_fstab(point: str, facts: DiskFacts) -> bool:
    """Our entry is there, or is written in the same plan."""
    return (facts.fstab is not None and facts.fstab_writable) or _is_listed(point, facts)


def _is_listed(point: str, facts: DiskFacts) -> bool:
    return any(entry.point == point and COMMENT in entry.options.split(",") for entry in facts.entries)


def _belongings(place: Place, settings: Disk, facts: DiskFacts, *, mounted: bool) -> list[Item]:
    items: list[Item] = []
    if settings.owner and (place.fresh or place.point in facts.wrong_owner):
        items.append(
            Step(
                name=f"owner of {place.point}",
                why=f"[disk] owner is {settings.owner}",
                did=f"gave {place.point} to {settings.owner}",
                ways=(Way(backend="chown", actions=(set_owner(place.point, settings.owner),)),),
            )
        )
    if place.fresh and "restorecon" in facts.tools:
        way = Way(backend="restorecon", actions=(restore_label(place.point),))
        did = f"restored the SELinux label of {place.point}"
        items.append(Step(name=f"label of {place.point}", why="a new file system has none", did=did, ways=(way,)))
    path = f"{place.point}/{NOTICE}"
    # On a file system that was mounted only now the notice may be there already: the next plan sees it.
    if settings.notice and (place.fresh or mounted) and path not in facts.notices:
        write = Write(path=path, data=NOTICE_TEXT.encode(), mode=0o644, beneath=place.point)
        items.append(
            Step(
                name=f"notice in {place.point}",
                why="data on a temporary disk can be lost",
                did=f"wrote {path}",
                ways=(Way(backend="native", actions=(write,)),),
            )
        )
    return items
