"""A row for each module of a cloud-config: its stage, how often it runs, its facts and its planner."""

from __future__ import annotations

from azureinit.memory.modules import ALWAYS as ALWAYS, INSTANCE as INSTANCE, ONCE as ONCE
from azureinit.plan.actions import work_left
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan

NETWORK, CONFIG, FINAL = "network", "config", "final"
LOCK_SECS = 240.0  # the disk stage makes file systems meanwhile


class Module(Record):
    """`asked`: whether the request has anything for it. A module that is not asked for costs nothing.

    `facts` and `planner` import what they need when they are called.
    """

    name: str  # as cloud-init calls it
    stage: str
    frequency: str
    asked: Callable[[Request], object]
    facts: Callable[[Machine, Request], Any]
    planner: Callable[[Request, Any], Plan]
    apart: bool = False  # its steps do not depend on each other: one that fails does not stop the rest
    on_tree: bool = True  # also done under --root
    veto: bool = False  # where it fails, nothing of the document is carried out, in no stage
    rounds: int = 1  # plans, each from new facts: a later one needs what an earlier one made
    lock: str = ""  # a file that is locked while it is carried out, until this process ends


def keys(*names: str) -> Callable[[Request], object]:
    """Asked for by any of these keys of the cloud-config."""
    return lambda request: any(request.config.get(name) is not None for name in names)


def no_facts(_machine: Machine, _request: Request) -> object:
    return None


def plans_of(module: Module, machine: Machine, request: Request) -> Iterator[Plan]:
    """The plans of a module, for the caller to carry out one after the other.

    Those after the first come only while there is something else left to do than before.
    """
    if module.lock and not machine.rooted:
        machine.make_dirs(module.lock.rpartition("/")[0], mode=0o700)
        machine.hold(module.lock, timeout=LOCK_SECS)
    before: tuple[str, ...] = ()
    for number in range(module.rounds):
        plan = module.planner(request, module.facts(machine, request))
        names = tuple(step.name for step in work_left(plan))
        if number and (not names or names == before):
            return
        yield plan
        before = names
