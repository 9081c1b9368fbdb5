"""`azure-init plan` and `azure-init facts`: the corridor walked as far as the plan, and shown."""

from __future__ import annotations

import argparse
import json
import sys

from azureinit.engine import Context, Walk, gather, plan_for
from azureinit.errors import AzureInitError, UsageError
from azureinit.facts.gather import read_facts
from azureinit.plan.plan import work_left
from azureinit.plan.show import as_json, as_text
from azureinit.record import Record, Secret
from azureinit.sources.identity import is_azure
from azureinit.telemetry.events import WARN, Events
from azureinit.telemetry.log import stream_listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.machine import Machine

LEFT = 3


def main(verb: str, argv: list[str], *, machine: Machine, config: Config) -> int:
    return plan(argv, machine, config) if verb == "plan" else facts(argv, machine, config)


def plan(argv: list[str], machine: Machine, config: Config) -> int:
    parser = argparse.ArgumentParser(prog="azure-init plan", description="Show what provision would do.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--check", action="store_true", help=f"exit {LEFT} when anything is left to do")
    options = parser.parse_args(argv)
    if config.platform.require_azure and not is_azure(machine):
        raise UsageError(
            "this is not an Azure VM: there is nothing to plan from", hint="set platform.require_azure = false to try"
        )
    events = Events(clock=machine.clock, listeners=(stream_listener(sys.stderr.write, level=WARN),))
    walk = Walk(Context(machine=machine, config=config, events=events, started=machine.clock.monotonic()))
    gather(walk, change=False)
    made = plan_for(walk)
    assert walk.facts is not None
    print(as_json(made) if options.json else as_text(made, privileged=walk.facts.privileged), end="")
    return LEFT if options.check and work_left(made) else 0


def facts(argv: list[str], machine: Machine, config: Config) -> int:
    parser = argparse.ArgumentParser(prog="azure-init facts", description="Show what this machine is, as JSON.")
    parser.parse_args(argv)
    try:
        found = read_facts(machine, config)
    except AzureInitError as error:
        print(f"azure-init: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(plain(found), indent=2))
    return 0


def plain(value: object) -> object:
    """For people's eyes: no secret, no binary."""
    if isinstance(value, Record):
        return {key: plain(inner) for key, inner in value.as_dict().items()}
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
