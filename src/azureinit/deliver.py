"""The corridor's last door: the verdict goes out, and what it leaves behind on this machine."""

from __future__ import annotations

from azureinit.apply.instance import forget_pending, mark_provisioned, write_pending, write_saved
from azureinit.errors import AzureInitError, VerdictUndelivered
from azureinit.machine import rfc3339
from azureinit.report.health import send_failure, send_in_progress, send_ready, size_on_the_wire
from azureinit.sources.metadata import is_specialised
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.engine import Walk

EJECT_TIMEOUT = 10.0
SAVED = ("username", "hostname", "disable_password", "has_password", "custom_data", "pps_type")


def start_in_progress(walk: Walk) -> None:
    """Best effort, beside the work; the verdict waits for its end, so that it never arrives after that."""
    if walk.vm_id is None or walk.in_progress is not None:
        return
    import threading

    def work() -> None:
        try:
            send_in_progress(
                walk.config,
                walk.vm_id,
                clock=walk.machine.clock,
                deadline=walk.context.deadline,
                observe=walk.events.observe,
            )
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            walk.events.tell(DEBUG, "in progress", str(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    walk.in_progress = thread.join


def save(walk: Walk, *, with_hash: bool = True) -> None:
    """What a later run still needs once the host has taken the media away."""
    metadata, instance = walk.metadata, walk.instance
    assert metadata is not None and instance is not None
    media_only = metadata.has_password or metadata.custom_data is not None
    if not media_only and metadata.provenance.get("username", "imds") == "imds":
        return
    values = {field: getattr(metadata, field) for field in SAVED if getattr(metadata, field) is not None}
    values["keys"] = [(key.data, key.path) for key in metadata.keys]
    if with_hash and metadata.password_hash is not None:
        values["password_hash"] = metadata.password_hash
    write_saved(walk.machine, instance, values)


def deliver(walk: Walk, failure: AzureInitError | None) -> int:
    """The exit code."""
    if walk.in_progress is not None:
        walk.in_progress()
    return _deliver_ready(walk) if failure is None else _deliver_failure(walk, failure)


def _deliver_ready(walk: Walk) -> int:
    machine, events = walk.machine, walk.events
    assert walk.instance is not None
    _eject(walk)
    try:
        with events.step("report Ready") as span:
            send_ready(walk.config, clock=machine.clock, deadline=walk.context.deadline, observe=events.observe)
            span.text = "the platform accepted it"
    except VerdictUndelivered as error:
        _keep(walk, verdict="ready", failure="")
        events.tell(WARN, "report Ready", "the platform has not accepted it; sent again at the next start")
        return error.exit_code
    _after_ready(walk)
    try:
        mark_provisioned(machine, walk.instance)
    except AzureInitError as error:
        # Done and told: the next start finds nothing to do and says Ready once more.
        events.tell(WARN, "marker", str(error))
    return 0


def _deliver_failure(walk: Walk, failure: AzureInitError) -> int:
    from azureinit.report.verdict import MAX_DESCRIPTION, Subject, failure_report

    machine, events = walk.machine, walk.events
    events.tell(ERROR, "provision", f"{failure.reason}: {failure}" + (f" ({failure.hint})" if failure.hint else ""))
    subject = Subject(
        vm_id=walk.vm_id,
        pps_type=walk.metadata.pps_type if walk.metadata else None,
        timestamp=rfc3339(machine.clock.now()),
    )
    _save_anyway(walk)  # the host takes the media away after this verdict too
    extra = {"previous": walk.previous} if walk.previous else {}
    report = failure_report(failure, subject, extra, limit=MAX_DESCRIPTION, size=size_on_the_wire)
    try:
        with events.step("report failure") as span:
            clock, deadline = machine.clock, walk.context.deadline
            send_failure(walk.config, report, clock=clock, deadline=deadline, observe=events.observe)
            span.text = "the platform accepted it"
        if walk.instance is not None:
            forget_pending(machine, walk.instance)
    except VerdictUndelivered:
        _keep(walk, verdict="failure", failure=failure.reason)
    except AzureInitError as error:
        events.tell(WARN, "pending verdict", str(error))  # told already; the exit code is the failure's own
    return failure.exit_code


def _save_anyway(walk: Walk) -> None:
    if walk.metadata is None or walk.instance is None:
        return
    try:
        save(walk)
    except AzureInitError as error:
        walk.events.tell(WARN, "saved media", str(error))


def _keep(walk: Walk, *, verdict: str, failure: str) -> None:
    """An undelivered verdict; where even that cannot be written, the next run simply starts anew."""
    if walk.instance is None:
        return
    try:
        write_pending(walk.machine, walk.instance, verdict=verdict, failure=failure)
    except AzureInitError as error:
        walk.events.tell(WARN, "pending verdict", str(error))


def _eject(walk: Walk) -> None:
    if walk.device is None or walk.machine.rooted or not walk.config.provisioning_media.eject:
        return
    try:
        walk.machine.eject(walk.device, timeout=EJECT_TIMEOUT)
    except AzureInitError as error:
        walk.events.tell(INFO, "eject", str(error))


def _forget_hash(walk: Walk) -> None:
    """It has done its work; better to forget everything than to keep it."""
    assert walk.instance is not None
    try:
        save(walk, with_hash=False)
    except AzureInitError as error:
        walk.events.tell(WARN, "saved media", str(error))
        walk.machine.remove(walk.instance.path("saved"))


def _after_ready(walk: Walk) -> None:
    """What nobody waits for; it can fail only into the log."""
    from azureinit.apply.executor import apply_plan
    from azureinit.plan.plan import plan_after_ready, work_left

    assert walk.journal is not None and walk.facts is not None
    try:
        if walk.metadata is not None and walk.metadata.password_hash is not None:
            _forget_hash(walk)
        if walk.metadata is None or is_specialised(walk.metadata):
            return
        plan = plan_after_ready(facts=walk.facts, config=walk.config)
        if work_left(plan):
            apply_plan(walk.machine, plan, journal=walk.journal, events=walk.events, deadline=walk.context.deadline)
    except Exception as error:  # noqa: BLE001 - the verdict has left: nothing may contradict it
        walk.events.tell(WARN, "after Ready", f"{type(error).__name__}: {error}")
