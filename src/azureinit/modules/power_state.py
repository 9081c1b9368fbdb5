"""power_state: shut down, reboot or halt when everything is done. The stage carries it out last, after the verdict."""

from __future__ import annotations

from azureinit.backends.shell import in_shell, quoted, shutdown_ways
from azureinit.errors import CustomDataFailed
from azureinit.modules.commands import place_of, why_unreadable
from azureinit.modules.steps import ON_TREE, named, refused
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.record import Record, replace
from azureinit.userdata.node import FLAG, LIST, MAPPING, NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.commands import Commands
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Declined, Plan, Way
    from azureinit.userdata.node import Node

KEY = "power_state"
MODES = ("poweroff", "reboot", "halt")
MOST_MINUTES = 1_000_000
ASKED = "customData asks for it"


class PowerFacts(Record):
    commands: Commands
    tools: frozenset[str]


def plan_power_state(request: Request, facts: PowerFacts) -> Plan:
    node = request.config.get(KEY)
    if node is None or node.kind != MAPPING:
        return ()
    mode, minutes = _text(node, "mode"), minutes_of(node.get("delay"))
    name = named(KEY, node, mode)
    condition, message = node.get("condition"), _text(node, "message")
    command = "" if condition is None or condition.kind in (FLAG, NULL) else _command(condition)
    wrong = why_unreadable(message) or why_unreadable(command)
    if mode not in MODES:
        wrong = f"mode must be one of {', '.join(MODES)}"
    elif minutes is None:
        wrong = "delay must be now, or minutes such as +5"
    if wrong:
        return (replace(refused(name, wrong, reason=ASKED), failure=CustomDataFailed),)
    if condition is not None and condition.kind == FLAG and not condition.value:
        return (Satisfied(name=name, why="its condition is false"),)
    if request.rooted:
        return (Caution(name=name, why=f"not done: {ON_TREE}"),)
    ways = shutdown_ways(
        mode,
        minutes=minutes or 0,
        message=message,
        tools=facts.tools,
        condition=command,
        path=f"{request.directory}/{KEY}",
        place=place_of(request, facts.commands, "power_state.log", seconds=request.settings.userdata.final_secs),
    )
    why = f"{ASKED}, if its condition holds" if command else ASKED
    return (Step(name=name, why=why, ways=ways, did=f"{mode} was asked for", failure=CustomDataFailed),)


def reboot_ways(request: Request, facts: PowerFacts) -> tuple[Way | Declined, ...]:
    """A reboot at once."""
    place = place_of(request, facts.commands, "power_state.log", seconds=request.settings.userdata.final_secs)
    path = f"{request.directory}/{KEY}"
    return shutdown_ways("reboot", minutes=0, message="", tools=facts.tools, condition="", path=path, place=place)


def minutes_of(node: Node | None) -> int | None:
    """None where it is no delay."""
    text = "now" if node is None or node.kind == NULL else str(node.value)
    digits = "0" if text == "now" else text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        return None
    return min(int(digits), MOST_MINUTES)


def _command(node: Node) -> str:
    if node.kind == LIST:
        return " ".join(quoted(str(word.value)) for word in node.items()) or "false"
    return in_shell(str(node.value))


def _text(node: Node, key: str) -> str:
    value = node.get(key)
    return "" if value is None or value.kind == NULL else str(value.value)
