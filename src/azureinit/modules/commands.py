"""Lists of commands (`bootcmd`, `runcmd`): all of one list run in one shell, in order, and share what it holds.

A text is a command of the shell, verbatim. A list is a program and its arguments. What is empty is left out.
"""

from __future__ import annotations

from binascii import crc32

from azureinit.backends.shell import Place, commands_script, quoted, run_commands
from azureinit.errors import CustomDataFailed
from azureinit.modules.steps import ON_TREE, named, refused, where
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.record import Record, replace
from azureinit.userdata.node import LIST, NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.commands import Commands
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.userdata.node import Node

RAN = "ran, and succeeded"
PEER_LOG = "/var/log/cloud-init-output.log"


class Command(Record):
    number: int  # in its list, from 1
    label: str
    text: str
    broken: str  # why no shell can read it


def commands_of(key: str, node: Node) -> tuple[Command, ...]:
    found = []
    for number, item in enumerate(node.items(), 1):
        text = " ".join(quoted(str(word.value)) for word in item.items()) if item.kind == LIST else str(item.value)
        if item.kind != NULL and text.strip():
            label = f"{key} item {number} ({where(item)})"
            found.append(Command(number=number, label=label, text=text, broken=why_unreadable(text)))
    return tuple(found)


def why_unreadable(text: str) -> str:
    return "it contains a NUL, which no command can" if "\0" in text else ""


def ignores_errors(request: Request) -> bool:
    chosen = request.settings.userdata.runcmd_errors
    return request.compatible if chosen == "auto" else chosen == "ignore"


def place_of(request: Request, facts: Commands, log: str, *, seconds: float, below: str = "") -> Place:
    """`log`: the name of the log file in the VM's directory; where compatible, all output is in cloud-init's log.
    `below`: the directory of the file to run in it."""
    directory = f"{request.directory}/{below}" if below else request.directory
    output = PEER_LOG if request.compatible else f"{request.directory}/{log}"
    return Place(directory=directory, output=output, env=facts.env, timeout=seconds)


def progress_path(request: Request, key: str) -> str:
    return f"{request.directory}/{key}.progress"


def plan_commands(request: Request, key: str, node: Node, facts: Commands, *, place: Place, once: bool) -> Plan:
    """A whole list is one step. `once`: it goes on where a restart of the machine interrupted it."""
    commands = commands_of(key, node)
    name = named(key, node)
    count = "1 command" if len(commands) == 1 else f"{len(commands)} commands"
    if not commands:
        return ()
    if once and name in request.done:
        return (Satisfied(name=name, why=RAN),)
    if request.rooted:
        return (Caution(name=name, why=f"{count} not run: {ON_TREE}"),)
    for command in commands:
        if command.broken:
            return (replace(refused(command.label, command.broken, reason=count), failure=CustomDataFailed),)
    checksum = f"{key} {crc32(chr(0).join(one.text for one in commands).encode()):08x}"
    left, why = commands, count
    cautions: Plan = ()
    earlier = facts.progress if once and facts.progress is not None and facts.progress.key == checksum else None
    if earlier is not None:
        left = tuple(one for one in commands if one.number not in earlier.finished)
        if not left:
            return (Satisfied(name=name, why="all of it ran before the machine restarted"),)
        why = f"{len(left)} of {count}: the others ran before the machine restarted"
        interrupted = "a restart interrupted it: it runs again, in a new shell"
        cautions = tuple(Caution(name=one.label, why=interrupted) for one in left if one.number == earlier.begun)
    path, progress = f"{request.directory}/{key}", progress_path(request, key)
    pairs = tuple((one.label, one.text) for one in left)
    script = commands_script(pairs, progress=progress, ignore=ignores_errors(request))
    keep = f"{checksum}\n".encode() if earlier is None else None
    way = run_commands(script, path, place=place, progress=progress, keep=keep)
    did = f"ran {count} of {key}; their output is in {place.output}"
    return (*cautions, Step(name=name, why=why, ways=(way,), did=did, once=once, failure=CustomDataFailed))
