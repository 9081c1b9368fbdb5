"""Everything that a run would enact, in its order, and nothing done: for `azure-init plan`."""

from __future__ import annotations

from azureinit.plan.actions import Satisfied, Unknown
from azureinit.plan.hostname import DHCP_NAME
from azureinit.run.admin import own_keys
from azureinit.run.channels import open_channels
from azureinit.run.desired import is_provisioned_anew, plan_desired
from azureinit.run.early import Early
from azureinit.run.gather import gather
from azureinit.run.identify import identify
from azureinit.run.maintenance import AFTER_READY, BOOT, LAST, RENAMED, SERVE, START, Situation, plan_due
from azureinit.run.recall import recall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Asked, Context


def whole_plan(context: Context) -> Plan:
    """Also for a machine that is provisioned: the plan shows what is left to do."""
    path = context.config.azure_init_data_dir.path
    readable = context.machine.is_open(path)
    identity = identify(context, end_if_done=False)
    channels = open_channels(context)
    memory = recall(context, identity, readable=readable)
    if memory.waits is not None:
        return (_in_pool(memory.waits.type, "its customer's data have not arrived yet"),)
    asked = gather(
        context,
        identity,
        memory,
        Early(),
        platform=channels.platform,
        waiting=channels.waiting,
        end_if_done=False,
    )
    if asked.pps_type is not None:
        return (_in_pool(asked.pps_type, "the run reports Ready and waits for its customer's data"),)
    desired = plan_desired(context, asked, asked.facts, shown=True)
    at, due = _situation(context, asked), _due(asked, desired)
    return (
        *(() if readable else (Unknown(name="earlier runs", why=f"{path} cannot be read"),)),
        *plan_due((START,), at),
        *desired,
        *_plan_custom_data(context, asked),
        *plan_due((SERVE,), at),
        *_plan_stages(context, asked),
        *plan_due(due, at),
    )


def _in_pool(kind: str, why: str) -> Satisfied:
    return Satisfied(name="pre-provisioning", why=f"this VM is in a pool (type {kind}): {why}")


def _situation(context: Context, asked: Asked) -> Situation:
    return Situation(
        machine=context.machine,
        config=context.config,
        hostname=asked.metadata.hostname if asked.metadata is not None else None,
        facts=asked.facts,
        done=asked.memory.journal.done,
        network=asked.metadata.network if asked.metadata is not None else None,
        instance=asked.identity.instance if asked.memory.readable else None,
        own_keys=own_keys(context, asked, asked.facts) if is_provisioned_anew(asked) else None,
    )


def _due(asked: Asked, desired: Plan) -> tuple[str, ...]:
    if not is_provisioned_anew(asked):
        return (BOOT, LAST)
    stale = any(item.name == DHCP_NAME for item in desired)
    hostname = asked.metadata.hostname if asked.metadata is not None else None
    renamed = stale or asked.facts.names.kernel != hostname
    return (BOOT, AFTER_READY, *((RENAMED,) if renamed else ()), LAST)


def _plan_custom_data(context: Context, asked: Asked) -> Plan:
    if asked.metadata is None or asked.metadata.custom_data is None or asked.unconfirmed is not None:
        return ()
    from azureinit.run.custom_data import plan_running

    return plan_running(context, asked)


def _plan_stages(context: Context, asked: Asked) -> Plan:
    """The stages of customData, which are units of their own."""
    from azureinit.run.serving import is_on

    if asked.unconfirmed is not None or not is_on(context.config):
        return ()
    from azureinit.run.stage_plans import plan_stages

    return plan_stages(context, asked)
