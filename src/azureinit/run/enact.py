"""The only caller of the executor, and the only place where the failure of a job is logged and ignored."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azureinit.machine import Machine
    from azureinit.memory.journal import Journal
    from azureinit.plan.actions import Plan, Step
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


def remove_leftovers(machine: Machine, journal: Journal, events: Events) -> None:
    """What a process that was killed in the middle of its work has left: temporary files, and locks on accounts."""
    from azureinit.memory.journal import clear_leftovers

    for path in clear_leftovers(machine, journal):
        events.tell(INFO, "leftover", f"removed {path}, left by a run that was interrupted")


def each_by_itself(steps: Iterable[Step], do: Callable[[Step], bool], *, record: str = "") -> bool:
    """Do each step; one that fails stops no other. `do` returns False for a failure, as does this function.

    `record`: the name of the steps that record what is made. Where the first of them fails, nothing is made; where
    anything has failed, the last one is left out, which forgets what was removed.
    """
    done = True
    for step in steps:
        if step.name != record:
            done = do(step) and done
        elif not (done and do(step)):
            return False
    return done


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
