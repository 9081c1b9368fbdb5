"""growpart, resize_rootfs: whether file systems grow into free space.

The root file system grows at every boot by the row in run/maintenance.py; a mark in the VM's directory switches that
off. Other mount points in `growpart.devices` are grown here.
"""

from __future__ import annotations

from azureinit.errors import CustomDataFailed
from azureinit.facts.disks import NO_GROW
from azureinit.modules.device_names import text_of
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, MakeDir, Remove, Satisfied, Step, Way, Write
from azureinit.plan.grow import plan_grow
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disks import Disk
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "growpart"
ROOT = "/"
OFF = ("off", "false", "0", "no", "never")


class GrowFacts(Record):
    """`marked`: the mark is there. `disabled`: the image has /etc/growroot-disabled. `disks`: of the other mount
    points that are asked for, those that are mounted."""

    marked: bool = False
    disabled: bool = False
    disks: tuple[Disk, ...] = ()


def grown_points(request: Request) -> tuple[str, ...]:
    """Mount points besides the root."""
    if _why_off(request, disabled=False):
        return ()
    return tuple(text for text in _devices(request) if text != ROOT and not text.startswith("/dev/"))


def plan_growpart(request: Request, facts: GrowFacts) -> Plan:
    node = _node(request)
    name = named(MODULE, node, "root file system")
    off = _why_off(request, disabled=facts.disabled)
    if not off and ROOT not in _devices(request):
        off = "growpart.devices does not have /"
    items: list[Item] = [_mark(name, request, facts, off)]
    if _why_off(request, disabled=facts.disabled):
        return tuple(items)
    for text in _devices(request):
        if text == ROOT:
            continue
        own = named(MODULE, node, text)
        disk = next((disk for disk in facts.disks if disk.mount == text), None)
        if request.rooted:
            items.append(Caution(name=own, why=f"not grown: {ON_TREE}"))
        elif disk is None:
            items.append(Caution(name=own, why="not grown: it is no mount point; write where it is mounted"))
        else:
            items += [_told(item) for item in plan_grow(disk)]
    return tuple(items)


def plan_resizefs(request: Request, facts: GrowFacts) -> Plan:
    node = request.config.get("resize_rootfs") or request.config
    off = _why_off(request, disabled=facts.disabled)
    why = f"it does not grow: {off}" if off else "it grows together with its partition, at every boot"
    return (Satisfied(name=named("resizefs", node), why=why),)


def _mark(name: str, request: Request, facts: GrowFacts, off: str) -> Item:
    path = f"{request.directory}/{NO_GROW}"
    if bool(off) == facts.marked:
        return Satisfied(name=name, why=f"it does not grow: {off}" if off else "it grows at every boot")
    if not off:
        actions: tuple[Write | MakeDir | Remove, ...] = (Remove(path=path),)
    else:
        write = Write(path=path, data=f"{off}\n".encode("utf-8", "replace"), mode=0o600)
        actions = (MakeDir(path=request.directory, mode=0o700, kept=True), write)
    return Step(
        name=name,
        why=off or "customData wants it to grow again",
        did=f"the root file system does not grow: {off}" if off else "the root file system grows again",
        ways=(Way(backend="native", actions=actions),),
        failure=CustomDataFailed,
    )


def _told(item: Item) -> Item:
    return replace(item, failure=CustomDataFailed) if isinstance(item, Step) else item


# ---- the document


def _node(request: Request) -> Node:
    return request.config.get(MODULE) or request.config.get("resize_rootfs") or request.config


def _why_off(request: Request, *, disabled: bool) -> str:
    asked, resize = request.config.get(MODULE), request.config.get("resize_rootfs")
    mode = asked.get("mode") if asked is not None else None
    if mode is not None and text_of(mode).lower() in OFF:
        return f"growpart.mode is {text_of(mode).lower()}"
    if resize is not None and text_of(resize).lower() in OFF:
        return "resize_rootfs is false"
    ignored = asked.get("ignore_growroot_disabled") if asked is not None else None
    if disabled and not (ignored is not None and ignored.value is True):
        return "/etc/growroot-disabled exists"
    return ""


def _devices(request: Request) -> tuple[str, ...]:
    asked = request.config.get(MODULE)
    given = asked.get("devices") if asked is not None else None
    if given is None:
        return (ROOT,)
    return tuple(dict.fromkeys(text.rstrip("/") or ROOT for text in map(text_of, given.items()) if text))
