"""The platform's JSON health endpoint: in progress, Ready, or failed."""

from __future__ import annotations

from azureinit.errors import HttpFailed, VerdictUndelivered
from azureinit.http import Retry, send
from azureinit.jsontext import dumps
from azureinit.record import replace
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.http import Connect, Observe
    from azureinit.machine import Clock

RETRIED = frozenset((429, *range(500, 600)))
IN_PROGRESS_TIMEOUT = 5.0


def send_ready(
    config: Config,
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None = None,
    retry: Retry | None = None,
    connect: Connect | None = None,
) -> None:
    retry = retry or policy(config)
    _send(config, {"state": "Ready"}, retry, clock=clock, deadline=deadline, observe=observe, connect=connect)


def send_failure(
    config: Config,
    report: str,
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None = None,
    retry: Retry | None = None,
) -> None:
    body = _not_ready("ProvisioningFailed", report)
    _send(config, body, retry or policy(config), clock=clock, deadline=deadline, observe=observe)


def send_in_progress(
    config: Config, vm_id: str | None, *, clock: Clock, deadline: float, observe: Observe | None = None
) -> None:
    """One short attempt, best effort."""
    timeout = min(IN_PROGRESS_TIMEOUT, config.wireserver.read_timeout_secs)
    once = replace(policy(config), attempts=1, connect_timeout=timeout, request_timeout=timeout)
    body = _not_ready("Provisioning", f"Provisioning is in progress, vm_id={vm_id or 'unknown'}")
    _send(config, body, once, clock=clock, deadline=deadline, observe=observe)


def size_on_the_wire(description: str) -> int:
    """Size of a description in bytes, escaped as JSON or as XML, whichever is larger."""
    as_xml = description.encode("utf-8", "replace")
    marks = sum(as_xml.count(mark) for mark in (b"&", b"<", b">", b'"', b"'", b"\r"))
    return max(len(_json(description)) - 2, len(as_xml) + 5 * marks)


def policy(config: Config) -> Retry:
    return Retry(
        connect_timeout=config.wireserver.connection_timeout_secs,
        request_timeout=config.wireserver.read_timeout_secs,
        total=config.wireserver.total_retry_timeout_secs,
        delay=config.wireserver.retry_interval_secs,
        statuses=RETRIED,
        max_delay=max(10.0, config.wireserver.retry_interval_secs),
    )


def _not_ready(substatus: str, description: str) -> dict[str, object]:
    return {"state": "NotReady", "details": {"subStatus": substatus, "description": description}}


def _send(
    config: Config,
    body: dict[str, object],
    retry: Retry,
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None,
    connect: Connect | None = None,
) -> None:
    agent = f"azure-init v{VERSION}"
    headers = {"User-Agent": agent, "x-ms-guest-agent-name": agent, "Content-Type": "application/json"}
    try:
        send(
            "POST",
            config.wireserver.health_endpoint,
            headers=headers,
            body=_json(body),
            retry=retry,
            deadline=deadline,
            clock=clock,
            observe=observe,
            connect=connect,
        )
    except HttpFailed as error:
        raise VerdictUndelivered(str(error), endpoint=config.wireserver.health_endpoint) from error


def _json(value: object) -> bytes:
    return dumps(value, ascii_only=False).encode("utf-8", "replace")
