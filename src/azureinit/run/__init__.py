"""One run, from start to verdict. `provision` and `attempt` are its table of contents: each phase takes what it needs
and hands a frozen record to the next. In this order, so that no module imports a later one:

state, stages, enact       the records; the stages of a boot as rows; the only caller of the executor
identify, recall           which VM this is; the lock, the journal, what earlier boots left
endpoint, platform         where the wireserver is; the route to it, and why it cannot be reached
waiting, in_progress       what is waited for, for people; the report that provisioning has begun
changed_id, waagent        a machine that was another VM; WALinuxAgent must not provision
logins, channels           logins wait for the service; what goes on beside the phases, in one record
early, reuse               what needs no platform; the customer of a VM from a pool
gather                     sources and facts, at the same time
admin, custom_data         facts that need the admin's name; customData
desired, converge          the plan; plan, apply, plan again
saving, serving            what the next boot needs; customData for its stages
settle, confirm            the machine that was asked for; media that IMDS has to confirm
resend, deliver            the service that sends Ready again; the verdict
fetching, rendering, expand, instance_data
                           customData with its includes and templates expanded; what is known about the VM
modules, command_modules, disk_modules, package_modules, system_modules, user_modules
network_modules, config_modules, final_modules, module_tables
                           the modules of a cloud-config, as rows
request, explain, stage_plans
                           what they are given; the plans that customData becomes
network, network_jobs      NICs and addresses beyond the first; whether there is any work with them
userdata_jobs              the stages of customData in later boots, and a userData that has changed
maintenance, after_ready   what every boot does, as rows; what follows Ready
termination                ends without a verdict: SIGTERM, errors in a pool
pool_links, pool_wait, pool_ready, pool
                           a VM that waits in a pool for its customer
readiness                  Ready where there is customData
show                       the same walk for `azure-init plan`
mounts, local              file systems that are not mounted yet; the stage before the run
compat                     the files in which other programs look for cloud-init's state
watching, carry, failed    the modules of a stage of customData, and what is told of them; the stage after a run that
                           died
refresh, awaited           userData that has changed since the first boot; the verdict that waits for customData
userdata, deadline         the stages of customData, and the verdict that waits for one of them; the end of that wait
hostname_watch, network_watch, disks
                           the stages that tell DNS of a new host name, follow changes of the network, set up temporary
                           disks
dispatch                   which stage is run
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError, LockTimeout
from azureinit.record import replace
from azureinit.run.identify import identify, may_change, why_not_ours
from azureinit.run.state import (
    AlreadyProvisioned,
    Knowing,
    Known,
    Outcome,
    Reused,
    Stopped,
    declared,
    known_of,
    known_to,
)
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from azureinit.run.channels import Channels
    from azureinit.run.state import Context, Identity, Memory, Settled


def provision(context: Context) -> int:
    """Make this machine what the platform asks for, and report exactly one verdict. Returns the exit code."""
    reason = why_not_ours(context)
    if reason is not None:
        context.events.tell(INFO, "platform", reason)
        return 0
    if not may_change(context.machine):
        raise LocalError("only root provisions this machine", hint="azure-init plan shows what would be done")
    channels: Channels | None = None
    try:
        start_boot(context)
        identity = identify(context)
        with Knowing(Known(identity=identity)):
            if is_left_to_resend(context, identity):
                return keep_up(context, identity)
            from azureinit.run.channels import open_channels
            from azureinit.run.termination import SigtermStops

            channels = open_channels(context)
            with SigtermStops(context):
                settled = attempt(context, identity, channels)
                if settled.served:
                    from azureinit.run.readiness import reach

                    settled = reach(context, channels, settled)
            if settled.awaits:
                from azureinit.run.readiness import hand_over

                return hand_over(context, channels, settled)
        outcome = Outcome(known=known_of(settled.asked), settled=settled)
    except Reused as reused:
        return provision(reused.context)
    except AlreadyProvisioned as done:
        told = f"VM {done.identity.vm_id} is already provisioned{done}: nothing to do"
        context.events.tell(INFO, "provision", told)
        return keep_up(context, done.identity)
    except LockTimeout as error:
        context.events.tell(WARN, "lock", f"{error}; that run will report")
        return error.exit_code
    except (Exception, Stopped) as error:  # noqa: BLE001 - the outermost: whatever happens, one verdict leaves
        stopped = error.at if isinstance(error, Stopped) else None
        outcome = Outcome(known=known_to(error), failure=declared(error), stopped=stopped)
    return conclude(context, channels, outcome)


def attempt(context: Context, identity: Identity, channels: Channels) -> Settled:
    """The phases before the verdict. They are imported when they begin: a provisioned machine loads none of them."""
    from azureinit.run.early import begin_early
    from azureinit.run.recall import hold_lock, may_be_in_pool, recall

    platform, waiting, logins = channels.platform, channels.waiting, channels.logins
    if context.unmounted is not None:
        raise LocalError(f"the data directory cannot be used: {context.unmounted} is not mounted")
    logins.hold(identity, may_stay=may_be_in_pool(context))
    if not context.again:
        hold_lock(context, identity)
    if identity.instance is not None and context.machine.stat(identity.instance.path("userdata")) is not None:
        from azureinit.run.readiness import resumed

        return resumed(context, identity)
    memory = recall(context, identity)
    if memory.waits is not None:
        wait_for_customer(context, identity, memory, channels)
    early = begin_early(context, memory)
    try:
        from azureinit.run.gather import gather

        if memory.pool is None:  # the platform has had a Ready of a VM from a pool
            channels.in_progress.start(identity.vm_id)
        asked = gather(context, identity, memory, early, platform=platform, waiting=waiting, meanwhile=load_next_phases)
    finally:
        early.wait()
    if asked.memory.waits is not None:
        wait_for_customer(context, asked.identity, asked.memory, channels)
    if asked.pps_type is not None:
        from azureinit.run.pool import enter_pool

        raise Reused(enter_pool(context, channels, asked, early))
    logins.decide()
    with Knowing(known_of(asked)):
        from azureinit.run.settle import settle

        if asked.memory.pool is None:
            channels.in_progress.start(asked.identity.vm_id)  # where only IMDS could tell the VM's id
        settled = settle(context, asked, logins=logins)
        if asked.unconfirmed is not None:
            from azureinit.run.confirm import confirm

            settled = confirm(context, settled, platform=platform, waiting=waiting, logins=logins)
    return settled


def wait_for_customer(context: Context, identity: Identity, memory: Memory, channels: Channels) -> NoReturn:
    """Where an earlier start has reported Ready in a pool, or may have, and the customer's data have not arrived."""
    from azureinit.run.pool import resume_pool

    raise Reused(resume_pool(context, channels, identity, memory))


def conclude(context: Context, channels: Channels | None, outcome: Outcome) -> int:
    """The verdict, and what follows it. `channels` are None for a run that failed before it opened them."""
    from azureinit.run.channels import open_channels
    from azureinit.run.deliver import Delivery
    from azureinit.run.termination import SigtermStops, bound, is_silent

    if outcome.failure is not None and is_silent(context, outcome):
        context.events.flush()
        return outcome.failure.exit_code
    context, channels = bound(context, channels or open_channels(context), outcome)
    if outcome.settled is not None:
        correct_way(context, outcome.settled)
    try:
        with Delivery(context, channels) as delivery:
            with SigtermStops(context, applies=outcome.failure is not None and outcome.stopped is None):
                status = delivery.deliver(outcome)
            if outcome.settled is not None and status == 0:
                from azureinit.run.after_ready import finish

                finish(context, outcome.settled, platform=channels.platform)
    except Stopped as stop:
        return conclude(context, channels, replace(outcome, stopped=stop.at))
    return status


def correct_way(context: Context, settled: Settled) -> None:
    """Ready must leave by the primary NIC. Nothing is loaded for a machine with one NIC."""
    from azureinit.sources.metadata import is_simple

    metadata = settled.asked.metadata
    if metadata is None or metadata.network is None or is_simple(metadata.network):
        return
    from azureinit.run.after_ready import situation_of
    from azureinit.run.maintenance import BEFORE_READY, maintain

    maintain(context, (BEFORE_READY,), situation_of(context, settled))


def start_boot(context: Context) -> None:
    from azureinit.run.maintenance import START, Situation, maintain

    maintain(context, (START,), Situation(machine=context.machine, config=context.config))


def is_left_to_resend(context: Context, identity: Identity) -> bool:
    """An earlier boot did everything, and the platform has not accepted Ready: another unit sends it."""
    if context.booted is None or identity.instance is None:
        return False
    from azureinit.memory.pending import is_ready_pending

    if not is_ready_pending(context.machine, identity.instance):
        return False
    from azureinit.run.resend import start_resending

    told = "provisioned in an earlier boot; azure-init-resend reports Ready again"
    context.events.tell(INFO, "provision", told)
    start_resending(context)
    return True


def keep_up(context: Context, identity: Identity) -> int:
    from azureinit.run.after_ready import keep_up

    return keep_up(context, identity)


def load_next_phases() -> None:
    """Import the modules of later phases while the platform and sshd work: saves about 10 ms before Ready."""
    import azureinit.run.deliver
    import azureinit.run.settle  # noqa: F401


def reject(context: Context, error: AzureInitError) -> int:
    """Report an invalid configuration like any other failure, if azure-init provisions this machine."""
    if not may_change(context.machine) or why_not_ours(context) is not None:
        raise error
    try:
        known = Known(identity=identify(context))
    except AlreadyProvisioned:
        raise error from None  # the platform has its verdict
    except AzureInitError as another:
        known = known_to(another)  # the first mistake is the one to report
    # Also in a pool: no start can get further with this configuration.
    return conclude(context, None, Outcome(known=replace(known, waits=False), failure=error))
