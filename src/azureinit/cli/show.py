"""`azure-init plan` and `azure-init facts`: show the plan of a run, or the facts it is made from; change nothing."""

from __future__ import annotations

import json
import sys

from azureinit.cli.commands import BY_NAME
from azureinit.cli.parser import parse
from azureinit.cli.provision import make_plan
from azureinit.config.filters import Filter
from azureinit.facts.gather import Unread, read_facts
from azureinit.plan.actions import Unknown, work_left
from azureinit.plan.show import as_json, as_text
from azureinit.record import Record, Secret
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
NO_PLAN = "no plan: azure-init does not provision this machine"
TRY = (
    "; `fakeazure run -- azure-init plan` plans against an emulated platform, and platform.require_azure = false "
    "against the real one"
)


def plan(argv: list[str], *, machine: Machine, configured: Callable[[], Config]) -> int:
    options = parse(BY_NAME["plan"], argv, prog="azure-init plan", out=sys.stdout)
    if options is None:
        return 0
    made = _plan(machine, configured())
    if options.json:
        print(as_json(made or ()), end="")
    elif made is None:
        print(NO_PLAN + (TRY if stand_down(machine, require_azure=False) is None else ""))
    else:
        print(as_text(made, privileged=machine.privileged), end="")
    return _status(made or ()) if options.check else 0


def _status(plan: Plan) -> int:
    if work_left(plan):
        return LEFT
    return UNKNOWN if any(isinstance(item, Unknown) for item in plan) else 0


def _plan(machine: Machine, config: Config) -> Plan | None:
    """None if azure-init must not provision this machine."""
    events = Events(
        clock=machine.clock,
        listeners=(stream_listener(sys.stderr.write, chosen=Filter(level=WARN, targets={}), colour=False),),
    )
    reason = stand_down(machine, require_azure=config.platform.require_azure)
    if reason is not None:
        events.tell(WARN, "platform", reason)
        return None
    return make_plan(machine, config, events)


def facts(argv: list[str], *, machine: Machine, configured: Callable[[], Config]) -> int:
    if parse(BY_NAME["facts"], argv, prog="azure-init facts", out=sys.stdout) is None:
        return 0
    print(json.dumps(plain(read_facts(machine, configured())), indent=2))
    return 0


def plain(value: object) -> object:
    """As values that JSON can hold, without secrets."""
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
