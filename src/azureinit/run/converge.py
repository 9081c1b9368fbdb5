"""Plan, apply, plan again: until nothing is left to do, or what is left is a failure with a name."""

from __future__ import annotations

from azureinit.errors import LocalError, NotConverged, PlanStale
from azureinit.facts.gather import EVERY_PART, read_facts
from azureinit.plan.actions import Caution, Unknown, work_left
from azureinit.record import Record
from azureinit.run.enact import enact
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.memory.journal import Journal
    from azureinit.plan.actions import Plan
    from azureinit.telemetry.events import Events

    Planner = Callable[[Facts], Plan]

MOST_PLANS = 3  # that were applied: another program may undo the same step every time
MOST_STALE = 20  # that were not applied: another program may take every id that a plan chooses


class Converged(Record):
    facts: Facts  # as they are now
    plan: Plan  # the last one: no step is left in it
    taken: tuple[str, ...] = ()  # names of the steps that were taken, or begun before a plan was stale


def converge(
    machine: Machine,
    config: Config,
    planner: Planner,
    *,
    facts: Facts,
    journal: Journal,
    events: Events,
    deadline: float,
    parts: Collection[str] = EVERY_PART,
) -> Converged:
    """`parts`: the parts of the facts that the planner reads."""
    taken: tuple[str, ...] = ()
    told: list[Caution] = []
    applied = stale = 0
    while True:
        plan = planner(facts)
        for item in plan:
            if isinstance(item, Caution) and item not in told:
                told.append(item)
                events.tell(WARN, item.name, item.why)
        unknown = [f"{item.name} ({item.why})" for item in plan if isinstance(item, Unknown)]
        if unknown:
            raise LocalError(f"cannot determine what is left to do: {', '.join(unknown)}", hint="run it as root")
        steps = work_left(plan)
        if not steps:
            return Converged(facts=facts, plan=plan, taken=taken)
        if applied == MOST_PLANS:
            names = ", ".join(f"{step.name} ({step.why})" for step in steps)
            raise NotConverged(f"after provisioning there is still something to do: {names}")
        taken = (*taken, *(step.name for step in steps if step.name not in taken))
        try:
            enact(machine, plan, events=events, deadline=deadline, journal=journal)
            applied += 1
        except PlanStale:
            stale += 1
            if stale == MOST_STALE:
                raise
        facts = read_facts(machine, config, parts, before=facts)
