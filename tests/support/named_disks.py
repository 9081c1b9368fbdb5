"""Data disks as records, for the planners of disk_setup and fs_setup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azureinit.facts.disk_content import Content
from azureinit.facts.named_disks import NamedDisk, NamedDisks, NamedPartition
from azureinit.plan.actions import Caution, Declined, OnDevices, Satisfied, Step, Way
from support.disk_cases import FRESH, GIB, MIB, blank

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

SIZE = 10 * GIB
TOOLS = frozenset({"sfdisk", "wipefs", "mkswap", "mkfs.ext4", "mkfs.xfs", "mkfs.ext3", "mkfs.vfat"})


def disk(content: Content | None = None, *, path: str = "/dev/sdc", **more: Any) -> NamedDisk:
    values = {"size": SIZE, "sequence": 7, **more}
    return NamedDisk(path=path, content=content if content is not None else blank(SIZE), **values)


def part(number: int, content: Content | None = None, *, path: str = "/dev/sdc") -> NamedPartition:
    size = SIZE // 2
    held = content if content is not None else blank(size)
    return NamedPartition(path=f"{path}{number}", number=number, start=MIB, size=size, content=held)


def facts(*disks: NamedDisk, names: tuple[tuple[str, str], ...] = (), **more: Any) -> NamedDisks:
    own = tuple((one.path, one.path) for one in disks)
    own += tuple((inner.path, inner.path) for one in disks for inner in one.partitions)
    values = {"tools": TOOLS, "fresh": FRESH, **more}
    return NamedDisks(names=(*own, *names), disks=disks, **values)


def command(step: object) -> str:
    """The words of the program that a step runs on a device."""
    assert isinstance(step, Step)
    way = step.ways[0]
    assert isinstance(way, Way), way
    action = way.actions[-1]
    return " ".join(action.run.argv if isinstance(action, OnDevices) else action.argv)  # type: ignore[union-attr]


def writes_to(plan: Plan) -> set[str]:
    """The devices that the plan writes to."""
    found = set()
    for item in plan:
        for way in item.ways if isinstance(item, Step) else ():
            for action in way.actions if isinstance(way, Way) else ():
                found |= {device.path for device in action.devices} if isinstance(action, OnDevices) else set()
    return found


def refusals(plan: Plan) -> list[str]:
    ways = [way for item in plan if isinstance(item, Step) for way in item.ways]
    return [way.why for way in ways if isinstance(way, Declined)]


def kinds(plan: Plan) -> list[str]:
    return [type(item).__name__ for item in plan if isinstance(item, (Step, Satisfied, Caution))]
