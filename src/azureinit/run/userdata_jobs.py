"""The jobs of every boot that concern customData: its stages are started, and a changed userData is told."""

from __future__ import annotations

from azureinit.run.stages import SCRIPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.plan.actions import Plan
    from azureinit.run.maintenance import Situation


def read_custom_data(at: Situation) -> object:
    """Where customData was never given and there is no script directory: two questions to the file system."""
    if at.instance is None:
        return None
    asked = at.machine.stat(at.instance.path("userdata")) or at.machine.stat(SCRIPTS)
    if asked is None and not at.config.userdata.cloud_init_compat:
        return None
    from azureinit.run.serving import TARGET, can_start, is_due

    return TARGET if can_start(at.machine) and is_due(at.machine, at.config, at.instance) else None


def plan_stages(_at: Situation, unit: Any) -> Plan:
    from azureinit.plan.units import plan_stages

    return plan_stages(unit)


def read_user_data(at: Situation) -> object:
    """None in the run that provisions, and on a VM that has no userData to compare with: that asks nothing."""
    if at.instance is None or at.facts is not None or at.machine.stat(at.instance.path("userdata")) is None:
        return None
    from azureinit.run.serving import has_changed

    return has_changed(at.machine, at.config, at.instance) or None


def plan_user_data(_at: Situation, _changed: Any) -> Plan:
    from azureinit.plan.actions import Caution

    told = "has changed since this VM's first boot: the copy of then is used; userdata.refresh uses the new one"
    return (Caution(name="userData", why=f"{told} for what runs at every boot"),)
