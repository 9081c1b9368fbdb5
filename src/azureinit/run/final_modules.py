"""The modules of the final stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.modules import FINAL, INSTANCE, Module, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan


def _read_packages(machine: Machine, request: Request) -> object:
    from azureinit.facts.packages import read_packages
    from azureinit.modules.packages import asked_of_rpm

    return read_packages(machine, asked_of_rpm(request.config))


def _plan_packages(request: Request, facts: Any) -> Plan:
    from azureinit.modules.packages import plan_packages

    return plan_packages(request, facts)


# In this order: packages, write_files_deferred, scripts_per_once, scripts_per_boot, scripts_per_instance, scripts_user
# (runcmd and scripts), phone_home, final_message, power_state.
MODULES: tuple[Module, ...] = (
    Module(
        name="packages",
        stage=FINAL,
        frequency=INSTANCE,
        asked=keys("packages", "package_update", "package_upgrade", "apt_update", "apt_upgrade"),
        facts=_read_packages,
        planner=_plan_packages,
        apart=True,
    ),
)
