"""What customData becomes on this machine: a plan for each module, in the order of the stages; and the same carried out
in a file tree, where no service and no boot is involved."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.modules.steps import ON_TREE
from azureinit.plan.actions import Caution
from azureinit.record import Record
from azureinit.run.enact import enact, tell_cautions
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import CONFIG, FINAL, NETWORK
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


class Planned(Record):
    stage: str
    module: Module
    plan: Plan
    failure: str = ""  # why there is no plan


def planned(machine: Machine, request: Request) -> Iterator[Planned]:
    """Every module that the request has work for. A plan is made when it is asked for: in a file tree the one before
    it has been carried out by then."""
    for stage in STAGES:
        for module in modules_of(stage):
            if not module.asked(request):
                continue
            if request.rooted and not module.on_tree:
                skipped = Caution(name=module.name, why=ON_TREE)
                yield Planned(stage=stage, module=module, plan=(skipped,))
                continue
            try:
                plan = module.planner(request, module.facts(machine, request))
            except AzureInitError as error:
                yield Planned(stage=stage, module=module, plan=(), failure=str(error))
            else:
                yield Planned(stage=stage, module=module, plan=plan)


def carry_out(machine: Machine, one: Planned, *, events: Events, deadline: float) -> str:
    """Why it failed; empty if it did not."""
    if one.failure:
        return one.failure
    tell_cautions(one.plan, events)
    try:
        enact(machine, one.plan, events=events, deadline=deadline)
    except AzureInitError as error:
        return str(error)
    return ""


def cautions(document: Document) -> tuple[Caution, ...]:
    """One for each include document that was not fetched, and for each template that was not rendered."""
    made = []
    for part in document.parts:
        where = f"line {part.place.line + 1}" + (f" of {shown(part.place.part)}" if part.place.part else "")
        if part.includes:
            count = len(part.includes)
            why = "its URL was not fetched" if count == 1 else f"its {count} URLs were not fetched"
            made.append(Caution(name=f"{INCLUDE} ({where})", why=why))
        elif part.kind == TEMPLATE:
            made.append(Caution(name=f"{TEMPLATE} ({where})", why="it was not rendered"))
    return tuple(made)
