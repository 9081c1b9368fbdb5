"""mounts, swap: rows of fstab as cloud-init writes them, mounted and in use; and a swap file.

Every row of ours has cloud-init's comment among its options and is written anew each time; rows of others stay byte
for byte as they are. Temporary disks are in modules/temporary_disks.py.
"""

from __future__ import annotations

from azureinit.backends.filesystem import swap_on
from azureinit.backends.mount import reload_units
from azureinit.backends.mount_rows import mount_row
from azureinit.errors import CustomDataFailed
from azureinit.modules.device_names import named_device, text_of
from azureinit.modules.mount_options import AFTER, for_own_units
from azureinit.modules.steps import ON_TREE, named, refused
from azureinit.modules.swap import asked_swap, plan_swap_file
from azureinit.plan.actions import Caution, MakeDir, Satisfied, Step, Way, Write
from azureinit.record import Record, Secret, replace
from azureinit.userdata.node import NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.mount_rows import Found, MountFacts
    from azureinit.modules.device_names import Named
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE, FSTAB = "mounts", "/etc/fstab"
COMMENT = "comment=cloudconfig"
OPTIONS = f"defaults,nofail,{AFTER},_netdev"
DEFAULTS: tuple[str | None, ...] = (None, None, "auto", OPTIONS, "0", "2")
DEVICES = ("/dev/", "LABEL=", "UUID=", "PARTLABEL=", "PARTUUID=")
SWAP_ROW = ("none", "swap", "sw", "0", "0")
# Written as octal numbers: they end a field, or the line.
ESCAPED = str.maketrans({" ": "\\040", "\t": "\\011", "\n": "\\012", "\r": "\\015"})


class Row(Record):
    """`device`: as it stands in fstab. `missing`: it names a device that is not there."""

    node: Node
    text: str
    device: str
    point: str | None
    filesystem: str
    options: str
    frequency: str
    order: str
    kernel: str = ""
    missing: bool = False

    @property
    def line(self) -> str:
        fields = (self.device, self.point or "", self.filesystem, self.options, self.frequency, self.order)
        return "\t".join(field.translate(ESCAPED) for field in fields)

    @property
    def is_swap(self) -> bool:
        return self.filesystem == "swap"

    @property
    def words(self) -> list[str]:
        return self.options.split(",")


def mount_nodes(request: Request) -> tuple[tuple[Node, Named], ...]:
    """The rows, with their devices."""
    asked = request.config.get(MODULE)
    rows = asked.items() if asked is not None else ()
    return tuple((row, named_device(request, text_of(row.items()[0]))) for row in rows if row.items())


def named_devices(request: Request) -> tuple[tuple[str, str], ...]:
    """The devices whose facts the planner needs: name and partition."""
    return tuple((one.device, one.partition) for _, one in mount_nodes(request) if one.device and not one.temporary)


def mount_points(request: Request) -> tuple[str, ...]:
    return tuple(text_of(row.items()[1]) for row, _ in mount_nodes(request) if len(row.items()) > 1)


def swap_path(request: Request) -> str:
    asked = asked_swap(request)
    return asked.path if asked is not None else ""


def is_asked(request: Request) -> bool:
    return bool(mount_nodes(request)) or asked_swap(request) is not None


def plan_mounts(request: Request, facts: MountFacts, *, on_temporary_disk: str = "") -> Plan:
    """`on_temporary_disk`: the swap file, where it is made with the temporary disk."""
    items: list[Item] = []
    refusals: list[Item] = []  # last: they do not keep the other rows from being done
    rows = []
    for row in kept_rows([_row(request, node, device, facts) for node, device in mount_nodes(request)]):
        unsafe = "" if row.is_swap else facts.unsafe.get(row.point or "", "")
        if unsafe:
            item = refused(named(MODULE, row.node, row.text), unsafe, reason="customData asks for this mount")
            refusals.append(replace(item, failure=CustomDataFailed))
            continue
        why = _left_out(row, facts)
        if why or row.missing:
            own = f"{row.device} is not there: the row is written, and nothing is mounted now"
            items.append(Caution(name=named(MODULE, row.node, row.text), why=why or own))
        if not why:
            rows.append(row)
    lines = [row.line for row in rows]
    for row in rows:
        items += _directory(row, facts, rooted=request.rooted)
    uses = [item for row in rows if not row.missing for item in _use(row, facts, rooted=request.rooted)]
    swap = asked_swap(request)
    if swap is not None and facts.swap is not None and on_temporary_disk != swap.path:
        above = next((row for row in rows if _is_below(swap.path, row) and row.point not in facts.mounted), None)
        if above is not None and not request.rooted:
            why = f"planned when {above.point} is mounted"
            items.append(Satisfied(name=named("swap", swap.node, swap.path), why=why))
        else:
            step, listed = plan_swap_file(swap, facts.swap, tools=facts.tools, rooted=request.rooted)
            items.append(step)
            late = next((row for row in rows if _is_below(swap.path, row) and "_netdev" in row.words), None)
            if listed and late is not None:
                why = f"not used after the next boot: {late.point} has _netdev, and swap is needed before the network"
                items.append(Caution(name=f"{named('swap', swap.node, swap.path)} row", why=why))
            elif listed and not any(entry.source == swap.path for entry in facts.entries):
                lines.append("\t".join((swap.path.translate(ESCAPED), *SWAP_ROW)))
    return (*items, *_table(lines, facts, asked=bool(rows) or bool(lines)), *uses, *refusals)


def _is_below(path: str, row: Row) -> bool:
    return not row.is_swap and bool(row.point) and path.startswith(f"{(row.point or '').rstrip('/')}/")


# ---- rows


def _row(request: Request, node: Node, device: Named, facts: MountFacts) -> Row | None:
    """None for a row of a temporary disk."""
    if device.temporary:
        return None
    given = [None if one.kind == NULL else str(one.value) for one in node.items()]
    fields = [*given, None, None, None, None, None, None][:6]
    fields = [value if value is not None else default for value, default in zip(fields, _defaults(request))]
    found = next((one for one in facts.devices if (one.name, one.partition) == (device.device, device.partition)), None)
    return Row(
        node=node,
        text=device.text,
        device=_in_fstab(device, found, facts),
        point=fields[1],
        filesystem=fields[2] or "auto",
        options=for_own_units(fields[3] or "") or "defaults",
        frequency=fields[4] or "0",
        order=fields[5] or "0",
        kernel=found.kernel if found is not None else "",
        missing=_is_missing(device, found),
    )


def _defaults(request: Request) -> tuple[str | None, ...]:
    given = request.config.get("mount_default_fields")
    if given is None or len(given.items()) != len(DEFAULTS):
        return DEFAULTS
    own = [None if one.kind == NULL else str(one.value) for one in given.items()]
    return (None, *(value if value is not None else default for value, default in zip(own[1:], DEFAULTS[1:])))


def _in_fstab(device: Named, found: Found | None, facts: MountFacts) -> str:
    """A row of others that has the device keeps the name that customData gives here, as with cloud-init."""
    path = found.path if found is not None else ""
    others = {entry.source for entry in facts.entries if COMMENT not in entry.line}
    return path if path and path not in others else device.text


def _is_missing(device: Named, found: Found | None) -> bool:
    if not device.device:
        return True
    is_device = device.device.startswith(DEVICES)
    return is_device and (found is None or not found.kernel)


def kept_rows(rows: list[Row | None]) -> list[Row]:
    """Without those whose mount point is null, and those before it for the same device."""
    kept: list[Row] = []
    removed: set[str] = set()
    for row in reversed([row for row in rows if row is not None]):
        if row.point is None or row.device in removed:
            removed.add(row.device)
        else:
            kept.append(replace(row, options=f"{row.options},{COMMENT}"))
    return kept[::-1]


def _left_out(row: Row, facts: MountFacts) -> str:
    """Why no row is written."""
    if row.missing and not row.device.startswith(DEVICES):
        return "no device here has this name: no row is written"
    for entry in facts.entries:
        if COMMENT in entry.line or row.is_swap or entry.point.rstrip("/") != (row.point or "").rstrip("/"):
            continue
        return f"{FSTAB} has a row of others for {entry.point} ({entry.source}): no second one is written"
    return ""


# ---- steps


def _directory(row: Row, facts: MountFacts, *, rooted: bool) -> list[Item]:
    """A mount point where nothing is mounted now. Otherwise it is made right before: it may lie in another one."""
    point = row.point or ""
    if not point.startswith("/") or row.is_swap or point in facts.mounted or point in facts.points:
        return []
    if not (row.missing or rooted or "noauto" in row.words):
        return []
    return [
        Step(
            name=f"{MODULE} directory {point}",
            why="it is a mount point, and not there",
            did=f"made {point}",
            ways=(Way(backend="native", actions=(MakeDir(path=point, mode=0o755, kept=True),)),),
            failure=CustomDataFailed,
        )
    ]


def _table(lines: list[str], facts: MountFacts, *, asked: bool) -> list[Item]:
    if not asked:
        return []
    data = edited(facts.fstab or b"", lines)
    if data == facts.fstab:
        return [Satisfied(name=f"{MODULE} {FSTAB}", why="the rows are in it")]
    # A plan shows the rows, unless the options of one hold a password, as those of a share may.
    hidden = b"pass" in data
    was = Secret(facts.fstab) if hidden and facts.fstab is not None else facts.fstab
    write = Write(path=FSTAB, data=Secret(data) if hidden else data, was=was)
    count = f"{len(lines)} {'row' if len(lines) == 1 else 'rows'}"
    return [
        Step(
            name=f"{MODULE} {FSTAB}",
            why=f"customData asks for {count}",
            did=f"wrote {count} to {FSTAB}",
            ways=(Way(backend="native", actions=(write, reload_units()) if facts.systemd else (write,)),),
            failure=CustomDataFailed,
        )
    ]


def edited(data: bytes, lines: list[str]) -> bytes:
    """The rows with our comment are replaced by `lines`, unless they are the same; every other line stays as it is."""
    own = [line.encode("utf-8", "surrogateescape") + b"\n" for line in lines]
    before = data.splitlines(keepends=True)
    if all(line in before for line in own) and all(line in own for line in before if COMMENT.encode() in line):
        return data
    kept = [line for line in before if COMMENT.encode() not in line and line not in own]
    text = b"".join(kept)
    if text and not text.endswith(b"\n"):
        text += b"\n"
    return text + b"".join(own)


def _use(row: Row, facts: MountFacts, *, rooted: bool) -> list[Item]:
    name = named(MODULE, row.node, row.point if not row.is_swap and row.point else row.text)
    if "noauto" in row.words:
        return [Satisfied(name=name, why="noauto: it is not mounted now")]
    if not row.is_swap and not (row.point or "").startswith("/"):
        return []
    if row.is_swap and (row.kernel or row.device) in facts.active_swaps:
        return [Satisfied(name=name, why=f"{row.device} is in use as swap")]
    if not row.is_swap and (row.point or "").rstrip("/") in {point.rstrip("/") for point in facts.mounted}:
        return [Satisfied(name=name, why=f"something is mounted at {row.point}")]
    if rooted:
        return [Caution(name=name, why=f"not mounted: {ON_TREE}")]
    run = swap_on(row.device) if row.is_swap else mount_row(row.point or "")
    first = () if row.is_swap else (MakeDir(path=row.point or "", mode=0o755, kept=True),)
    return [
        Step(
            name=name,
            why=f"{row.device} is not {'in use' if row.is_swap else 'mounted'}",
            did=f"began to use {row.device} as swap" if row.is_swap else f"mounted {row.device} at {row.point}",
            ways=(Way(backend=run.argv[0], actions=(*first, run)),),
            failure=CustomDataFailed,
        )
    ]
