"""The corridor's last door: the verdict goes out, and what it leaves behind on this machine."""

from __future__ import annotations

from azureinit.errors import AzureInitError, HttpFailed, MediaRefused, SourceError, VerdictUndelivered
from azureinit.machine import rfc3339
from azureinit.machine.durable import make_durable
from azureinit.machine.service import notify
from azureinit.memory.instance import (
    ALONE,
    forget_pending,
    mark_provisioned,
    was_alone,
    write_pending,
    write_verdict,
)
from azureinit.memory.saved import needs_saving, write_saved
from azureinit.report.health import size_on_the_wire
from azureinit.report.protocol import send_progress, send_verdict
from azureinit.report.verdict import Subject, success_report
from azureinit.run.engine import ready_is_pending
from azureinit.sources.metadata import is_specialised
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.http import Observe
    from azureinit.plan.actions import Step
    from azureinit.report.goalstate import Fetch
    from azureinit.run.engine import Walk
    from azureinit.sources.goalstate import GoalState

EJECT_TIMEOUT = 10.0
UNHEARD = ", not delivered"
KERNEL_LOG_BYTES = 64 << 10


def start_in_progress(walk: Walk) -> None:
    """Best effort, beside the work; the verdict waits for its end, so that it never arrives after that."""
    if walk.vm_id is None or walk.in_progress is not None:
        return
    from azureinit.machine.threads import start

    walk.events.flush()

    def work() -> None:
        try:
            wait_for_wireserver(walk, until=walk.context.work_deadline)
            send_progress(
                walk.config,
                walk.vm_id,
                protocol=walk.config.report.protocol,
                fetch=_fetch(walk),
                clock=walk.machine.clock,
                deadline=walk.context.deadline,
                observe=walk.events.observe,
            )
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            walk.events.tell(DEBUG, "in progress", str(error))

    walk.in_progress = start(work)


def wait_for_wireserver(walk: Walk, *, until: float) -> None:
    """In a boot the network may still be on its way up; what is tried before it is there only adds delays."""
    from azureinit.addresses import host_of
    from azureinit.sources.route import is_to_be_found, wait_for_route

    if not walk.located and is_to_be_found(walk.machine, walk.config):
        from azureinit.run.platform import locate

        locate(walk, until=until)
    if walk.context.booted is not None:
        host = host_of(walk.config.wireserver.health_endpoint)
        wait_for_route(walk.machine, host, until=until, late=lambda: mend_route(walk, host))


def mend_route(walk: Walk, host: str) -> bool:
    from azureinit.run.platform import mend

    return mend(walk, host)


def mend_again(walk: Walk) -> None:
    """A DHCP client that was asked for the lease again takes routes away that are not its own."""
    from azureinit.run.platform import mend

    hosts = sorted(walk.mended)
    walk.mended.clear()
    for host in hosts:
        mend(walk, host)


def save(walk: Walk, *, with_hash: bool = True) -> None:
    """What a later run still needs once the host has taken the media away."""
    metadata, instance = walk.metadata, walk.instance
    assert metadata is not None and instance is not None
    if needs_saving(metadata):
        write_saved(walk.machine, instance.path("saved"), metadata, with_secrets=with_hash)


def deliver(walk: Walk, failure: AzureInitError | None) -> int:
    """The exit code."""
    for made in walk.keys:  # where it came to nothing before anybody waited for them
        made.wait()
    if failure is not None and _ready_outlives(walk, failure):
        walk.events.tell(WARN, "provision", str(failure))
        try:
            return _keep_ready(walk, failure)
        finally:
            _finish_telling(walk)
    if failure is not None:
        hint = f" ({failure.hint})" if failure.hint else ""
        walk.events.tell(ERROR, "provision", f"{failure.reason}: {failure}{hint}")
        quiet_waagent(walk)  # it starts as soon as we say that we are ready
    # Whoever waits for us to log in need not wait for the platform's ear.
    walk.ended = True
    notify(walk.machine, "READY=1\nSTATUS=" + ("provisioned" if failure is None else f"failed: {failure.reason}"))
    walk.wait("the platform to hear " + ("Ready" if failure is None else "of the failure"))
    if walk.in_progress is not None:
        walk.in_progress.wait()
    if failure is None:
        _note_verdict(walk, "ready")  # before it leaves: nobody may contradict it then
    try:
        return _deliver_ready(walk) if failure is None else _deliver_failure(walk, failure)
    finally:
        walk.wait("")
        _finish_telling(walk)


def _finish_telling(walk: Walk) -> None:
    """After the verdict: what is left for those who listen, and what did not reach them."""
    context, events = walk.context, walk.events
    events.flush()
    if context.kvp is not None and context.kvp.failure:
        level = WARN if not context.kvp.missing else DEBUG if walk.machine.rooted else INFO
        events.tell(level, "kvp", f"the host does not get everything of this run: {context.kvp.failure}")
    if context.otlp is not None:
        context.otlp.send(context.deadline, tell=events.tell)
    events.flush()


def _note_verdict(walk: Walk, verdict: str) -> None:
    try:
        write_verdict(walk.machine, verdict)
    except AzureInitError as error:
        walk.events.tell(DEBUG, "verdict", str(error))


def _deliver_ready(walk: Walk) -> int:
    machine, events = walk.machine, walk.events
    assert walk.instance is not None
    try:
        with events.step("report Ready") as span:
            if walk.alone is not None:
                raise VerdictUndelivered("no network: IMDS has not agreed yet with the media that were applied")
            _eject(walk)
            _publish(walk, success_report(_subject(walk), walk.doubts))
            wait_for_wireserver(walk, until=walk.context.work_deadline)
            _send(walk, None)
            span.text = "reported Ready: the platform accepted it"
    except VerdictUndelivered as error:
        return _keep_ready(walk, error)
    walk.wait("")
    notify(machine, "STATUS=provisioned; the platform has accepted Ready")
    _forget_hash(walk)
    left = _plan_after_ready(walk)
    try:
        mark_provisioned(machine, walk.instance, unfinished=bool(left))
    except AzureInitError as error:
        # Done and told: the next start finds nothing to do and says Ready once more.
        events.tell(WARN, "marker", str(error))
    _after_ready(walk, left)
    from azureinit.run.maintenance import tell_fingerprint, tune, watch_hostname

    watch_hostname(walk)
    if walk.mended:
        mend_again(walk)
    tell_fingerprint(walk, _fetch(walk))
    tune(walk)  # last: a boot menu may take its time
    return 0


def _ready_outlives(walk: Walk, failure: AzureInitError) -> bool:
    """Everything was done, and sources that are silent now do not undo it: Ready is still to be told, no failure."""
    return isinstance(failure, SourceError) and not isinstance(failure, MediaRefused) and ready_is_pending(walk)


def _keep_ready(walk: Walk, error: AzureInitError) -> int:
    from azureinit.run.maintenance import start_resending

    keep(walk, verdict="ready", failure="")
    start_resending(walk)
    look_at_the_network(walk, error)
    _note_verdict(walk, "ready" + UNHEARD)
    notify(walk.machine, "STATUS=provisioned; the platform has not accepted Ready yet")
    walk.events.tell(WARN, "report Ready", "the platform has not accepted it; it is sent again until it does")
    return VerdictUndelivered.exit_code


def _deliver_failure(walk: Walk, failure: AzureInitError) -> int:
    from azureinit.report.verdict import MAX_DESCRIPTION, MAX_POOLED, failure_report, size_in_the_pool

    machine, events = walk.machine, walk.events
    subject = _subject(walk)
    _save_anyway(walk)  # the host takes the media away after this verdict too
    extra = {"previous": walk.previous} if walk.previous else {}
    report = failure_report(failure, subject, extra, limit=MAX_DESCRIPTION, size=size_on_the_wire)
    heard = ""
    try:
        with events.step("report failure") as span:
            _publish(walk, failure_report(failure, subject, extra, limit=MAX_POOLED, size=size_in_the_pool))
            _attach_kernel_log(walk)
            wait_for_wireserver(walk, until=walk.context.deadline)
            _send(walk, report)
            span.text = "reported the failure: the platform accepted it"
        if walk.instance is not None and was_alone(machine, walk.instance):
            keep(walk, verdict="unfinished", failure="")  # what was applied stays, and so IMDS still has to agree
        elif walk.instance is not None:
            forget_pending(machine, walk.instance)
    except VerdictUndelivered as error:
        heard = UNHEARD
        keep(walk, verdict="failure", failure=failure.reason)
        look_at_the_network(walk, error)
    except AzureInitError as error:
        events.tell(WARN, "pending verdict", str(error))  # told already; the exit code is the failure's own
    notify(machine, f"STATUS=failed: {failure.reason}; the platform has {'not ' if heard else ''}heard it")
    _note_verdict(walk, "failure" + heard)  # after sending: a duplicate failure report is harmless, a lost one is not
    return failure.exit_code


def _send(walk: Walk, failure: str | None) -> None:
    send_verdict(
        walk.config,
        failure,
        protocol=walk.config.report.protocol,
        fetch=_fetch(walk),
        clock=walk.machine.clock,
        deadline=walk.context.deadline,
        observe=_observe_and_flush(walk),
    )


def _observe_and_flush(walk: Walk) -> Observe:
    """The host reads the pool at the attempt that it hears, which may not be the first."""

    def observe(name: str, **fields: Any) -> None:
        walk.events.observe(name, **fields)
        if fields.get("failure"):
            walk.trouble["wireserver"] = AzureInitError(str(fields["failure"]))
            walk.events.flush()

    return observe


def _fetch(walk: Walk) -> Fetch:
    """The goal state, without which the older endpoint hears nothing."""

    def fetch(deadline: float) -> GoalState:
        from azureinit.sources.goalstate import read_goal_state, wireserver

        return read_goal_state(
            walk.config,
            endpoint=wireserver(walk.config),
            clock=walk.machine.clock,
            deadline=deadline,
            observe=walk.events.observe,
        )

    return fetch


def _subject(walk: Walk) -> Subject:
    pps_type = walk.metadata.pps_type if walk.metadata else None
    return Subject(vm_id=walk.vm_id, pps_type=pps_type, timestamp=rfc3339(walk.machine.clock.now()))


def _publish(walk: Walk, report: str) -> None:
    """Before the platform hears a word: the host reads only what lies in the pool by then."""
    walk.events.flush()
    if walk.context.kvp is not None:
        walk.context.kvp.report(report)


def _attach_kernel_log(walk: Walk) -> None:
    kvp = walk.context.kvp
    if kvp is None or walk.machine.rooted:
        return
    from azureinit.machine.kmsg import read_kernel_log

    try:
        log = read_kernel_log(walk.machine, limit=KERNEL_LOG_BYTES)
        if log:
            kvp.attach("dmesg", log, event_id=walk.events.new_id())
    except Exception as error:  # noqa: BLE001 - the verdict waits for us
        walk.events.tell(DEBUG, "kernel log", f"{type(error).__name__}: {error}")


def look_at_the_network(walk: Walk, error: AzureInitError) -> None:
    """Once a run, where nobody answered at all: what an operator would ask for first."""
    if walk.looked_at_network or (isinstance(error.__cause__, HttpFailed) and error.__cause__.status):
        return
    walk.looked_at_network = True
    from azureinit.addresses import host_of
    from azureinit.facts.diagnosis import HOSTS
    from azureinit.facts.network import network_in_brief, read_network

    hosts = (HOSTS[0], host_of(walk.config.wireserver.health_endpoint)) if walk.located else HOSTS
    try:
        walk.events.tell(WARN, "network", network_in_brief(read_network(walk.machine), hosts=hosts))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not the cause we are asked for
        walk.events.tell(WARN, "network", f"cannot be looked at: {type(error).__name__}: {error}")


def quiet_waagent(walk: Walk) -> None:
    """Also where we never came to a plan."""
    from azureinit.apply.executor import apply_plan
    from azureinit.facts.gather import read_waagent
    from azureinit.memory.journal import MemoryJournal
    from azureinit.plan.actions import work_left
    from azureinit.plan.waagent import plan_waagent

    try:
        library = walk.config.waagent.lib_dir
        if walk.context.unmounted is not None:
            from azureinit.facts.mounts import missing_mount

            if missing_mount(walk.machine, library):
                return
        waagent = read_waagent(walk.machine, library)
        if waagent is not None and waagent.marker is not None and walk.config.platform.changed_vm_id == "keep":
            from azureinit.run.changed_id import is_witness

            if is_witness(walk, waagent.marker):
                return
        plan = plan_waagent(vm_id=walk.vm_id, waagent=waagent, lib_dir=library, metadata=walk.metadata)
        if work_left(plan):
            apply_plan(walk.machine, plan, journal=MemoryJournal(), events=walk.events, deadline=walk.context.deadline)
    except Exception as error:  # noqa: BLE001 - the failure we are about to tell is the one that counts
        walk.events.tell(WARN, "waagent marker", f"{type(error).__name__}: {error}")


def _save_anyway(walk: Walk) -> None:
    if walk.metadata is None or walk.instance is None:
        return
    try:
        save(walk)
        make_durable(walk.machine, walk.instance.data_dir)
    except AzureInitError as error:
        walk.events.tell(WARN, "saved media", str(error))


def keep(walk: Walk, *, verdict: str, failure: str) -> None:
    """An undelivered verdict; where even that cannot be written, the next run simply starts anew."""
    if walk.instance is None:
        return
    try:
        alone = ALONE if walk.alone is not None or was_alone(walk.machine, walk.instance) else ""
        write_pending(walk.machine, walk.instance, verdict=verdict, failure=failure, sources=alone)
    except AzureInitError as error:
        walk.events.tell(WARN, "pending verdict", str(error))


def _eject(walk: Walk) -> None:
    if walk.device is None or walk.machine.rooted or not walk.config.provisioning_media.eject:
        return
    if walk.facts is not None and walk.facts.ignition is not None:
        sign = walk.facts.ignition.sign
        walk.events.tell(INFO, "eject", f"the media are not ejected: Ignition may run again and read them ({sign})")
        return
    try:
        walk.machine.eject(walk.device, timeout=EJECT_TIMEOUT)
    except AzureInitError as error:
        walk.events.tell(INFO, "eject", str(error))


def _forget_hash(walk: Walk) -> None:
    """Its work is done. Before the marker, after which no run looks at it again; better to lose all that is saved."""
    if walk.metadata is None or (walk.metadata.password_hash is None and not walk.metadata.key_pairs):
        return
    assert walk.instance is not None
    try:
        save(walk, with_hash=False)
    except AzureInitError as error:
        walk.events.tell(WARN, "saved media", str(error))
        try:
            walk.machine.remove(walk.instance.path("saved"))
        except AzureInitError as error:
            walk.events.tell(WARN, "saved media", str(error))


def _after_ready(walk: Walk, steps: tuple[Step, ...]) -> None:
    """What no login depends on; it can fail only into the log, and is tried again at the next boot."""
    from azureinit.run.maintenance import finish, grow, publish

    grow(walk)
    if walk.metadata is not None and not is_specialised(walk.metadata):
        publish(walk)
    finish(walk, steps)


def _plan_after_ready(walk: Walk) -> tuple[Step, ...]:
    from azureinit.plan.actions import work_left
    from azureinit.plan.plan import plan_after_ready

    assert walk.journal is not None and walk.facts is not None
    if walk.metadata is None or is_specialised(walk.metadata):
        return ()
    try:
        return work_left(plan_after_ready(facts=walk.facts, config=walk.config, done=walk.journal.done))
    except Exception as error:  # noqa: BLE001 - the verdict has left: nothing may contradict it
        walk.events.tell(WARN, "after Ready", f"{type(error).__name__}: {error}")
        return ()
