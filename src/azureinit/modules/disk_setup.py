"""disk_setup, fs_setup: partition tables and file systems on data disks.

Nothing is written to the operating system's disk, to a disk that is in use, or, without `overwrite`, to a device that
is not blank. A file system on a new partition is planned when the partition exists, from new facts. Temporary disks
are in modules/temporary_disks.py.
"""

from __future__ import annotations

from azureinit.backends.named_disks import clear_disk, partition_disk, partition_type
from azureinit.errors import CustomDataFailed
from azureinit.modules.device_names import Named, named_device, text_of
from azureinit.modules.disk_care import described, find_disk, protected, refusal, untouched
from azureinit.modules.fs_setup import plan_filesystem
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, Declined, OnDevices, Satisfied, Step, Way
from azureinit.plan.disk_judgement import holds_nothing
from azureinit.record import Record
from azureinit.userdata.node import FLAG, LIST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.named_disks import NamedDisk, NamedDisks
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "disk_setup"
TABLES = {"gpt": "gpt", "mbr": "dos"}
LINUX_CODE = "83"
MOST_ON_MBR = 4


class Layout(Record):
    """`parts`: the size in sectors, 0 for the rest, and the type as sfdisk takes it."""

    table: str
    parts: tuple[tuple[int, str], ...] = ()
    refused: str = ""


def data_devices(request: Request) -> tuple[tuple[Node, Node, Named], ...]:
    """The disks of disk_setup, without temporary ones: the name, its settings, the device."""
    asked = request.config.get(MODULE)
    rows = [(key, value, named_device(request, text_of(key))) for key, value in asked.pairs()] if asked else []
    return tuple(row for row in rows if not row[2].temporary)


def data_filesystems(request: Request) -> tuple[tuple[Node, Named], ...]:
    asked = request.config.get("fs_setup")
    rows = [(one, named_device(request, text_of(one.get("device")))) for one in asked.items()] if asked else []
    return tuple(row for row in rows if not row[1].temporary)


def is_asked(request: Request) -> bool:
    return bool(data_devices(request) or data_filesystems(request))


def named_paths(request: Request) -> tuple[str, ...]:
    """The devices whose facts the planner needs."""
    found = [device for _, _, device in data_devices(request)]
    found += [device for _, device in data_filesystems(request)]
    return tuple(dict.fromkeys(one.device for one in found if one.device.startswith("/dev/")))


def filesystems_of(request: Request) -> tuple[str, ...]:
    kinds = (text_of(one.get("filesystem")) for one, _ in data_filesystems(request))
    return tuple(dict.fromkeys(kind for kind in kinds if kind))


def plan_disk_setup(request: Request, facts: NamedDisks) -> Plan:
    """What cannot be done at all is a failure, after everything else is done."""
    if request.rooted:
        nodes = [key for key, _, _ in data_devices(request)] + [one for one, _ in data_filesystems(request)]
        return tuple(Caution(name=named(MODULE, node), why=f"not done: {ON_TREE}") for node in nodes)
    items: list[Item] = []
    written: set[str] = set()  # devices that this plan writes to
    for key, value, device in data_devices(request):
        items.append(_plan_table(key, value, device, facts))
        written |= devices_of(items[-1])
    fresh = iter(facts.fresh)
    for node, device in data_filesystems(request):
        items.append(plan_filesystem(node, device, facts, fresh=next(fresh, ""), written=frozenset(written)))
        written |= devices_of(items[-1])
    return in_order(items)


def is_work(item: Item) -> bool:
    return isinstance(item, Step) and any(isinstance(way, Way) for way in item.ways)


def devices_of(item: Item) -> set[str]:
    """The devices that a step writes to."""
    ways = [way for way in item.ways if isinstance(way, Way)] if isinstance(item, Step) else []
    actions = [action for way in ways for action in way.actions if isinstance(action, OnDevices)]
    return {device.path for action in actions for device in action.devices}


def in_order(items: list[Item]) -> Plan:
    """While there is other work, a refusal is shown and does not stop it; the last plan fails with it."""
    if not any(map(is_work, items)):
        return tuple(items)
    made: list[Item] = []
    for item in items:
        if isinstance(item, Step) and not is_work(item):
            why = "; ".join(way.why for way in item.ways if isinstance(way, Declined))
            made.append(Caution(name=item.name, why=f"cannot be done: {why}"))
        else:
            made.append(item)
    return tuple(made)


# ---- tables


def _plan_table(key: Node, value: Node, device: Named, facts: NamedDisks) -> Item:
    name = named(MODULE, key, device.text)
    layout = value.get("layout")
    if layout is None or not layout.value:
        return Satisfied(name=name, why="no layout is asked for")
    reason = "customData asks for a partition table"
    disk = find_disk(facts, device)
    if disk is None:
        return refusal(name, f"{device.device or device.text} is not there, or no disk", reason=reason)
    if dict(facts.names).get(device.device) != disk.path or device.partition:
        return refusal(name, f"{device.text} is a partition, not a disk", reason=reason)
    overwrite = _is_true(value.get("overwrite"))
    blank = not disk.partitions and holds_nothing(disk.content)
    if layout.value == "remove":
        return _removal(name, disk, facts, blank=blank, overwrite=overwrite)
    table = text_of(value.get("table_type")) or "mbr"
    wanted = layout_of(disk, layout, table)
    if wanted.refused:
        return refusal(name, wanted.refused, reason=reason)
    if not disk.system and not disk.temporary and _has_layout(disk, wanted, exact=layout.kind == LIST):
        return Satisfied(name=name, why=f"{disk.path} has such a table, with {len(disk.partitions)} partitions")
    why = protected(disk)
    if why:
        return refusal(name, why, reason=reason)
    if not blank and not overwrite:
        return Caution(name=name, why=f"left alone: {disk.path} holds {_held(disk)}, and overwrite is not set")
    missing = [tool for tool in ("sfdisk", *(() if blank else ("wipefs",))) if tool not in facts.tools]
    if missing:
        return refusal(name, f"{' and '.join(missing)} not installed", reason=reason)
    wipe = () if blank else (*(part.path for part in disk.partitions), disk.path)
    run = partition_disk(disk.path, table=table, parts=wanted.parts, wipe=wipe)
    told = f"{disk.path} is blank" if blank else f"overwrite destroys what is there: {_held(disk)}"
    return Step(
        name=name,
        why=f"{reason}, and {told}",
        did=f"partitioned {disk.path} ({table}, {len(wanted.parts)} partitions)",
        ways=(Way(backend="sfdisk", actions=(OnDevices(devices=(untouched(disk),), run=run),)),),
        failure=CustomDataFailed,
    )


def _removal(name: str, disk: NamedDisk, facts: NamedDisks, *, blank: bool, overwrite: bool) -> Item:
    signs = disk.content.signatures if disk.content is not None else ()
    if not disk.system and not disk.temporary and disk.content is not None and not disk.partitions and not signs:
        return Satisfied(name=name, why=f"{disk.path} has no partition table")
    reason = "customData asks for no partition table"
    why = protected(disk)
    if why:
        return refusal(name, why, reason=reason)
    if not overwrite and not blank:
        return Caution(name=name, why=f"left alone: {disk.path} holds {_held(disk)}, and overwrite is not set")
    if "wipefs" not in facts.tools:
        return refusal(name, "wipefs is not installed", reason=reason)
    run = clear_disk(disk.path, tuple(part.path for part in disk.partitions))
    return Step(
        name=name,
        why=f"{reason}; what is there is destroyed: {_held(disk)}",
        did=f"removed the partition table of {disk.path}",
        ways=(Way(backend="wipefs", actions=(OnDevices(devices=(untouched(disk),), run=run),)),),
        failure=CustomDataFailed,
    )


def layout_of(disk: NamedDisk, layout: Node, table: str) -> Layout:
    """As cloud-init computes it: the last partition takes the rest of the disk."""
    linux = partition_type(table, LINUX_CODE)
    if layout.kind != LIST:
        return Layout(table=table, parts=((0, linux),))
    rows = layout.items()
    if table == "mbr" and len(rows) > MOST_ON_MBR:
        return Layout(table=table, refused=f"a table of type mbr has at most {MOST_ON_MBR} partitions")
    parts: list[tuple[int, str]] = []
    before = 0.0
    for row in rows:
        fields = row.items() if row.kind == LIST else (row,)
        percent = _percent(fields[0]) if fields else None
        kind = partition_type(table, text_of(fields[1])) if len(fields) > 1 else linux
        if percent is None or percent <= 0:
            return Layout(table=table, refused=f"line {row.line}: {text_of(fields[0])[:20]} is no percentage")
        if not kind:
            return Layout(table=table, refused=f"line {row.line}: this partition type is not known for {table}")
        parts.append((int(disk.size // disk.sector * (percent / 100)), kind))
        before += percent if len(parts) < len(rows) else 0
    if before >= 100:
        return Layout(table=table, refused="the partitions before the last one take the whole disk")
    parts[-1] = (0, parts[-1][1])
    if any(not sectors for sectors, _ in parts[:-1]):
        return Layout(table=table, refused=f"{disk.path} is too small for this layout")
    return Layout(table=table, parts=tuple(parts))


def _percent(node: Node) -> float | None:
    try:
        value = float(node.value)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if value <= 100 else None


def _has_layout(disk: NamedDisk, wanted: Layout, *, exact: bool) -> bool:
    """The kind of table and the number of partitions, as cloud-init compares; with `true`, any partition will do."""
    kinds = {one.kind for one in disk.content.signatures} if disk.content is not None else set()
    count = len(disk.partitions)
    return TABLES[wanted.table] in kinds and (count == len(wanted.parts) if exact else count > 0)


def _held(disk: NamedDisk) -> str:
    inner = [f"{part.path} ({described(part.content)})" for part in disk.partitions if not holds_nothing(part.content)]
    return described(disk.content) + (f": {', '.join(inner)}" if inner else "")


def _is_true(node: Node | None) -> bool:
    return node is not None and node.kind == FLAG and node.value is True
