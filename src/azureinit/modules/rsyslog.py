"""rsyslog: its rules, and hosts that it sends messages to."""

from __future__ import annotations

from azureinit.backends.service import reload_unit
from azureinit.backends.system_tools import run_command
from azureinit.modules.file_steps import flag, refuse, step, text, texts, write_file
from azureinit.modules.steps import ON_TREE, named, where
from azureinit.plan.actions import Caution, Satisfied, work_left
from azureinit.record import Record, Secret
from azureinit.userdata.node import LIST, MAPPING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.system_files import SystemFiles
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "rsyslog"
DIRECTORY, FILE, PROGRAM, UNIT = "/etc/rsyslog.d", "20-cloud-config.conf", "rsyslogd", "rsyslog"
BEGIN, END = "# begin remotes", "# end remotes"
DIGITS = frozenset("0123456789")


class Rules(Record):
    """What is written: a content for each file, and what is wrong."""

    files: dict[str, str]
    problems: tuple[str, ...] = ()


def rules_of(request: Request) -> Rules:
    node = request.config.get(MODULE)
    if node is None or node.kind not in (MAPPING, LIST):
        return Rules(files={})
    older = node.kind == LIST
    if older:  # then the other settings are keys of the document
        place, file = request.config.get("rsyslog_dir"), request.config.get("rsyslog_filename")
    else:
        place, file = node.get("config_dir"), node.get("config_filename")
    directory, default = text(place) or DIRECTORY, text(file) or FILE
    files: dict[str, str] = {}
    problems: list[str] = []
    configs = node if older else node.get("configs")
    for item in configs.items() if configs is not None else ():
        content = text(item.get("content") if item.kind == MAPPING else item)
        name = (text(item.get("filename"), default) if item.kind == MAPPING else default).strip()
        _add(files, problems, directory, name, content, item)
    remotes = node.get("remotes")
    lines = (
        [_remote(key, value, problems) for key, value in remotes.pairs() if text(value)] if remotes is not None else []
    )
    if lines:
        block = "\n".join((BEGIN, *filter(None, lines), END))
        _add(files, problems, directory, default, block, remotes or node)
    return Rules(files=files, problems=tuple(problems))


def _add(files: dict[str, str], problems: list[str], directory: str, name: str, content: str, node: Node) -> None:
    path = name if name.startswith("/") else f"{directory.rstrip('/')}/{name}"
    if not name or not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        problems.append(f"{where(node)}: the rules have no file name that can be used")
        return
    files[path] = files.get(path, "") + content + ("" if content.endswith("\n") else "\n")


def _remote(key: Node, value: Node, problems: list[str]) -> str:
    """`[SELECTOR] [@|@@]HOST[:PORT] [# NAME]` -> a rule of rsyslog; empty if it is not such a line."""
    line, mark, comment = text(value).partition("#")
    words = line.split()
    name = text(key) or comment.strip(" #")
    selector, host = (words[0], words[1]) if len(words) == 2 else ("*.*", words[0] if words else "")
    protocol = "@@" if host.startswith("@@") else "@"
    address, port = _address(host.lstrip("@") if host[:3] != "@@@" else "")
    if len(words) not in (1, 2) or not address or (mark and "#" in comment.lstrip("# ")):
        problems.append(f"{where(value)}: the line of a remote host is [selector] [@|@@]host[:port]")
        return ""
    shown = f"[{address}]" if ":" in address else address
    return f"{selector} {protocol}{shown}" + (f":{port}" if port else "") + (f" # {name}" if name else "")


def _address(host: str) -> tuple[str, str]:
    """Host and port; an IPv6 address stands in brackets. An empty host: it is neither."""
    if host.startswith("["):
        address, closed, rest = host[1:].partition("]")
        colon, port = rest[:1] if closed else "[", rest[1:]
    else:
        address, colon, port = host.partition(":")
    wrong = (colon and (not port or not DIGITS.issuperset(port))) or (not colon and port) or colon not in ("", ":")
    return ("", "") if wrong or not address else (address, port.lstrip("0"))


def looked_at(request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files and tools that the planner needs facts of."""
    node = request.config.get(MODULE)
    program = text(node.get("check_exe")) if node is not None else ""
    return tuple(rules_of(request).files), (program or PROGRAM,)


def plan_rsyslog(request: Request, facts: SystemFiles) -> Plan:
    node = request.config.get(MODULE)
    if node is None:
        return ()
    rules = rules_of(request)
    why = "rules of rsyslog"
    items: list[Item] = [refuse(named(MODULE, node), problem) for problem in rules.problems]
    program = text(node.get("check_exe")) or PROGRAM
    missing = program not in facts.tools
    if flag(node.get("install_rsyslog")) and missing:
        name = named(MODULE, node, "package")
        items.append(Caution(name=name, why=f"{program} is not installed: write rsyslog below `packages`"))
    for path, content in rules.files.items():
        items.append(write_file(named(MODULE, node, path), path, Secret(content), facts, why=why))
    if work_left(tuple(items)):
        items.append(_plan_reload(request, node, facts, missing=missing))
    return tuple(items)


def _plan_reload(request: Request, node: Node, facts: SystemFiles, *, missing: bool) -> Item:
    name, why = named(MODULE, node, "reload"), "its rules changed"
    command = node.get("service_reload_command")
    if request.rooted:
        return Caution(name=name, why=f"not done: {ON_TREE}")
    if command is not None and command.kind == LIST and texts(command):
        return step(name, why, run_command(texts(command)), backend="command")
    run = reload_unit(UNIT, facts.host)
    if missing or run is None:
        return Satisfied(name=name, why="rsyslog is not running here")
    return step(name, why, run, backend=run.argv[0])
