"""What customData becomes on this machine: a plan for each module, in the order of the stages; and the same carried out
in a file tree, where no service and no boot is involved."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.modules.steps import ON_TREE
from azureinit.plan.actions import Caution, work_left
from azureinit.record import Record
from azureinit.run.enact import enact, tell_cautions
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import CONFIG, FINAL, NETWORK, plans_of
from azureinit.run.state import declared
from azureinit.userdata.values import INCLUDE, TEMPLATE, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.run.modules import Module
    from azureinit.telemetry.events import Events
    from azureinit.userdata.document import Document

STAGES = (NETWORK, CONFIG, FINAL)
UNRENDERED = "it was not rendered: there is no instance data here; a boot on Azure makes it"


class Planned(Record):
    stage: str
    module: Module
    plan: Plan
    failure: str = ""  # why there is no plan


def planned(machine: Machine, request: Request) -> Iterator[Planned]:
    """Every module that the request has work for. A plan is made when it is asked for: in a file tree the one before
    it has been carried out by then. A module that may refuse the whole document is the last one if it does."""
    for stage in STAGES:
        for module in modules_of(stage):
            if not module.asked(request):
                continue
            if request.rooted and not module.on_tree:
                skipped = Caution(name=module.name, why=ON_TREE)
                yield Planned(stage=stage, module=module, plan=(skipped,))
                continue
            made = _planned(machine, request, stage, module)
            yield made
            if module.veto and (made.failure or work_left(made.plan)):
                return


def _planned(machine: Machine, request: Request, stage: str, module: Module) -> Planned:
    try:
        plan = module.planner(request, module.facts(machine, request))
    except Exception as error:  # noqa: BLE001 - a module that fails does not hide the next one
        return Planned(stage=stage, module=module, plan=(), failure=str(declared(error)))
    return Planned(stage=stage, module=module, plan=plan)


def carry_out(machine: Machine, request: Request, one: Planned, *, events: Events, deadline: float) -> str:
    """Why it failed; empty if it did not. The steps of a module with `apart` do not depend on each other."""
    if one.failure or not work_left(one.plan):
        tell_cautions(one.plan, events)
        return one.failure
    failures: list[str] = []
    try:
        for plan in plans_of(one.module, machine, request):
            tell_cautions(plan, events)
            failures += _enacted(machine, plan, apart=one.module.apart, events=events, deadline=deadline)
            if failures:
                break
    except Exception as error:  # noqa: BLE001 - a module that fails does not stop the next one
        failures.append(str(declared(error)))
    return "; ".join(failures)


def _enacted(machine: Machine, plan: Plan, *, apart: bool, events: Events, deadline: float) -> list[str]:
    failures: list[str] = []
    for part in [(step,) for step in work_left(plan)] if apart else [plan]:
        try:
            enact(machine, part, events=events, deadline=deadline)
        except AzureInitError as error:
            failures.append(str(error))
    return failures


def cautions(document: Document, *, unrendered: str = UNRENDERED) -> tuple[Caution, ...]:
    """One for each include document that was not fetched, and for each template that was not rendered."""
    made = []
    for part in document.parts:
        where = f"line {part.place.line + 1}" + (f" of {shown(part.place.part)}" if part.place.part else "")
        if part.includes:
            count = len(part.includes)
            why = "its URL was not fetched" if count == 1 else f"its {count} URLs were not fetched"
            made.append(Caution(name=f"{INCLUDE} ({where})", why=why))
        elif part.kind == TEMPLATE:
            made.append(Caution(name=f"{TEMPLATE} ({where})", why=unrendered))
    return tuple(made)
