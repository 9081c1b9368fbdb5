"""fs_setup: one file system on a data disk, or on a partition of it."""

from __future__ import annotations

from azureinit.backends.named_disks import label_limit, make_named_filesystem, run_command, signatures_removed, tool_for
from azureinit.errors import CustomDataFailed
from azureinit.modules.device_names import text_of
from azureinit.modules.disk_care import described, find_disk, protected, refusal, untouched
from azureinit.modules.steps import named
from azureinit.plan.actions import Caution, OnDevices, Satisfied, Step, Way
from azureinit.plan.disk_judgement import holds_nothing
from azureinit.record import Record
from azureinit.userdata.node import LIST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disk_content import Content, Signature
    from azureinit.facts.named_disks import NamedDisk, NamedDisks, NamedPartition
    from azureinit.modules.device_names import Named
    from azureinit.plan.actions import Item, Run
    from azureinit.userdata.node import Node

MODULE = "fs_setup"
REASON = "customData asks for this file system"
TABLES = ("gpt", "dos", "pmbr")
# File systems whose label is known from their signature.
LABELLED = ("ext2", "ext3", "ext4", "xfs", "btrfs", "swap")


class Target(Record):
    """Where the file system belongs: a partition, or the whole disk. `there`: it is there already."""

    part: NamedPartition | None = None
    there: bool = False
    refused: str = ""


class Wanted(Record):
    kind: str
    label: str
    overwrite: bool
    replaces: str


def plan_filesystem(node: Node, device: Named, facts: NamedDisks, *, fresh: str, written: frozenset[str]) -> Item:
    """`fresh`: a new UUID. `written`: devices that other steps of this plan write to."""
    name = named(MODULE, node, device.text)
    wanted = Wanted(
        kind=text_of(node.get("filesystem")),
        label=text_of(node.get("label")),
        overwrite=_flag(node, "overwrite"),
        replaces=_replaces(node),
    )
    disk = find_disk(facts, device)
    if disk is None:
        return refusal(name, f"{device.device or device.text} is not there, or no disk", reason=REASON)
    if disk.system or disk.temporary:
        return refusal(name, protected(disk), reason=REASON)
    if disk.path in written:  # its partitions are seen by the next plan
        return Satisfied(name=name, why=f"planned when {disk.path} has its partitions")
    target = _target(node, device, disk, facts, wanted, written)
    if target.refused:
        return refusal(name, target.refused, reason=REASON)
    place: NamedDisk | NamedPartition = target.part or disk
    if target.there:
        return Satisfied(name=name, why=f"{place.path} has it: {described(place.content)}")
    why = protected(disk)
    if why:
        return refusal(name, why, reason=REASON)
    if place.path in written or (target.part is None and any(part.path in written for part in disk.partitions)):
        return Satisfied(name=name, why=f"planned when {place.path} has the file system that is asked for before")
    blank = holds_nothing(place.content) and (target.part is not None or not disk.partitions)
    replaced = wanted.replaces and wanted.replaces in _kinds(place.content)
    if not blank and not wanted.overwrite and not replaced:
        return Caution(name=name, why=f"left alone: {place.path} holds {described(place.content)}; set overwrite")
    made = _program(node, place.path, wanted, facts, uuid=fresh, blank=blank)
    if isinstance(made, str):
        return refusal(name, made, reason=REASON)
    if not blank and target.part is None:
        if "wipefs" not in facts.tools:
            return refusal(name, "wipefs is not installed", reason=REASON)
        made = signatures_removed((*(part.path for part in disk.partitions), disk.path), made)
    told = f"{place.path} is blank" if blank else f"what is there is destroyed: {described(place.content)}"
    kind = wanted.kind or "file system"
    return Step(
        name=name,
        why=f"{REASON}, and {told}",
        did=f"made {kind}{f' {wanted.label}' if wanted.label else ''} on {place.path}",
        ways=(
            Way(
                backend=made.argv[0],
                actions=(OnDevices(devices=(untouched(disk, target.part),), run=made),),
            ),
        ),
        failure=CustomDataFailed,
    )


# ---- where


def _target(
    node: Node, device: Named, disk: NamedDisk, facts: NamedDisks, wanted: Wanted, written: frozenset[str]
) -> Target:
    asked = device.partition or text_of(node.get("partition")) or "any"
    path = dict(facts.names).get(device.device)
    own = next((part for part in disk.partitions if part.path == path), None)
    if own is not None and asked.lower() in ("any", "auto", "none"):
        return Target(part=own, there=_is_there(own.content, wanted, label=True))
    if own is not None:
        return Target(refused=f"{device.text} is a partition itself")
    if asked.isascii() and asked.isdigit():
        part = next((one for one in disk.partitions if one.number == int(asked)), None)
        if part is None:
            return Target(refused=f"{disk.path} has no partition {asked[:9]}")
        return Target(part=part, there=_is_there(part.content, wanted, label=True))
    if asked.lower() == "none":
        return Target(there=_is_there(disk.content, wanted, label=True))
    if asked.lower() in ("any", "auto"):
        return _free(disk, wanted, written, label=asked.lower() == "auto")
    return Target(refused=f"partition is auto, any, none or a number, not {asked[:20]}")


def _free(disk: NamedDisk, wanted: Wanted, written: frozenset[str], *, label: bool) -> Target:
    """As cloud-init looks for it: the first device that has it, is to be replaced, or holds no file system."""
    for part in (None, *(part for part in disk.partitions if part.path not in written)):
        content = disk.content if part is None else part.content
        if wanted.replaces and not label and wanted.replaces in _kinds(content):
            return Target(part=part)
        if _is_there(content, wanted, label=label):
            return Target(part=part, there=True)
        if part is not None and not _kinds(content):
            return Target(part=part)
    if not disk.partitions and (not _kinds(disk.content) or wanted.overwrite):
        return Target()
    return Target(refused=f"{disk.path} has no partition without a file system")


def _is_there(content: Content | None, wanted: Wanted, *, label: bool) -> bool:
    found = _filesystems(content)
    if not wanted.kind:  # only a command is given: whatever it made
        return bool(found)
    return any(
        one.kind == wanted.kind and (not label or one.kind not in LABELLED or one.label == wanted.label)
        for one in found
        if not one.unfinished
    )


def _filesystems(content: Content | None) -> tuple[Signature, ...]:
    signs = content.signatures if content is not None else ()
    return tuple(one for one in signs if one.kind not in TABLES)


def _kinds(content: Content | None) -> set[str]:
    return {one.kind for one in _filesystems(content)}


# ---- how


def _program(node: Node, path: str, wanted: Wanted, facts: NamedDisks, *, uuid: str, blank: bool) -> Run | str:
    """Or why there is none."""
    given = node.get("cmd")
    if given is not None and given.value:
        return run_command(_formatted(given, path, wanted))
    if not wanted.kind:
        return "neither filesystem nor cmd is set"
    tool = tool_for(wanted.kind)
    if not tool:
        return f"a file system of this kind cannot be made: {wanted.kind[:20]}; cmd can name a command for it"
    if tool not in facts.tools:
        return f"{tool} is not installed"
    if len(wanted.label.encode("utf-8", "surrogateescape")) > label_limit(wanted.kind):
        return f"the label is longer than the {label_limit(wanted.kind)} bytes that {wanted.kind} allows"
    if wanted.label.startswith("-"):
        return "the label begins with a hyphen"
    if not uuid:
        return "there is no new UUID"
    return make_named_filesystem(
        wanted.kind, path, uuid=uuid, label=wanted.label, extra=_words(node.get("extra_opts")), overwrite=not blank
    )


def _words(node: Node | None) -> tuple[str, ...]:
    if node is not None and node.kind == LIST:
        return tuple(map(text_of, node.items()))
    return tuple(text_of(node).split())


def _formatted(given: Node, path: str, wanted: Wanted) -> str | tuple[str, ...]:
    """The places that cloud-init fills in. Everything else stays as it is."""

    def fill(text: str) -> str:
        for name, value in (("label", wanted.label), ("filesystem", wanted.kind), ("device", path)):
            text = text.replace(f"%({name})s", value)
        return text.replace("%%", "%")

    if given.kind == LIST:
        return tuple(fill(text_of(word)) for word in given.items())
    return fill(text_of(given))


def _replaces(node: Node) -> str:
    value = node.get("replace_fs")
    return str(value.value) if value is not None and isinstance(value.value, str) else ""


def _flag(node: Node, key: str) -> bool:
    value = node.get(key)
    return value is not None and value.value is True
