"""The choice of the health endpoint: JSON, or the older XML one on fabrics that lack the JSON endpoint."""

from __future__ import annotations

from azureinit.errors import HttpFailed, VerdictUndelivered
from azureinit.record import replace
from azureinit.report.health import RETRIED, policy, send_failure, send_in_progress, send_ready

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.http import Connect, Observe
    from azureinit.machine import Clock
    from azureinit.report.goalstate import Fetch

JSON, XML, AUTO = "json", "xml", "auto"
NOT_HERE = frozenset((400, 404, 405, 501))  # statuses of a server without the JSON endpoint
ENOUGH = 3


def send_verdict(
    config: Config,
    failure: str | None,
    *,
    protocol: str,
    fetch: Fetch,
    clock: Clock,
    deadline: float,
    observe: Observe | None = None,
    attempts: int = 0,
    connect: Connect | None = None,
) -> None:
    """Send Ready, or a failure's report. `auto` switches to XML after three refusals of JSON, within the same time.

    `attempts`: of each request; 0 for no limit. `connect`: opens the connection for Ready.
    """
    until = min(deadline, clock.monotonic() + config.wireserver.total_retry_timeout_secs)
    retry = policy(config) if protocol == JSON else replace(policy(config), statuses=RETRIED - NOT_HERE)
    retry = replace(retry, attempts=attempts)

    def by_json() -> None:
        if failure is None:
            send_ready(config, clock=clock, deadline=until, observe=observe, retry=retry, connect=connect)
        else:
            send_failure(config, failure, clock=clock, deadline=until, observe=observe, retry=retry)

    def by_xml() -> None:
        from azureinit.report.goalstate import send_failure_xml, send_ready_xml

        if failure is None:
            send_ready_xml(
                config,
                fetch=fetch,
                clock=clock,
                deadline=until,
                observe=observe,
                attempts=attempts,
                connect=connect,
            )
        else:
            send_failure_xml(config, failure, fetch=fetch, clock=clock, deadline=until, observe=observe)

    if protocol == AUTO:
        _either(by_json, by_xml, tries=ENOUGH, delay=retry.delay, clock=clock, until=until)
    else:
        (by_xml if protocol == XML else by_json)()


def send_progress(
    config: Config,
    vm_id: str | None,
    *,
    protocol: str,
    fetch: Fetch,
    clock: Clock,
    deadline: float,
    observe: Observe | None = None,
) -> None:
    """One short attempt with each protocol that is configured, best effort."""

    def by_json() -> None:
        send_in_progress(config, vm_id, clock=clock, deadline=deadline, observe=observe)

    def by_xml() -> None:
        from azureinit.report.goalstate import send_in_progress_xml

        send_in_progress_xml(config, vm_id, fetch=fetch, clock=clock, deadline=deadline, observe=observe)

    if protocol == AUTO:
        _either(by_json, by_xml, tries=1, delay=0.0, clock=clock, until=deadline)
    else:
        (by_xml if protocol == XML else by_json)()


def _either(
    by_json: Callable[[], None], by_xml: Callable[[], None], *, tries: int, delay: float, clock: Clock, until: float
) -> None:
    refusal: VerdictUndelivered | None = None
    for attempt in range(tries):
        # With little time left, the other endpoint is the better chance.
        if attempt and clock.monotonic() + delay < until:
            clock.sleep(delay)
        elif attempt:
            break
        try:
            return by_json()
        except VerdictUndelivered as error:
            if _status(error) not in NOT_HERE:
                raise
            refusal = error
    try:
        by_xml()
    except VerdictUndelivered as error:
        # With the cause of the last request: the pool asks whether that one may have arrived.
        raise VerdictUndelivered(f"{refusal}; and then {error}", **error.data) from error.__cause__


def _status(error: VerdictUndelivered) -> int:
    return error.__cause__.status if isinstance(error.__cause__, HttpFailed) else 0
