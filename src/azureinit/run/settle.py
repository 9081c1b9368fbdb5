"""Makes the machine what was asked for, and syncs everything that Ready promises to the disk."""

from __future__ import annotations

from azureinit.machine.durable import make_durable
from azureinit.memory.pending import UNFINISHED, Pending
from azureinit.plan.hostname import DHCP_NAME
from azureinit.run.converge import converge
from azureinit.run.desired import is_provisioned_anew, login_doubts, plan_desired
from azureinit.run.early import record_own_keys
from azureinit.run.enact import enact, remove_leftovers, tell_cautions
from azureinit.run.saving import keep_pending, save_media
from azureinit.run.stages import SCRIPTS
from azureinit.run.state import Knowing, Settled, known_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts
    from azureinit.run.logins import Logins
    from azureinit.run.state import Asked, Context


def settle(context: Context, asked: Asked, *, logins: Logins) -> Settled:
    with Knowing(known_of(asked)):
        machine, journal = context.machine, asked.memory.journal
        remove_leftovers(machine, journal, context.events)
        _remember(context, asked)
        logins.plan_decides()
        if is_provisioned_anew(asked):
            record_own_keys(context, asked.memory, asked.facts.ssh)
        converged = converge(
            machine,
            context.config,
            lambda facts: plan_desired(context, asked, facts),
            facts=asked.facts,
            journal=journal,
            events=context.events,
            deadline=context.work_deadline,
        )
        _run_custom_data(context, asked)
        _sync(context, asked, converged.facts)
        served = _serve(context, asked)
        if served:
            _forget_secrets(context, asked)
        renamed = converged.facts.names.kernel != asked.facts.names.kernel or DHCP_NAME in converged.taken
        doubts = login_doubts(asked, converged.plan)
        return Settled(asked=asked, facts=converged.facts, renamed=renamed, doubts=doubts, served=served)


def _serve(context: Context, asked: Asked) -> bool:
    """Whether the stages of customData have anything to do; it costs nothing where there is none."""
    metadata = asked.metadata
    found = metadata is not None and (metadata.custom_data is not None or metadata.user_data is not None)
    if not found and not context.config.userdata.cloud_init_compat and context.machine.stat(SCRIPTS) is None:
        return False
    from azureinit.run.serving import serve

    return serve(context, asked)


def _forget_secrets(context: Context, asked: Asked) -> None:
    """No later run plans this machine: none needs the password. Before it is forgotten, `.userdata` is on the disk."""
    make_durable(context.machine, context.config.azure_init_data_dir.path)
    if asked.metadata is not None and (asked.metadata.password_hash is not None or asked.metadata.key_pairs):
        save_media(context, asked.identity, asked.metadata, with_secrets=False)
        make_durable(context.machine, context.config.azure_init_data_dir.path)


def _remember(context: Context, asked: Asked) -> None:
    """Saved in case this run dies: the settings from the media, and that IMDS has not confirmed them yet."""
    if asked.metadata is not None:
        save_media(context, asked.identity, asked.metadata)
    if asked.unconfirmed is not None:
        keep_pending(
            context, asked.identity, Pending(verdict=UNFINISHED, failure=asked.memory.previous, unconfirmed=True)
        )
        make_durable(context.machine, context.config.azure_init_data_dir.path)


def _run_custom_data(context: Context, asked: Asked) -> None:
    """The program may need the network: without one, it runs after IMDS has confirmed the media, before Ready."""
    if asked.metadata is None or asked.metadata.custom_data is None or asked.unconfirmed is not None:
        return
    from azureinit.run.custom_data import plan_running

    plan = plan_running(context, asked)
    tell_cautions(plan, context.events)
    journal, deadline = asked.memory.journal, context.work_deadline
    enact(context.machine, plan, events=context.events, deadline=deadline, journal=journal)


def _sync(context: Context, asked: Asked, facts: Facts) -> None:
    machine, instance = context.machine, asked.identity.instance
    if instance is None:
        return
    machine.unsynced.changed(machine.real("/etc/hostname"))  # azure-init-local.service may have written it
    machine.unsynced.changed(machine.real(instance.path("journal")), content=True)
    username = asked.metadata.username if asked.metadata is not None else None
    home = facts.accounts.home_of(username) if username else "/"
    make_durable(machine, instance.data_dir, also=("/", "/etc", home))
