"""seed_random: data for the kernel's random number generator, or for a file that a program reads at the next boot.

What the platform itself provides is fed by the agent's run (`kernel.entropy`), not again here.
"""

from __future__ import annotations

from azureinit.backends.system_tools import run_command
from azureinit.modules.file_steps import flag, once_more, refuse, step, text, texts
from azureinit.modules.steps import ON_TREE, named
from azureinit.plan.actions import Caution, MakeDir, Write
from azureinit.record import Secret
from azureinit.userdata.decoding import Undecodable, parse_base64, parse_gzip
from azureinit.userdata.node import BINARY, MAPPING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE, KEY = "seed_random", "random_seed"
GENERATOR = "/dev/urandom"
DEVICES = ("/dev/urandom", "/dev/random")
MOST_BYTES = 1 << 20
VARIABLE = "RANDOM_SEED_FILE"


def looked_at(request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The file and the command that the planner needs facts of."""
    node = request.config.get(KEY)
    if node is None or node.kind != MAPPING:
        return (), ()
    path = text(node.get("file")) or GENERATOR
    return () if path.startswith("/dev/") else (path,), texts(node.get("command"))[:1]


def plan_seed_random(request: Request, facts: SystemFiles) -> Plan:
    node = request.config.get(KEY)
    if node is None or node.kind != MAPPING:
        return ()
    path = text(node.get("file")) or GENERATOR
    return (*_plan_data(request, node, path, facts), *_plan_command(request, node, path, facts))


def _plan_data(request: Request, node: Node, path: str, facts: SystemFiles) -> Plan:
    given = node.get("data")
    if given is None or not given.value:
        return ()
    name = named(MODULE, node, path)
    try:
        data = decoded(given, text(node.get("encoding")).lower())
    except Undecodable as error:
        return (refuse(name, f"its data cannot be decoded: {error}"),)
    if path in DEVICES:
        if request.rooted:
            return (Caution(name=name, why=f"not fed: {ON_TREE}"),)
        feed = Write(path=GENERATOR, data=Secret(data))
        return once_more(step(name, "data for the random number generator", feed, once=True), request.done)
    target = facts.files.get(path)
    if target is None or target.problem or target.large:
        why = (
            f"{path} lies in /dev, and is not the generator" if target is None else target.problem or "it is too large"
        )
        return (refuse(name, why),)
    parents = (MakeDir(path=one, mode=0o755, beneath=target.beneath) for one in target.missing)
    content = Secret((target.data or b"") + data)
    mode = target.mode if target.exists else 0o600
    write = Write(path=path, data=content, mode=mode, beneath=target.beneath, was=target.content)
    return once_more(step(name, "data for the next start", *parents, write, once=True), request.done)


def decoded(node: Node, encoding: str) -> bytes:
    data = bytes(node.value) if node.kind == BINARY else text(node).encode()
    if encoding in ("base64", "b64"):
        return parse_base64(data)
    return parse_gzip(data, limit=MOST_BYTES) if encoding in ("gzip", "gz") else data


def _plan_command(request: Request, node: Node, path: str, facts: SystemFiles) -> Plan:
    words, required = texts(node.get("command")), flag(node.get("command_required"))
    name = named(MODULE, node, "command")
    if not words:
        return (refuse(name, "command_required is true, and there is no command"),) if required else ()
    if request.rooted:
        return (Caution(name=name, why=f"not run: {ON_TREE}"),)
    item: Item
    if words[0] not in facts.tools:
        why = f"{words[0]} is not installed"
        item = refuse(name, why) if required else Caution(name=name, why=why)
        return (item,)
    run = run_command(words, env=((VARIABLE, path),))
    return once_more(step(name, "a command that feeds the generator", run, backend="command", once=True), request.done)
