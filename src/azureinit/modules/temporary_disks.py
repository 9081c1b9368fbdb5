"""disk_setup, fs_setup, mounts and swap for the temporary disk (`ephemeral0`): settings for the planner of temporary
disks, which has the rules for what may be formatted. `overwrite` counts nothing here.

`ephemeral0` is the SCSI resource disk, or the local NVMe disks where there is none. The work is done at every boot: a
VM that was moved to another host has an empty disk.
"""

from __future__ import annotations

from azureinit.errors import ConfigInvalid, CustomDataFailed
from azureinit.facts.temporary_disks import NVME, SCSI
from azureinit.modules.device_names import named_device, text_of
from azureinit.modules.mount_options import for_own_units
from azureinit.modules.mounts import mount_nodes
from azureinit.modules.steps import ON_TREE, named
from azureinit.modules.swap import asked_swap, parse_size, suggested
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.plan.disks import plan_disks
from azureinit.record import Record, replace
from azureinit.userdata.node import LIST, NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import DiskFacts
    from azureinit.memory.disk_sets import DiskSet
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "temporary_disks"
SWAP = "swap"
SWAP_CODES = ("82", "8200")
KINDS = ("ext4", "xfs", "btrfs")
MIB = 1 << 20
POINT = "/mnt"


class TemporaryFacts(Record):
    """`sets`: those that this VM recorded in the file `sets_path`. `memory`: in bytes."""

    disks: DiskFacts
    sets: tuple[DiskSet, ...]
    sets_path: str
    memory: int | None = None


class Wish(Record):
    """What a cloud-config asks of the temporary disk. `node`: where it begins.

    `swap_share`: the part of the disk that is swap, in percent; 100: all of it. `remarks`: what is not done, and why.
    """

    node: Node
    table: str = ""
    filesystem: str = ""
    label: str = ""
    point: str = ""
    options: str = ""
    swap_share: float = 0
    swap_file: str = ""
    remarks: tuple[str, ...] = ()


def is_asked(request: Request) -> bool:
    return wish(request) is not None


def wish(request: Request) -> Wish | None:
    """None where the document says nothing of temporary disks, or only that they are not mounted."""
    layout, tables = _layout(request)
    systems = _systems(request)
    rows = _rows(request)
    mounted = [row for row in rows if _field(row, 1)]
    nodes = [*tables, *systems, *mounted]
    if not nodes:
        removed = bool(rows)
        return Wish(node=request.config, point=POINT, table="gpt") if request.compatible and not removed else None
    swaps = {_number(request, node) for node in systems if text_of(node.get("filesystem")) == SWAP}
    swaps |= {named_device(request, text_of(row.items()[0])).partition for row in mounted if _field(row, 2) == SWAP}
    swaps |= {str(at) for at, (_, kind) in enumerate(layout, 1) if kind in SWAP_CODES}
    remarks = _remarks(systems)
    data = [str(at) for at in range(1, len(layout) + 1) if str(at) not in swaps]
    if len(layout) - len(data) > 1 or len(data) > 1:
        remarks.append("it gets one file system and at most one swap partition: the other partitions are not made")
    share = _share(layout, swaps)
    system = next((one for one in systems if text_of(one.get("filesystem")) != SWAP), None)
    row = next((row for row in mounted if _field(row, 2) != SWAP), None)
    if swaps and not share and system is None and row is None:
        share = 100.0
    elif swaps and not share:
        remarks.append("it gets no swap partition: layout does not have it")
    filesystem = text_of(system.get("filesystem")) if system is not None else ""
    if filesystem and filesystem not in KINDS:
        remarks.append(f"it gets ext4: {filesystem[:20]} is not made on temporary disks")
        filesystem = ""
    point = _field(row, 1) if row is not None else POINT
    return Wish(
        node=nodes[0],
        table="gpt" if layout else "",
        filesystem=filesystem,
        label=text_of(system.get("label")) if system is not None else "",
        point=point.rstrip("/") or POINT,
        options=for_own_units(_field(row, 3)) if row is not None else "",
        swap_share=share,
        swap_file=_swap_file(request, point),
        remarks=tuple(remarks),
    )


def settings_of(request: Request, asked: Wish) -> Disk:
    """The [disk] section that the document amounts to. ConfigInvalid for values that it does not allow."""
    from azureinit.config.model import checked

    base = request.settings.disk
    values = {
        "setup": "auto",
        "table": asked.table or base.table,
        "filesystem": asked.filesystem or base.filesystem,
        "label": asked.label or base.label,
        "mount_point": asked.point,
        "scsi_mount_point": asked.point,
        "mount_options": asked.options or base.mount_options,
        "swap_mib": 0,
    }
    kinds = {"label": "Label", "mount_point": "MountPoint", "mount_options": "MountOptions"}
    for key, kind in kinds.items():
        values[key] = checked(kind, values[key], default=getattr(base, key))
    values["scsi_mount_point"] = values["mount_point"]
    return replace(base, **values)


def plan_temporary_disks(request: Request, facts: TemporaryFacts) -> Plan:
    asked = wish(request)
    if asked is None:
        return ()
    name = named(MODULE, asked.node, "ephemeral0")
    unnamed = asked.node is request.config  # compatible, and the document says nothing of it
    told = Satisfied if unnamed else Caution
    if request.rooted:
        return (told(name=name, why=f"not set up: {ON_TREE}"),)
    if request.settings.disk.setup == "auto":
        why = "left to [disk] of the configuration, whose setup is auto; what customData says of it is not done"
        return (told(name=name, why=why),)
    try:
        settings = settings_of(request, asked)
    except ConfigInvalid as error:
        return (Caution(name=name, why=f"left alone: {error.message}"),)
    disks = facts.disks.disks
    if not disks:
        return (told(name=name, why="this VM has no temporary disk"),)
    kind = SCSI if any(disk.kind == SCSI for disk in disks) else NVME
    size = sum(disk.size for disk in disks if disk.kind == kind)
    settings = _with_swap(replace(settings, **{SCSI: "off", NVME: "off", kind: "data"}), request, asked, facts, size)
    plan = plan_disks(settings, facts.disks, facts.sets, vm_id=request.vm_id, sets_path=facts.sets_path)
    remarks = [Caution(name=name, why=text) for text in asked.remarks]
    return (*remarks, *(_told(item) for item in plan))


def _told(item: Item) -> Item:
    return replace(item, failure=CustomDataFailed) if isinstance(item, Step) else item


def _with_swap(settings: Disk, request: Request, asked: Wish, facts: TemporaryFacts, size: int) -> Disk:
    if asked.swap_share >= 100:
        use = {key: SWAP for key in (NVME, SCSI) if getattr(settings, key) == "data"}
        return replace(settings, swap="partition", **use)
    if asked.swap_share:
        return replace(settings, table="gpt", swap="partition", swap_mib=int(size * asked.swap_share / 100) // MIB)
    swap = asked_swap(request)
    if not asked.swap_file or swap is None:
        return settings
    bytes_ = parse_size(swap.size)
    if bytes_ is None and facts.memory is not None:
        most = parse_size(swap.most) if swap.most else None
        bytes_ = suggested(memory=facts.memory, free=size, most=most)
    return replace(settings, swap="file", swap_mib=(bytes_ or 0) // MIB)


# ---- the document


def _layout(request: Request) -> tuple[list[tuple[float, str]], list[Node]]:
    """The partitions, as percentage and type; and the nodes that name the disk."""
    found: list[tuple[float, str]] = []
    nodes: list[Node] = []
    asked = request.config.get("disk_setup")
    for key, value in asked.pairs() if asked is not None else ():
        if not named_device(request, text_of(key)).temporary:
            continue
        nodes.append(key)
        layout = value.get("layout")
        if layout is None or not layout.value or layout.value == "remove":
            continue
        found = [(100.0, "")] if layout.kind != LIST else [_part(row) for row in layout.items()]
    return found, nodes


def _part(row: Node) -> tuple[float, str]:
    fields = row.items() if row.kind == LIST else (row,)
    try:
        percent = min(100.0, max(0.0, float(fields[0].value)))
    except (TypeError, ValueError, OverflowError, IndexError):
        percent = 0.0
    return percent, text_of(fields[1]).lower() if len(fields) > 1 else ""


def _systems(request: Request) -> list[Node]:
    asked = request.config.get("fs_setup")
    nodes = asked.items() if asked is not None else ()
    return [node for node in nodes if named_device(request, text_of(node.get("device"))).temporary]


def _rows(request: Request) -> list[Node]:
    return [node for node, device in mount_nodes(request) if device.temporary]


def _field(row: Node, number: int) -> str:
    fields = row.items()
    return "" if len(fields) <= number or fields[number].kind == NULL else str(fields[number].value)


def _number(request: Request, node: Node) -> str:
    return named_device(request, text_of(node.get("device"))).partition or text_of(node.get("partition"))


def _share(layout: list[tuple[float, str]], swaps: set[str]) -> float:
    """Of the first swap partition. The last partition takes the rest of the disk, whatever it says."""
    for at, (percent, _) in enumerate(layout, 1):
        if str(at) in swaps:
            rest = 100.0 - sum(other for other, _ in layout[:-1])
            return max(1.0, rest if at == len(layout) else percent)
    return 0.0


def _remarks(systems: list[Node]) -> list[str]:
    options = [node for node in systems if node.get("cmd") is not None or node.get("extra_opts") is not None]
    return ["cmd and extra_opts are not used for temporary disks"] if options else []


def _swap_file(request: Request, point: str) -> str:
    """The swap file of the document, where it lies on the temporary disk."""
    swap = asked_swap(request)
    return swap.path if swap is not None and swap.path.startswith(f"{point.rstrip('/')}/") else ""
