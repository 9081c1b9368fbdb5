"""A row for each module of a cloud-config: its stage, how often it runs, its facts and its planner."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan

NETWORK, CONFIG, FINAL = "network", "config", "final"
ALWAYS, INSTANCE, ONCE = "at every boot", "once for each VM", "once"


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
    veto: bool = False  # a step in its plan refuses the document: nothing of any stage is carried out


def keys(*names: str) -> Callable[[Request], object]:
    """Asked for by any of these keys of the cloud-config."""
    return lambda request: any(request.config.get(name) is not None for name in names)


def no_facts(_machine: Machine, _request: Request) -> object:
    return None
