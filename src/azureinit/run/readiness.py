"""Ready where there is customData: when the admin can log in, or when a stage of customData has succeeded.

readiness.at = "access": the run reports Ready after the network stage, because sshd starts then. "config", "final": the
run leaves a pending verdict; the unit of that stage reports Ready or the failure, and a timer reports a failure if
nothing was reported in time. `.userdata` exists from the moment when the machine is what was asked for: what customData
changes from then on is intended, and so no later run plans the machine again.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.facts.gather import read_facts
from azureinit.machine.durable import make_durable
from azureinit.memory.pending import AWAITS, READY, TOLD, Pending, read_pending
from azureinit.memory.pool import read_moment
from azureinit.plan.actions import impossible_steps
from azureinit.record import replace
from azureinit.run.admin import with_admin_files
from azureinit.run.deliver import Delivery
from azureinit.run.desired import login_doubts, plan_login
from azureinit.run.enact import best_effort, enact
from azureinit.run.recall import recall
from azureinit.run.saving import save_media, save_pending
from azureinit.run.serving import ACCESS, can_start, start_stages
from azureinit.run.stages import find_stage
from azureinit.run.state import Asked, Settled
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.channels import Channels
    from azureinit.run.state import Context, Identity, Memory

NETWORK_UNIT = find_stage("network").unit
NETWORK_ENDED = "azure-init-userdata-network.target"
DEADLINE_UNIT = find_stage("deadline").unit
MORE_SECS = 30.0  # of waiting, beyond the stage's own limit
TIMER_SECS = 10.0
LEAST_SECS = 1.0


def resumed(context: Context, identity: Identity) -> Settled:
    """The machine as an earlier run left it. Where the run has no verdict to report, it is not looked at."""
    if not _awaits(context, identity):
        return settled_before(context, identity)
    facts = read_facts(context.machine, context.config, ())
    asked = Asked(identity=identity, memory=_recall(context, identity), facts=facts)
    return Settled(asked=asked, facts=facts, served=True)


def _recall(context: Context, identity: Identity) -> Memory:
    """No run plans this machine again: the password that a failure has saved with the media is forgotten."""
    memory = recall(context, identity)
    saved = memory.saved
    if saved is not None and (saved.password_hash is not None or saved.key_pairs):
        best_effort(context.events, "saved media", lambda: save_media(context, identity, saved, with_secrets=False))
    return memory


def settled_before(context: Context, identity: Identity) -> Settled:
    """The machine as an earlier run and customData have made it, and whether the admin can still log in."""
    from azureinit.memory.userdata import read_userdata

    assert identity.instance is not None
    saved = read_userdata(context.machine, identity.instance)
    metadata = saved.metadata if saved is not None else Metadata()
    memory, facts = _recall(context, identity), read_facts(context.machine, context.config)
    asked = Asked(identity=identity, memory=memory, facts=facts, metadata=metadata)
    return _judged(context, Settled(asked=asked, facts=facts, served=True))


def _judged(context: Context, settled: Settled) -> Settled:
    """With the host name that customData has chosen, and what its modules mean for the admin's login."""
    from azureinit.memory.userdata import read_chosen_name

    asked, metadata = settled.asked, settled.asked.metadata or Metadata()
    name = read_chosen_name(context.machine, asked.identity.instance)
    renamed = name is not None and name != metadata.hostname
    metadata = replace(metadata, hostname=name or metadata.hostname)
    facts = with_admin_files(context.machine, context.config, settled.facts, metadata)
    asked = replace(asked, metadata=metadata)
    doubts: tuple[str, ...] = ()
    if metadata.username:
        # What later stages may change counts only where the login was doubtful before this one.
        judged = metadata if settled.doubts else replace(metadata, custom_data=None)
        plan = plan_login(context, judged, facts, pending=False)
        refused = impossible_steps(plan)
        enact(context.machine, refused, events=context.events, deadline=context.work_deadline)  # fails if there is one
        doubts = login_doubts(asked, plan)
    return replace(settled, asked=asked, facts=facts, doubts=doubts, renamed=settled.renamed or renamed)


def _verdict(context: Context, identity: Identity) -> str:
    pending = read_pending(context.machine, identity.instance) if identity.instance is not None else None
    return pending.verdict if pending is not None else ""


def _awaits(context: Context, identity: Identity) -> bool:
    """Whether a stage reports the verdict, or none is to be reported any more."""
    verdict = _verdict(context, identity)
    later = context.config.readiness.at != ACCESS and can_start(context.machine)
    return verdict == TOLD or (later and verdict != READY)


def reach(context: Context, channels: Channels, settled: Settled) -> Settled:
    """Start the stages. `awaits` is set where the run has no verdict to report."""
    identity = settled.asked.identity
    if _verdict(context, identity) == READY and context.booted is None:
        return settled  # azure-init-resend
    started = start_stages(context)
    if _awaits(context, identity):
        return replace(settled, awaits=True)
    if not started:
        return settled
    channels.logins.release("provisioned; the first stage of customData runs")
    channels.waiting.begin("the network stage of customData, before which sshd does not start")
    try:
        doubt = _await_network_stage(context)
    finally:
        channels.waiting.end()
    return _after_network_stage(context, settled, doubt)


def _after_network_stage(context: Context, settled: Settled, doubt: str) -> Settled:
    """The modules of the stage may have changed what the run has read, such as host keys and sshd's configuration."""
    from azureinit.memory.modules import read_marks

    instance = settled.asked.identity.instance
    assert instance is not None
    marks = read_marks(context.machine, instance.path("modules"))
    asked = (marks.asked or {}).get("network", {})
    if marks.asked is None or asked:
        settled = _judged(context, replace(settled, facts=read_facts(context.machine, context.config)))
    failures = [one.text for one in marks.failures.values() if one.boot == marks.boot]
    left = [name for name in asked if name in marks.interrupted or name not in marks.ended]
    if marks.asked is None and not failures:
        left = ["the document"]
    failures += [f"{name}: not finished by the network stage" for name in left]
    return replace(settled, failures=tuple(failures), doubts=(*settled.doubts, *((doubt,) if doubt else ())))


def _await_network_stage(context: Context) -> str:
    """Returns the doubt that is left where the stage has not ended in time, or cannot be waited for."""
    from azureinit.plan.units import plan_await

    clock = context.machine.clock
    seconds = min(context.config.userdata.network_secs + MORE_SECS, context.work_deadline - clock.monotonic())
    doubt = f"sshd may not run: it waits for the network stage of customData, which did not end in {seconds:.0f} s"
    if seconds <= 0:
        return doubt
    plan, until = plan_await(NETWORK_UNIT, ended=NETWORK_ENDED, seconds=seconds), clock.monotonic() + seconds
    try:
        enact(context.machine, plan, events=context.events, deadline=until)
    except AzureInitError as error:  # the target is reached also where the stage has failed
        if clock.monotonic() >= until:
            return doubt
        return f"sshd may not run: whether the network stage of customData has ended is not known: {error}"
    return ""


def hand_over(context: Context, channels: Channels, settled: Settled) -> int:
    """The run ends here without a verdict. Returns the exit code."""
    from azureinit.run.after_ready import keep_up, situation_of
    from azureinit.run.maintenance import RENAMED, maintain

    identity, at = settled.asked.identity, context.config.readiness.at
    assert identity.instance is not None
    before = read_pending(context.machine, identity.instance)
    with Delivery(context, channels) as delivery:
        if before is not None and before.verdict == TOLD:
            told = "customData failed in an earlier boot, and the platform has accepted that report: nothing is added"
        else:
            until = _until(context, before)
            failure = before.failure if before is not None else ""
            # Without it no stage would report: an error is this run's failure.
            save_pending(context, identity, Pending(verdict=AWAITS, failure=failure, until=until))
            make_durable(context.machine, identity.instance.data_dir)
            _start_timer(context, until - context.machine.clock.now())
            delivery.eject(settled)
            told = f"the machine is provisioned; the verdict waits for the {at} stage of customData"
        context.events.tell(INFO, "provision", told)
        channels.in_progress.wait()
        channels.logins.release("provisioned; the verdict waits for customData")
        if settled.renamed:
            maintain(context, (RENAMED,), situation_of(context, settled))
        metadata = settled.asked.metadata
        network = metadata.network if metadata is not None else None
        return keep_up(context, identity, starts=False, network=network)


def _until(context: Context, before: Pending | None) -> float:
    """Seconds since 1970: the first boot's deadline holds for the boots after it, unless the clock has jumped."""
    clock, most = context.machine.clock, context.config.readiness.deadline_secs
    since = context.booted if context.booted is not None else context.started
    since = max(since, read_moment(context.machine))
    own = clock.now() + since + most - clock.monotonic()
    if before is None or before.verdict != AWAITS or not before.until:
        return own
    return before.until if clock.now() - most < before.until < own else own


def _start_timer(context: Context, seconds: float) -> None:
    from azureinit.plan.units import plan_deadline

    plan, until = plan_deadline(DEADLINE_UNIT, seconds=max(seconds, LEAST_SECS)), context.machine.clock.monotonic()
    try:
        enact(context.machine, plan, events=context.events, deadline=until + TIMER_SECS)
    except AzureInitError as error:
        context.events.tell(INFO, "readiness", f"no timer for readiness.deadline_secs: {error}")
