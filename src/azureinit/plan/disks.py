"""Set up temporary disks: which disks are used for what, which are left alone, and why."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import DiskFacts
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Plan


def plan_disks(
    settings: Disk, facts: DiskFacts, sets: tuple[DiskSet, ...], *, vm_id: str, sets_path: str, recreate: bool = False
) -> Plan:
    """`sets`: those that this VM recorded in `sets_path`. `recreate`: the operator typed --recreate."""
    return ()
