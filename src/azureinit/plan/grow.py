"""Grow the root partition and its file system into unused space."""

from __future__ import annotations

from azureinit.backends.grow import FILESYSTEM, PARTITION
from azureinit.facts.disks import LEAST_ROOM
from azureinit.plan.actions import Caution, Satisfied, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disks import Disk
    from azureinit.plan.actions import Plan

MEGABYTE = 1 << 20


def plan_grow(disk: Disk) -> Plan:
    """One plan is enough, since the tools find the new sizes; if the partition step fails, the second is not tried."""
    name = f"file system at {disk.mount}" if disk.mount != "/" else "root file system"
    if disk.not_ours:
        return (Caution(name=name, why=f"not grown: {disk.not_ours}"),)
    if not disk.grows:
        unseen = ", as far as can be seen" if disk.filled is None else ""
        return (Satisfied(name=name, why=f"uses all of {disk.device}{unseen}"),)
    behind = disk.room if disk.room >= LEAST_ROOM else 0
    partition = Step(
        name="root partition",
        why=f"{behind // MEGABYTE} MiB are free behind {disk.device}",
        did=f"grew the partition {disk.device} by {behind // MEGABYTE} MiB",
        ways=tuple(way(disk) for way in PARTITION),
    )
    filesystem = Step(
        name=name,
        why=f"{disk.filesystem} gains {(disk.slack + behind) // MEGABYTE} MiB",
        did=f"grew the {disk.filesystem} file system at {disk.mount} by {(disk.slack + behind) // MEGABYTE} MiB",
        ways=tuple(way(disk) for way in FILESYSTEM),
    )
    return (partition, filesystem) if behind else (filesystem,)
