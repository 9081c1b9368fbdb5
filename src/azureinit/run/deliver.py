"""The verdict: all listeners are flushed, then Ready or the failure is reported to the platform."""

from __future__ import annotations

from azureinit.errors import AzureInitError, MediaRefused, SourceError, Terminated, VerdictUndelivered
from azureinit.machine import rfc3339
from azureinit.machine.durable import make_durable
from azureinit.machine.service import notify
from azureinit.memory.pending import (
    FAILURE,
    READY,
    TOLD,
    UNDELIVERED,
    UNFINISHED,
    Pending,
    is_ready_pending,
    read_pending,
    remove_pending,
    write_verdict,
)
from azureinit.report.health import size_on_the_wire
from azureinit.report.protocol import send_verdict
from azureinit.report.verdict import Subject, success_report
from azureinit.run.enact import best_effort
from azureinit.run.saving import keep_pending, save_media
from azureinit.run.state import Stopped
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.http import Observe
    from azureinit.run.channels import Channels
    from azureinit.run.state import Context, Known, Outcome, Settled

EJECT_TIMEOUT = 10.0
KERNEL_LOG_BYTES = 64 << 10


class Delivery:
    """Sends one verdict. At the end the listeners are flushed, unless SIGTERM cuts the delivery short."""

    def __init__(self, context: Context, channels: Channels) -> None:
        self.context, self.machine, self.events = context, context.machine, context.events
        self.platform, self.waiting = channels.platform, channels.waiting
        self.logins, self.in_progress = channels.logins, channels.in_progress

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Stopped):
            self._finish_telling()

    def deliver(self, outcome: Outcome) -> int:
        """Returns the exit code: 0 only for a Ready that the platform has accepted."""
        try:
            if outcome.failure is not None:
                return self._fail(outcome.known, outcome.failure)
            return self._succeed(outcome)
        finally:
            self.waiting.end()

    def _succeed(self, outcome: Outcome) -> int:
        self.logins.release("provisioned")
        self.waiting.begin("the platform to accept Ready")
        self.in_progress.wait()
        self._note(READY)  # before it leaves: nothing may contradict it from then on
        try:
            with self.events.step("report Ready") as span:
                if outcome.known.unconfirmed:
                    raise VerdictUndelivered("no network: IMDS has not agreed yet with the media that were applied")
                self.eject(outcome.settled)
                self._publish(success_report(self._subject(outcome.known), *_doubts(outcome)))
                self.platform.wait(until=self.context.work_deadline)
                self._send(None)
                span.text = "reported Ready: the platform accepted it"
        except VerdictUndelivered as error:
            return self._keep_ready(outcome.known, error)
        self.waiting.end()
        notify(self.machine, "STATUS=provisioned; the platform has accepted Ready")
        self._forget_secrets(outcome.known)
        return 0

    def _fail(self, known: Known, failure: AzureInitError) -> int:
        """An earlier Ready that is still to be delivered outlives sources that are silent now."""
        if _ready_outlives(failure) and is_ready_pending(self.machine, known.identity.instance):
            self.events.tell(WARN, "provision", str(failure))
            return self._keep_ready(known, failure)
        hint = f" ({failure.hint})" if failure.hint else ""
        self.events.tell(ERROR, "provision", f"{failure.reason}: {failure}{hint}")
        from azureinit.run.waagent import quiet_waagent

        quiet_waagent(self.context, known.identity, known.metadata)  # WALinuxAgent starts when the service is ready
        self.logins.release(f"failed: {failure.reason}")
        self.waiting.begin("the platform to accept the failure report")
        self.in_progress.wait()
        delivered = self._report_failure(known, failure)
        accepted = "has accepted" if delivered else "has not accepted"
        notify(self.machine, f"STATUS=failed: {failure.reason}; the platform {accepted} the report")
        # Recorded after sending: a duplicate failure report is harmless, a lost one is not.
        self._note(FAILURE + ("" if delivered else UNDELIVERED))
        return failure.exit_code

    def _report_failure(self, known: Known, failure: AzureInitError) -> bool:
        from azureinit.report.verdict import MAX_DESCRIPTION, MAX_POOLED, failure_report, size_in_the_pool

        subject, instance = self._subject(known), known.identity.instance
        self._save_media(known)
        extra = {"previous": known.previous} if known.previous else {}
        report = failure_report(failure, subject, extra, limit=MAX_DESCRIPTION, size=size_on_the_wire)
        try:
            with self.events.step("report failure") as span:
                self._publish(failure_report(failure, subject, extra, limit=MAX_POOLED, size=size_in_the_pool))
                self._attach_kernel_log()
                self.platform.wait(until=self.context.deadline)
                self._send(report)
                span.text = "reported the failure: the platform accepted it"
            if instance is not None:
                pending = read_pending(self.machine, instance)
                if pending is not None and pending.unconfirmed:  # what was applied stays: IMDS still has to agree
                    keep_pending(self.context, known.identity, Pending(verdict=UNFINISHED, unconfirmed=True))
                elif known.ends:
                    # In one step: a crash between two would let the next boot add a verdict.
                    keep_pending(self.context, known.identity, Pending(verdict=TOLD, failure=failure.reason))
                    make_durable(self.machine, instance.data_dir)
                else:
                    remove_pending(self.machine, instance)
        except VerdictUndelivered as error:
            pending = Pending(verdict=FAILURE, failure=failure.reason, unconfirmed=known.unconfirmed)
            keep_pending(self.context, known.identity, pending)
            self.platform.diagnose(error)
            return False
        except AzureInitError as error:
            self.events.tell(WARN, "pending verdict", str(error))  # delivered; the exit code is the failure's own
        return True

    def _keep_ready(self, known: Known, error: AzureInitError) -> int:
        from azureinit.run.resend import start_resending

        keep_pending(self.context, known.identity, Pending(verdict=READY, unconfirmed=known.unconfirmed))
        start_resending(self.context)
        self.platform.diagnose(error)
        self._note(READY + UNDELIVERED)
        notify(self.machine, "STATUS=provisioned; the platform has not accepted Ready yet")
        self.events.tell(WARN, "report Ready", "the platform has not accepted Ready; it is sent again until it does")
        return VerdictUndelivered.exit_code

    def _send(self, failure: str | None) -> None:
        send_verdict(
            self.platform.config,
            failure,
            protocol=self.platform.config.report.protocol,
            fetch=self.platform.goal_state,
            clock=self.machine.clock,
            deadline=self.context.deadline,
            observe=self._observe_and_flush(),
        )

    def _observe_and_flush(self) -> Observe:
        """Flush after each failed attempt: the host reads the pool at the attempt that it accepts."""

        def observe(name: str, **fields: Any) -> None:
            self.events.observe(name, **fields)
            if fields.get("failure"):
                self.waiting.silent["wireserver"] = AzureInitError(str(fields["failure"]))
                self.events.flush()

        return observe

    def _subject(self, known: Known) -> Subject:
        pps_type = known.pps_type or (known.metadata.pps_type if known.metadata else None)
        return Subject(vm_id=known.identity.vm_id, pps_type=pps_type, timestamp=rfc3339(self.machine.clock.now()))

    def _publish(self, report: str) -> None:
        """Into the key-value pool, before the health report: the host reads only what lies there by then."""
        self.events.flush()
        if self.context.kvp is not None:
            self.context.kvp.report(report)

    def _attach_kernel_log(self) -> None:
        kvp = self.context.kvp
        if kvp is None or self.machine.rooted:
            return

        def attach() -> None:
            from azureinit.machine.kmsg import read_kernel_log

            log = read_kernel_log(self.machine, limit=KERNEL_LOG_BYTES)
            if log:
                kvp.attach("dmesg", log, event_id=self.events.new_id())

        best_effort(self.events, "kernel log", attach, level=DEBUG)

    def _note(self, verdict: str) -> None:
        try:
            write_verdict(self.machine, verdict)
        except AzureInitError as error:
            self.events.tell(DEBUG, "verdict", str(error))

    def eject(self, settled: Settled | None) -> None:
        device = settled.asked.device if settled is not None else None
        if settled is None or device is None or self.machine.rooted:
            return
        if not self.context.config.provisioning_media.eject:
            return
        if settled.facts.ignition is not None:
            sign = settled.facts.ignition.sign
            self.events.tell(INFO, "eject", f"the media are not ejected: Ignition may run again and read them ({sign})")
            return
        try:
            self.machine.eject(device, timeout=EJECT_TIMEOUT)
        except AzureInitError as error:
            self.events.tell(INFO, "eject", str(error))

    def _save_media(self, known: Known) -> None:
        """The host ejects the media after a failure too."""
        instance = known.identity.instance
        if known.metadata is None or instance is None:
            return
        try:
            save_media(self.context, known.identity, known.metadata)
            make_durable(self.machine, instance.data_dir)
        except AzureInitError as error:
            self.events.tell(WARN, "saved media", str(error))

    def _forget_secrets(self, known: Known) -> None:
        """Called before the marker, after which no run reads the file. If the hash cannot be removed, the file is."""
        metadata, instance = known.metadata, known.identity.instance
        if metadata is None or instance is None or (metadata.password_hash is None and not metadata.key_pairs):
            return
        try:
            save_media(self.context, known.identity, metadata, with_secrets=False)
        except AzureInitError as error:
            self.events.tell(WARN, "saved media", str(error))
            try:
                self.machine.remove(instance.path("saved"))
            except AzureInitError as error:
                self.events.tell(WARN, "saved media", str(error))

    def _finish_telling(self) -> None:
        """At the end of the run: flush the listeners, and log which of them did not get everything."""
        context, events = self.context, self.events
        events.flush()
        if context.kvp is not None and context.kvp.failure:
            level = WARN if not context.kvp.missing else DEBUG if self.machine.rooted else INFO
            events.tell(level, "kvp", f"the host does not get all records of this run: {context.kvp.failure}")
        if context.otlp is not None:
            context.otlp.send(context.deadline, tell=events.tell)
        events.flush()


def _doubts(outcome: Outcome) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ((), ()) if outcome.settled is None else (outcome.settled.doubts, outcome.settled.failures)


def _ready_outlives(failure: AzureInitError) -> bool:
    """Whether an earlier Ready stays valid: the failure is not the machine's."""
    return isinstance(failure, (SourceError, Terminated)) and not isinstance(failure, MediaRefused)
