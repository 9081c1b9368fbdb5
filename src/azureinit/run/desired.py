"""The plan for what was asked, made from the facts as they are now. The run enacts it, `azure-init plan` shows it."""

from __future__ import annotations

from azureinit.plan.access import plan_access
from azureinit.plan.actions import Caution, Satisfied, work_left
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import SPECIALISED
from azureinit.record import replace
from azureinit.run.admin import own_keys, today, with_access, with_admin_files
from azureinit.run.stages import find_stage
from azureinit.sources.metadata import Metadata, is_specialised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Asked, Context


def is_provisioned_anew(asked: Asked) -> bool:
    """False for a specialised VM and for one that keeps the state of another: there is no admin to be made."""
    return asked.previous_id is None and asked.metadata is not None and not is_specialised(asked.metadata)


def is_served(context: Context, asked: Asked) -> bool:
    """Whether an earlier run has made the machine what was asked for, and left the rest to the stages of customData."""
    instance = asked.identity.instance if asked.memory.readable else None
    return instance is not None and context.machine.stat(instance.path("userdata")) is not None


def plan_desired(context: Context, asked: Asked, facts: Facts, *, shown: bool = False) -> Plan:
    """`shown`: nothing will be applied, so the login is judged by what the machine would be."""
    if asked.previous_id is not None:
        from azureinit.run.changed_id import plan_kept

        return plan_kept(context, asked, facts)
    metadata = asked.metadata or Metadata()
    if is_served(context, asked):
        why = "the machine was made what was asked for; what customData has changed since is intended"
        admin = with_admin_files(context.machine, context.config, facts, metadata)
        login = plan_login(context, metadata, admin, pending=False) if metadata.username else ()
        return (Satisfied(name="provision", why=why), *login)
    wanted = Wanted(
        metadata=metadata,
        config=context.config,
        done=asked.memory.journal.done,
        today=today(context.machine),
        vm_id=asked.identity.vm_id,
    )
    if is_specialised(metadata):
        return make_plan(SPECIALISED, wanted, facts)
    facts = with_admin_files(context.machine, context.config, facts, metadata)
    plan = make_plan(
        find_stage("provision").planners(), replace(wanted, own_keys=own_keys(context, asked, facts)), facts
    )
    if metadata.custom_data is not None:
        from azureinit.run.custom_data import plan_saving

        plan = (*plan, *plan_saving(context, asked))
    pending = bool(work_left(plan))
    return plan if pending and not shown else (*plan, *plan_login(context, metadata, facts, pending=pending))


def plan_login(context: Context, metadata: Metadata, facts: Facts, *, pending: bool) -> Plan:
    """The last item: whether the admin can log in to the machine that the rest of the plan makes."""
    facts = with_access(context.machine, context.config, facts, metadata)
    return plan_access(
        metadata=metadata,
        host=facts.host,
        accounts=facts.accounts,
        ssh=facts.ssh,
        admin=facts.admin,
        access=facts.access,
        config=context.config,
        today=today(context.machine),
        pending=pending,
    )


def login_doubts(asked: Asked, plan: Plan) -> tuple[str, ...]:
    name = f"login {asked.metadata.username}" if asked.metadata is not None else ""
    return tuple(item.why for item in plan if isinstance(item, Caution) and item.name == name)
