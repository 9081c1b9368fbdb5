"""The only caller of the executor, and the only place where the failure of a job is logged and ignored."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine
    from azureinit.memory.journal import Journal
    from azureinit.plan.actions import Plan
    from azureinit.telemetry.events import Events


def enact(machine: Machine, plan: Plan, *, events: Events, deadline: float, journal: Journal | None = None) -> bool:
    """Carry out the plan. Without a journal, facts alone show which steps are done. True: there was something to do."""
    from azureinit.plan.actions import work_left

    if not work_left(plan):
        return False
    from azureinit.apply.executor import apply_plan
    from azureinit.memory.journal import MemoryJournal

    apply_plan(machine, plan, journal=journal or MemoryJournal(), events=events, deadline=deadline)
    return True


def tell_cautions(plan: Plan, events: Events) -> None:
    from azureinit.plan.actions import Caution

    for item in plan:
        if isinstance(item, Caution):
            events.tell(WARN, item.name, item.why)


def best_effort(events: Events, name: str, work: Callable[[], object], *, level: int = WARN, then: str = "") -> bool:
    """Do work that the verdict does not depend on. False: it failed; the log has the reason, and `then`."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the one place where the failure of a job is ignored
        text = str(error) if isinstance(error, AzureInitError) else f"{type(error).__name__}: {error}"
        events.tell(level, name, f"{text}; {then}" if then else text)
        return False
    return True
