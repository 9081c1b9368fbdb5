"""Swap on temporary disks: a whole volume, an area beside the file system, or a file of exactly the asked size."""

from __future__ import annotations

from azureinit.backends.filesystem import (
    format_swap_file,
    make_swap_area,
    make_swap_file,
    swap_off,
    swap_on,
)
from azureinit.plan.actions import Declined, OnDevices, Remove, Satisfied, Step, Way
from azureinit.plan.disk_goals import SWAP, SWAP_LABEL
from azureinit.plan.disk_judgement import ARRAY, FILESYSTEM, TABLE, finished_on, has_only, holds_nothing
from azureinit.plan.disk_mounts import refused
from azureinit.plan.disk_work import seen_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.temporary_disks import DiskFacts
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Item
    from azureinit.plan.disk_goals import Goal
    from azureinit.plan.disk_layout import SwapArea
    from azureinit.plan.disk_mounts import Place

MIB = 1 << 20
FILE = "swapfile"


def in_use(facts: DiskFacts) -> frozenset[str]:
    return frozenset((*facts.active_swaps, *(path for disk in facts.disks for path in disk.swaps)))


def plan_swap_device(device: str, facts: DiskFacts, *, name: str) -> Item:
    if device in in_use(facts):
        return Satisfied(name=f"swap on the {name}", why=f"{device} is in use as swap")
    return Step(
        name=f"swap on the {name}",
        why=f"{device} is a swap area that is not used",
        did=f"began to use {device} as swap",
        ways=(Way(backend="swapon", actions=(swap_on(device),)),),
    )


def plan_swap_area(goal: Goal, area: SwapArea | None, made: DiskSet, facts: DiskFacts) -> tuple[Item, ...]:
    """The partition or the volume beside the file system's. It is made first, while the set is not finished."""
    size, name = made.swap_mib * MIB, f"swap {_kind(made)} of the {goal.name}"
    if area is None or area.size < size or (area.size != size and made.aggregation != "lvm"):
        return (refused(name, f"there is no swap {_kind(made)} of {made.swap_mib} MiB, which is recorded"),)
    if area.path in in_use(facts) or _is_ours(area, made):
        return (Satisfied(name=name, why=f"{area.path} is the recorded swap area"),)
    content = area.content
    if content is None or not content.regions or not content.digest:
        return (refused(name, f"left alone: the content of {area.path} is not known"),)
    left = made.over and has_only(content, kind=SWAP, uuid=made.swap_uuid, over=made.over)
    begun = (ARRAY, FILESYSTEM) if made.aggregation == "lvm" else (TABLE, FILESYSTEM)
    if made.finished or made.begun not in begun or not (holds_nothing(content) or left):
        return (refused(name, f"left alone: {area.path} holds something else"),)
    if area.trouble:
        return (refused(name, f"left alone: {area.trouble}"),)
    # A logical volume has whole extents on each disk; the swap area on it has the size that was asked for.
    exactly = made.swap_mib if area.size > size else 0
    run = make_swap_area(area.path, uuid=made.swap_uuid, label=SWAP_LABEL, overwrite=bool(made.over), size_mib=exactly)
    actions = (OnDevices(devices=(seen_part(area, sequence=area.sequence),), run=run),)
    return (
        Step(
            name=name,
            why=f"{made.swap_mib} MiB of swap are asked for",
            did=f"made a swap area on {area.path} ({made.swap_mib} MiB)",
            ways=(Way(backend="mkswap", actions=actions),),
        ),
    )


def _kind(made: DiskSet) -> str:
    return "volume" if made.aggregation == "lvm" else "partition"


def _is_ours(area: SwapArea, made: DiskSet) -> bool:
    return finished_on(area.content, uuid=made.swap_uuid, kind=SWAP, label=SWAP_LABEL, swap=True) is not None


def plan_swap_file(place: Place, size_mib: int, facts: DiskFacts) -> tuple[Item, ...]:
    """Only on a file system that is mounted already: its free space has to be known."""
    path, size = f"{place.point}/{FILE}", size_mib * MIB
    name, existing = f"swap file {path}", dict(facts.swap_files).get(path)
    active = path in in_use(facts)
    if path in facts.other_swap_files and not active:
        return (refused(name, "left alone: it is not a swap file; remove it, or move it away"),)
    if existing == size:
        return (_used(name, path, active=active, size_mib=size_mib),)
    free = dict(facts.free_space).get(place.point)
    if free is None:
        return (refused(name, f"not made: the free space of {place.point} is not known"),)
    if size > free + (existing or 0):
        return (refused(name, f"not made: {size_mib} MiB are asked for, and {free // MIB} MiB are free"),)
    first = (*((swap_off(path),) if active else ()), *((Remove(path=path),) if existing is not None else ()))
    ways = tuple(
        Way(backend=how, actions=(*first, make_swap_file(path, size, how=how), swap_on(path)))
        if needs in facts.tools
        else Declined(backend=how, why=f"{needs} is not installed")
        for how, needs in ways_to_fill(place.filesystem)
    )
    had = "there is none" if existing is None else f"it has {existing / MIB:g} MiB"
    why = f"{size_mib} MiB are asked for, and {had}"
    return (Step(name=name, why=why, did=f"began to use {path} ({size_mib} MiB) as swap", ways=ways),)


def ways_to_fill(filesystem: str) -> tuple[tuple[str, str], ...]:
    """The ways to fill the file, and the tool that each needs. Old kernels refuse a file from fallocate on XFS."""
    return (("chattr", "chattr"),) if filesystem == "btrfs" else (("fallocate", "fallocate"), ("dd", "mkswap"))


def _used(name: str, path: str, *, active: bool, size_mib: int) -> Item:
    if active:
        return Satisfied(name=name, why=f"{size_mib} MiB are in use as swap")
    again = Way(backend="mkswap", actions=(format_swap_file(path), swap_on(path)))
    ways = (Way(backend="swapon", actions=(swap_on(path),)), again)
    return Step(name=name, why="it is not used", did=f"began to use {path} ({size_mib} MiB) as swap", ways=ways)
