"""swap: a swap file, of the asked size or of one that fits memory and disk."""

from __future__ import annotations

from azureinit.backends.filesystem import make_swap_file, swap_on
from azureinit.errors import CustomDataFailed
from azureinit.facts.mount_rows import OTHER, SWAP, UNFINISHED
from azureinit.modules.device_names import text_of
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, Declined, MakeDir, Remove, Satisfied, Step, Way
from azureinit.plan.swap import ways_to_fill
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.mount_rows import SwapFile
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item
    from azureinit.userdata.node import Node

MODULE = "swap"
DEFAULT = "/swap.img"
AUTO = "auto"
MIB, GIB = 1 << 20, 1 << 30
UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
KEPT_FREE = 64 * MIB  # of the file system, whatever size is asked for


class Asked(Record):
    node: Node
    path: str
    size: str
    most: str = ""


def asked_swap(request: Request) -> Asked | None:
    node = request.config.get(MODULE)
    if node is None:
        return None
    given = node.get("filename")
    path, size = DEFAULT if given is None else text_of(given), text_of(node.get("size"))
    if not path or not size or parse_size(size) == 0:
        return None
    return Asked(node=node, path=path, size=size, most=text_of(node.get("maxsize")))


def parse_size(text: str) -> int | None:
    """Bytes, as cloud-init counts: 1K, 1KB and 1KiB are 1024. None for `auto`, and for what is no size."""
    number = text[:-2] if text.endswith("iB") else text[:-1] if text.endswith("B") else text
    factor = UNITS.get(number[-1:], 0)
    try:
        value = float(number[:-1] if factor else number)
        return int(value * (factor or 1)) if value >= 0 else None
    except (ValueError, OverflowError):
        return None


def suggested(*, memory: int, free: int, most: int | None) -> int:
    """cloud-init's rule for `auto`: as much as there is memory, less where there is much, and a part of the disk."""
    limit = min(free // 4, memory * 2) if most is None else min(most, free * 9 // 10)
    if memory < 4 * GIB:
        return min(memory, limit)
    wanted = 4 if memory < 16 * GIB else round((memory / GIB) ** 0.5)
    return min(wanted * GIB, limit)


def plan_swap_file(asked: Asked, file: SwapFile, *, tools: frozenset[str], rooted: bool) -> tuple[Item, bool]:
    """The step, and whether the file belongs into fstab."""
    name = named(MODULE, asked.node, asked.path)
    if file.problem:
        return _refused(name, file.problem), False
    if file.state == OTHER:
        return Caution(name=name, why="left alone: something else is there; move it away"), False
    if rooted:
        return Caution(name=name, why=f"not made: {ON_TREE}"), False
    if file.state == SWAP:
        return _used(name, file), True
    size = _size(asked, file)
    if isinstance(size, str):
        return _refused(name, size), False
    if size < MIB:
        return Satisfied(name=name, why="the size is less than 1 MiB: none is made"), False
    size = size // MIB * MIB
    if file.free is None or size > file.free - KEPT_FREE:
        free = "unknown" if file.free is None else f"{file.free // MIB} MiB"
        return _refused(name, f"{size // MIB} MiB are asked for, and the free space is {free}"), False
    directory = MakeDir(path=file.path.rpartition("/")[0] or "/", mode=0o755, kept=True)
    first = (directory, *((Remove(path=file.path),) if file.state == UNFINISHED else ()))
    ways = tuple(
        Way(backend=how, actions=(*first, make_swap_file(file.path, size, how=how), swap_on(file.path)))
        if needs in tools
        else Declined(backend=how, why=f"{needs} is not installed")
        for how, needs in ways_to_fill(file.filesystem)
    )
    step = Step(
        name=name,
        why=f"{size // MIB} MiB are asked for, and there is none",
        did=f"began to use {file.path} ({size // MIB} MiB) as swap",
        ways=ways,
        failure=CustomDataFailed,
    )
    return step, True


def _size(asked: Asked, file: SwapFile) -> int | str:
    """Or why it is not known."""
    if asked.size.lower() != AUTO:
        size = parse_size(asked.size)
        return f"{asked.size[:20]} is no size" if size is None else size
    if file.memory is None or file.free is None:
        return "the size of memory or of the disk is not known"
    return suggested(memory=file.memory, free=file.free, most=parse_size(asked.most) if asked.most else None)


def _used(name: str, file: SwapFile) -> Item:
    if file.active:
        return Satisfied(name=name, why=f"{file.path} is in use as swap")
    way = Way(backend="swapon", actions=(swap_on(file.path),))
    did = f"began to use {file.path} as swap"
    return Step(name=name, why="it is not used", did=did, ways=(way,), failure=CustomDataFailed)


def _refused(name: str, why: str) -> Step:
    ways = (Declined(backend="azure-init", why=why),)
    return Step(name=name, why="customData asks for swap", ways=ways, failure=CustomDataFailed)
