"""`azure-init plan` and `azure-init facts`: the corridor walked as far as the plan, and shown."""

from __future__ import annotations

import json
import sys

from azureinit.cli.parser import Parser, parsed
from azureinit.config.filters import Filter
from azureinit.facts.gather import Unread, read_facts
from azureinit.plan.actions import Unknown, work_left
from azureinit.plan.show import as_json, as_text
from azureinit.record import Record, Secret
from azureinit.run.engine import Context, Walk
from azureinit.run.settle import whole_plan
from azureinit.sources.identity import stand_down
from azureinit.telemetry.events import WARN, Events
from azureinit.telemetry.log import stream_listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan

LEFT, UNKNOWN = 3, 4
CHECK = f"exit {LEFT} when anything is left to do, {UNKNOWN} when only root can tell"
NOTHING = "no plan: the platform was not asked"
ANYWAY = "; `fakeazure run --` before the command asks a made-up platform, platform.require_azure = false a real one"


def main(verb: str, argv: list[str], *, machine: Machine, configured: Callable[[], Config]) -> int:
    return plan(argv, machine, configured) if verb == "plan" else facts(argv, machine, configured)


def plan(argv: list[str], machine: Machine, configured: Callable[[], Config]) -> int:
    parser = Parser(prog="azure-init plan", description="Show what provision would do, and do nothing.")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument("--check", action="store_true", help=CHECK)
    options = parsed(parser, argv)
    if options is None:
        return 0
    made = _plan(machine, configured())
    if options.json:
        print(as_json(made or ()), end="")
    elif made is None:
        print(NOTHING + (ANYWAY if stand_down(machine, require_azure=False) is None else ""))
    else:
        print(as_text(made, privileged=machine.privileged), end="")
    return _status(made or ()) if options.check else 0


def _status(plan: Plan) -> int:
    if work_left(plan):
        return LEFT
    return UNKNOWN if any(isinstance(item, Unknown) for item in plan) else 0


def _plan(machine: Machine, config: Config) -> Plan | None:
    """None where this machine is not ours to provision."""
    events = Events(
        clock=machine.clock,
        listeners=(stream_listener(sys.stderr.write, chosen=Filter(level=WARN, targets={}), colour=False),),
    )
    reason = stand_down(machine, require_azure=config.platform.require_azure)
    if reason is not None:
        events.tell(WARN, "platform", reason)
        return None
    walk = Walk(Context(machine=machine, config=config, events=events, started=machine.clock.monotonic()))
    return whole_plan(walk)


def facts(argv: list[str], machine: Machine, configured: Callable[[], Config]) -> int:
    parser = Parser(prog="azure-init facts", description="Show what this machine is, as JSON.")
    if parsed(parser, argv) is None:
        return 0
    print(json.dumps(plain(read_facts(machine, configured())), indent=2))
    return 0


def plain(value: object) -> object:
    """For people's eyes: no secret, no binary."""
    if isinstance(value, Record):
        return {key: plain(inner) for key, inner in value.as_dict().items() if not isinstance(inner, Unread)}
    if isinstance(value, Secret):
        return "<secret>"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (frozenset, set)):
        return sorted(plain(inner) for inner in value)  # type: ignore[type-var]
    if isinstance(value, (tuple, list)):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    return value
