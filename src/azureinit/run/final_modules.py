"""The modules of the final stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.modules import FINAL, INSTANCE, Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _has_deferred_files(request: Request) -> object:
    if request.config.get("write_files") is None:
        return False
    from azureinit.modules.write_files import entries_of

    return entries_of(request, deferred=True)


def _read_deferred_files(machine: Machine, request: Request) -> object:
    from azureinit.facts.system_files import read_system_files
    from azureinit.modules.write_files import looked_at

    files, users, groups = looked_at(request, deferred=True)
    return read_system_files(machine, files=files, users=users, groups=groups)


def _plan_deferred_files(request: Request, facts: Any) -> Plan:
    from azureinit.modules.write_files import plan_write_files_deferred

    return plan_write_files_deferred(request, facts)


# In this order: packages, write_files_deferred, scripts_per_once, scripts_per_boot, scripts_per_instance, scripts_user
# (runcmd and scripts), phone_home, final_message, power_state.
MODULES: tuple[Module, ...] = (
    Module(
        name="write_files_deferred",
        stage=FINAL,
        frequency=INSTANCE,
        asked=_has_deferred_files,
        facts=_read_deferred_files,
        planner=_plan_deferred_files,
        apart=True,
    ),
)
