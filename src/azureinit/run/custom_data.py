"""customData: saved with everything else, and run as a program last of all, where that is configured."""

from __future__ import annotations

from azureinit.facts.custom_data import read_custom_data
from azureinit.plan.custom_data import custom_data_path, plan_custom_data, plan_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.custom_data import CustomData
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Asked, Context


def plan_saving(context: Context, asked: Asked) -> Plan:
    given = asked.metadata.custom_data if asked.metadata is not None else None
    if given is None:
        return ()
    done = asked.memory.journal.done
    return plan_custom_data(given=given, config=context.config, custom_data=_read(context), done=done)


def plan_running(context: Context, asked: Asked) -> Plan:
    """The machine is not planned again after the program: the program's changes are intended."""
    given = asked.metadata.custom_data if asked.metadata is not None else None
    if given is None:
        return ()
    rooted, done = context.machine.rooted, asked.memory.journal.done
    return plan_program(given=given, config=context.config, custom_data=_read(context), rooted=rooted, done=done)


def _read(context: Context) -> CustomData:
    return read_custom_data(context.machine, custom_data_path(context.config))
