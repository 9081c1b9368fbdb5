"""The Ready of a VM in a pool, sent until the platform has accepted it.

A request that got no answer may have arrived, and a customer may have the VM by then: another Ready would count as the
customer's. It is sent only while IMDS says that the VM is in the pool. A Savable VM sends no other one, since its NIC
may have been pulled before the answer came.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError, HttpFailed, MediaAbsent, PoolReadyFailed, VerdictUndelivered
from azureinit.http import SHORTEST_DELAY, jitter, open_connection
from azureinit.machine import rfc3339
from azureinit.machine.interruptible import interruptible
from azureinit.plan.pool import PAUSE_SECS
from azureinit.report.health import policy
from azureinit.report.protocol import send_verdict
from azureinit.report.verdict import Subject, success_report
from azureinit.run.gather import CONFIRM_SECS
from azureinit.sources.gather import ask_sources
from azureinit.sources.pps import SAVABLE, TYPES
from azureinit.sources.reprovision import DATA, NOT_YET, ask_once
from azureinit.telemetry.events import WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from azureinit.machine.sockets import socket
    from azureinit.run.channels import Channels
    from azureinit.run.pool_links import PoolLinks
    from azureinit.run.state import Context, Identity
    from azureinit.sources.goalstate import GoalState
    from azureinit.telemetry.events import Span

GOAL_STATE = "goalstate-retrieval"


class PoolReady:
    def __init__(self, context: Context, channels: Channels, identity: Identity, kind: str, links: PoolLinks) -> None:
        self.context, self.events, self.clock = context, context.events, context.machine.clock
        self.channels, self.platform = channels, channels.platform
        self.identity, self.kind, self.links = identity, kind, links
        self.doubtful = False  # the platform may have had Ready
        self._opened = False  # the connection of the last request

    def report(self, *, doubtful: bool = False) -> bool:
        """False if Ready is not sent again, since this VM has left its pool, or may have."""
        context = self.context
        self.doubtful = doubtful
        subject = Subject(vm_id=self.identity.vm_id, pps_type=self.kind, timestamp=rfc3339(self.clock.now()))
        try:
            with self.events.step("report Ready in the pool") as span:
                self.events.flush()
                self.platform.wait(until=context.work_deadline)
                if context.kvp is not None:
                    context.kvp.report(success_report(subject))
                return self._send_until_accepted(span)
        except AzureInitError as error:
            raise PoolReadyFailed(f"the pool's Ready was not accepted: {error}", **error.data) from error

    def _send_until_accepted(self, span: Span) -> bool:
        config = self.platform.config
        ends = min(self.context.work_deadline, self.clock.monotonic() + config.wireserver.total_retry_timeout_secs)
        retry = policy(config)
        pause = max(retry.delay, SHORTEST_DELAY)
        while True:
            longer = pause * jitter()
            in_pool = is_in_pool(self.context, self.channels, secs=CONFIRM_SECS) if self.doubtful else True
            if in_pool:
                error = self._send()
                if error is None:
                    span.text = "reported Ready in the pool: the platform accepted it"
                    return True
                cause = error.__cause__ if isinstance(error.__cause__, HttpFailed) else None
                arrived = self._opened and cause is not None and not cause.status
                if self.kind == SAVABLE and (arrived or self.links.moved()):
                    span.text = f"reported Ready in the pool; its answer is lost ({error}), as is expected"
                    return True
                self.doubtful = self.doubtful or arrived
                longer = max(longer, cause.retry_after if cause is not None else 0.0)
                if self.clock.monotonic() + longer >= ends:
                    raise error
            elif in_pool is False or self.clock.monotonic() + longer >= ends:
                span.text = "Ready is not reported again: this VM has left its pool, or may have"
                return False
            self.clock.sleep(longer)
            pause = min(pause * retry.growth, retry.max_delay)

    def _send(self) -> VerdictUndelivered | None:
        config = self.platform.config
        try:
            send_verdict(
                config,
                None,
                protocol=config.report.protocol,
                fetch=self._goal_state,
                clock=self.clock,
                deadline=self.context.work_deadline,
                observe=self.events.observe,
                attempts=1,
                connect=self._connect,
            )
        except VerdictUndelivered as error:
            return error
        return None

    def _goal_state(self, deadline: float) -> GoalState:
        with self.events.step(GOAL_STATE):
            return self.platform.goal_state(deadline)

    def _connect(self, host: str, port: int, seconds: float) -> socket:
        """No answer is waited for once the NIC is gone: the customer's machine waits meanwhile."""
        self._opened = False
        connection = open_connection(host, port, seconds)
        self._opened = True
        return interruptible(connection, self.links.moved) if self.kind == SAVABLE else connection


def is_in_pool(context: Context, channels: Channels, *, secs: float) -> bool | None:
    """What IMDS says now; None if it does not answer. One that names no type has no customer's data for a VM in the
    pool.
    """
    clock = context.machine.clock
    gathered = ask_sources(
        context.machine,
        context.config,
        deadline=min(context.work_deadline, clock.monotonic() + secs),
        observe=context.events.observe,
        route=context.booted is not None,
        add_route=channels.platform.add_route,
        medium=_no_medium,
    )()
    imds = gathered.answers.get("imds")
    if imds is None:
        told = f"whether this VM is still in its pool is not known: {gathered.failures['imds']}"
        context.events.tell(WARN, "pre-provisioning", told)
        return None
    if imds.pps_type is not None:
        return imds.pps_type in TYPES
    clock.sleep(PAUSE_SECS)  # a second between two requests for the data, at least
    return {NOT_YET: True, DATA: False}.get(ask_once(context.config, clock=clock).kind)


def _no_medium(_deadline: float, _note: Callable[[AzureInitError], None]) -> NoReturn:
    raise MediaAbsent("a medium in the drive is the pool's")
