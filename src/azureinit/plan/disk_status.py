"""What is where: a row for each disk, array and volume, for `azure-init disk status` and the result of a run."""

from __future__ import annotations

from azureinit.plan.actions import Caution, Step
from azureinit.plan.disk_judgement import is_shipped_ntfs
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.facts.disk_content import Content
    from azureinit.facts.temporary_disks import Assembled, DiskFacts, OtherDisk, Partition, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.plan.actions import Plan

WHAT = {"nvme": "local NVMe disk", "scsi": "SCSI resource disk"}
OURS, FREE, OTHER = "azure-init", "free", "another program"
SAID = ("left alone", "not used")  # by the planner, at the beginning of a reason
CONTAINERS = ("gpt", "dos", "pmbr", "md", "lvm2")  # they hold something else


class DiskStatus(Record):
    """`state`: in use, to be set up, left alone, not used, or nothing to do; `why`: the reason. `size`: in bytes."""

    name: str
    path: str
    what: str
    size: int
    temporary: bool = True
    identity: str = ""
    evidence: str = ""
    members: tuple[str, ...] = ()
    filesystem: str = ""
    label: str = ""
    mounts: tuple[str, ...] = ()
    swaps: tuple[str, ...] = ()
    owner: str = ""
    state: str = ""
    why: str = ""


def disk_status(facts: DiskFacts, sets: tuple[DiskSet, ...], plan: Plan) -> tuple[DiskStatus, ...]:
    """Temporary disks first, with their partitions and what is made of them, then the others."""
    rows: list[DiskStatus] = []
    for disk in facts.disks:
        rows.append(_disk(disk, facts, sets, plan))
        rows += [_partition(part, disk, rows[-1]) for part in disk.partitions]
    parents = {made.parent for made in facts.assembled}
    rows += [_assembled(made, rows, cut=made.name in parents) for made in facts.assembled]
    return (*rows, *map(_other, facts.others))


def _other(disk: OtherDisk) -> DiskStatus:
    return DiskStatus(
        name=disk.name,
        path=disk.path,
        what=disk.why,
        size=disk.size,
        temporary=False,
        mounts=disk.mounts,
        swaps=disk.swaps,
    )


def _disk(disk: TemporaryDisk, facts: DiskFacts, sets: tuple[DiskSet, ...], plan: Plan) -> DiskStatus:
    filesystem, label = _content(disk.content)
    state, why = _state(disk, plan)
    return DiskStatus(
        name=disk.name,
        path=disk.path,
        what=WHAT.get(disk.kind, disk.kind),
        size=disk.size,
        identity=disk.identity,
        evidence=disk.evidence,
        filesystem=filesystem,
        label=label,
        mounts=disk.mounts if not disk.partitions and not disk.holders else (),
        swaps=disk.swaps if not disk.partitions and not disk.holders else (),
        owner=_owner(disk, facts, sets),
        state=state,
        why=why,
    )


def _partition(part: Partition, disk: TemporaryDisk, whole: DiskStatus) -> DiskStatus:
    filesystem, label = _content(part.content)
    return DiskStatus(
        name=part.name,
        path=part.path,
        what=f"partition {part.number} of {disk.name}",
        size=part.size,
        filesystem=filesystem,
        label=label,
        mounts=part.mounts if not disk.holders else (),
        swaps=part.swaps if not disk.holders else (),
        owner=whole.owner,
        state=whole.state,
    )


def _assembled(made: Assembled, rows: list[DiskStatus], *, cut: bool) -> DiskStatus:
    """`cut`: it has partitions, which have rows of their own."""
    filesystem, label = _content(made.content)
    under = [row for row in rows if row.name in made.members]
    what = "array" if made.name.startswith("md") else "LVM volume"
    return DiskStatus(
        name=made.name,
        path=made.path,
        what=f"partition {made.number} of {made.parent}" if made.parent else what,
        size=made.size,
        members=() if made.parent else made.members,
        filesystem=filesystem,
        label=label,
        mounts=made.mounts if not cut else (),
        swaps=made.swaps if not cut else (),
        owner=under[0].owner if under else "",
        state="in use" if made.mounts or made.swaps else under[0].state if under else "",
    )


def _content(content: Content | None) -> tuple[str, str]:
    """File system and label, as people call them."""
    if content is None:
        return "", ""
    if content.blank:
        return "blank", ""
    found = [one for one in content.signatures if one.kind not in CONTAINERS]
    found = found or list(content.signatures)
    if not found:
        return "unknown data", ""
    return found[0].kind + (" (unfinished)" if found[0].unfinished else ""), found[0].label


def _state(disk: TemporaryDisk, plan: Plan) -> tuple[str, str]:
    """By the item that has the disk's name, else by those that name it in their reason."""
    own = [item for item in plan if item.name == disk.path]
    items = own or [item for item in plan if disk.path in _words(item.why)]
    steps = [item for item in items if isinstance(item, Step)]
    if steps:
        return "to be set up", steps[-1].name
    for item in items:
        if isinstance(item, Caution) or item in own:
            state, _, why = item.why.partition(": ")
            return (state, why) if why and state in SAID else ("left alone", item.why)
        return "in use", ""
    if disk.trouble:
        return "left alone", disk.trouble
    return ("in use", disk.busy) if disk.busy else ("nothing to do", "")


def _words(text: str) -> Iterator[str]:
    return (word.strip(",.;:()'\"") for word in text.split())


def _owner(disk: TemporaryDisk, facts: DiskFacts, sets: tuple[DiskSet, ...]) -> str:
    if any(disk.identity in one.members for one in sets):
        return OURS
    if disk.kind == "scsi" and (disk.busy or disk.mounts) and facts.cloud_init.startswith("fstab: "):
        return "cloud-init"
    if disk.kind == "scsi" and disk.mounts and facts.waagent_formats:
        return "WALinuxAgent"
    if disk.busy or disk.mounts or disk.swaps or disk.holders:
        return OTHER
    if is_shipped_ntfs(disk, trust=False):
        return "the platform"
    return FREE if disk.content is not None and disk.content.blank else ""
