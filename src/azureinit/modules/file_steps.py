"""Steps of the modules that write system files, and how they read their keys."""

from __future__ import annotations

from azureinit.backends.labels import relabel
from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import refused
from azureinit.plan.actions import MakeDir, Satisfied, Step, Way, Write
from azureinit.record import Secret, replace
from azureinit.userdata.node import FLAG, LIST, MAPPING, NULL, TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.facts.host import Host
    from azureinit.facts.system_files import SystemFiles
    from azureinit.plan.actions import Action, Item, Plan
    from azureinit.userdata.node import Node

TRUE_WORDS = ("true", "yes", "on", "1")


def step(name: str, why: str, *actions: Action, backend: str = "native", did: str = "", once: bool = False) -> Step:
    ways = (Way(backend=backend, actions=actions),)
    return Step(name=name, why=why, did=did or f"{name}: {why}", ways=ways, once=once, failure=CustomDataFailed)


def refuse(name: str, why: str, *, reason: str = "asked for by customData") -> Step:
    return replace(refused(name, why, reason=reason), failure=CustomDataFailed)


def text(node: Node | None, default: str = "") -> str:
    """A scalar as text: a number as it is written."""
    if node is None or node.kind in (MAPPING, LIST, NULL):
        return default
    return node.value if node.kind == TEXT else node.text or str(node.value)


def flag(node: Node | None, *, default: bool = False) -> bool:
    """Words for true and false in quotation marks count, as validation says in its warning."""
    if node is None or node.kind in (MAPPING, LIST, NULL):
        return default
    return bool(node.value) if node.kind == FLAG else text(node).lower() in TRUE_WORDS


def texts(node: Node | None) -> tuple[str, ...]:
    """Of a list, or of one text."""
    if node is None or node.kind in (MAPPING, NULL):
        return ()
    items = node.items() if node.kind == LIST else (node,)
    return tuple(text(item) for item in items if text(item))


def write_file(
    name: str,
    path: str,
    data: bytes | Secret,
    facts: SystemFiles,
    *,
    why: str,
    mode: int | None = 0o644,
    above: int = 0o755,
) -> Item:
    """A whole file, unless it is there already. `mode` None: an existing file keeps its own. `above`: the mode of
    missing directories."""
    target = facts.files[path]
    if target.problem:
        return refuse(name, target.problem, reason=why)
    content = data.reveal() if isinstance(data, Secret) else data
    if target.data == content and (mode is None or target.mode == mode):
        return Satisfied(name=name, why=f"{path} is as asked for")
    old = target.content if isinstance(data, Secret) else target.data
    parents = tuple(MakeDir(path=one, mode=above, beneath=target.beneath) for one in target.missing)
    write = Write(path=path, data=data, mode=mode, beneath=target.beneath, was=old)
    return step(name, why, *parents, write, *labels((*target.missing, path), facts.host), did=f"wrote {path}: {why}")


def labels(paths: Iterable[str], host: Host) -> tuple[Action, ...]:
    return relabel(tuple(paths), host)


def once_more(item: Step, done: frozenset[str]) -> Plan:
    """A step that facts cannot see: the journal decides."""
    return (Satisfied(name=item.name, why="was done"),) if item.name in done else (item,)
