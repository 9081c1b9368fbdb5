"""customData on its way down the corridor: kept with everything else, run last of all."""

from __future__ import annotations

from azureinit.apply.executor import apply_plan
from azureinit.facts.custom_data import read_custom_data
from azureinit.plan.actions import Caution, work_left
from azureinit.plan.custom_data import custom_data_path, plan_custom_data, plan_program
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.custom_data import CustomData
    from azureinit.plan.actions import Plan
    from azureinit.run.engine import Walk


def kept(walk: Walk) -> Plan:
    assert walk.metadata is not None and walk.journal is not None
    given = walk.metadata.custom_data
    if given is None:
        return ()
    return plan_custom_data(given=given, config=walk.config, custom_data=_facts(walk), done=walk.journal.done)


def program(walk: Walk) -> Plan:
    assert walk.journal is not None
    given = walk.metadata.custom_data if walk.metadata is not None else None
    if given is None:
        return ()
    rooted, done = walk.machine.rooted, walk.journal.done
    return plan_program(given=given, config=walk.config, custom_data=_facts(walk), rooted=rooted, done=done)


def run_program(walk: Walk) -> None:
    """The machine is not planned again after it: whoever wrote it may have wanted something else."""
    plan = program(walk)
    for item in plan:
        if isinstance(item, Caution):
            walk.events.tell(WARN, item.name, item.why)
    if work_left(plan):
        assert walk.journal is not None
        deadline = walk.context.work_deadline
        apply_plan(walk.machine, plan, journal=walk.journal, events=walk.events, deadline=deadline)


def _facts(walk: Walk) -> CustomData:
    return read_custom_data(walk.machine, custom_data_path(walk.config))
