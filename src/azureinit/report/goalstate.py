"""The wireserver's XML endpoints: health for fabrics without the JSON one, and the SSH host key's fingerprint."""

from __future__ import annotations

from azureinit.errors import AzureInitError, HttpFailed, VerdictUndelivered
from azureinit.http import send
from azureinit.record import replace
from azureinit.report.health import IN_PROGRESS_TIMEOUT, policy
from azureinit.report.verdict import CUT, MAX_DESCRIPTION
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.http import Connect, Observe, Retry
    from azureinit.machine import Clock
    from azureinit.sources.goalstate import GoalState

    Fetch = Callable[[float], GoalState]  # fetches the current goal state, before that deadline
    Body = Callable[[GoalState], str]

HEADERS = {
    "User-Agent": f"azure-init v{VERSION}",
    "x-ms-agent-name": "azure-init",
    "x-ms-version": "2012-11-30",
    "Content-Type": "text/xml;charset=utf-8",
}
HEALTH, PROPERTIES = "/machine?comp=health", "/machine?comp=roleProperties"
DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'
NAMESPACES = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"}
STALE = (400, 410)  # the container id has changed
MOST_RENEWALS = 3


def send_ready_xml(
    config: Config,
    *,
    fetch: Fetch,
    clock: Clock,
    deadline: float,
    observe: Observe | None = None,
    attempts: int = 0,
    connect: Connect | None = None,
) -> None:
    retry = replace(policy(config), attempts=attempts)
    _tell(_health("Ready"), retry, fetch, clock=clock, deadline=deadline, observe=observe, connect=connect)


def send_failure_xml(
    config: Config, report: str, *, fetch: Fetch, clock: Clock, deadline: float, observe: Observe | None = None
) -> None:
    body = _health("NotReady", _details("ProvisioningFailed", report))
    _tell(body, policy(config), fetch, clock=clock, deadline=deadline, observe=observe)


def send_in_progress_xml(
    config: Config, vm_id: str | None, *, fetch: Fetch, clock: Clock, deadline: float, observe: Observe | None = None
) -> None:
    """One short attempt, best effort."""
    until = min(deadline, clock.monotonic() + IN_PROGRESS_TIMEOUT)
    body = _health("NotReady", _details("Provisioning", f"Provisioning is in progress, vm_id={vm_id or 'unknown'}"))
    _tell(body, replace(policy(config), attempts=1), fetch, clock=clock, deadline=until, observe=observe)


def send_fingerprint(
    config: Config, fingerprint: str, *, fetch: Fetch, clock: Clock, deadline: float, observe: Observe | None = None
) -> None:
    """Send the SSH host key's fingerprint in the form of `ssh-keygen -l`: `SHA256:...`. Best effort."""
    body = _properties("CertificateThumbprint", fingerprint)
    _send(PROPERTIES, body, policy(config), fetch, clock=clock, deadline=deadline, observe=observe)


def _tell(
    body: Body,
    retry: Retry,
    fetch: Fetch,
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None,
    connect: Connect | None = None,
) -> None:
    try:
        _send(HEALTH, body, retry, fetch, clock=clock, deadline=deadline, observe=observe, connect=connect)
    except AzureInitError as error:
        raise VerdictUndelivered(str(error), **error.data) from error


def _send(
    path: str,
    body: Body,
    retry: Retry,
    fetch: Fetch,
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None,
    connect: Connect | None = None,
) -> None:
    """Send with a fresh goal state; if that is outdated by then, once more with the next."""
    until = min(deadline, clock.monotonic() + retry.total)
    for renewal in range(MOST_RENEWALS + 1):
        state = fetch(until)
        try:
            send(
                "POST",
                state.endpoint + path,
                headers=HEADERS,
                body=(DECLARATION + body(state)).encode(),
                retry=retry,
                deadline=until,
                clock=clock,
                observe=observe,
                connect=connect,
            )
            return
        except HttpFailed as error:
            last = renewal == MOST_RENEWALS or retry.attempts == 1 or clock.monotonic() + retry.delay >= until
            if error.status not in STALE or last:
                raise
        clock.sleep(retry.delay)


def _health(state: str, details: str = "") -> Body:
    def body(goal: GoalState) -> str:
        return (
            f"<Health {NAMESPACES}><GoalStateIncarnation>{escaped(goal.incarnation)}</GoalStateIncarnation>"
            f"<Container><ContainerId>{escaped(goal.container_id)}</ContainerId><RoleInstanceList><Role>"
            f"<InstanceId>{escaped(goal.instance_id)}</InstanceId><Health><State>{state}</State>{details}</Health>"
            "</Role></RoleInstanceList></Container></Health>"
        )

    return body


def _details(substatus: str, description: str) -> str:
    told = escaped(description, limit=MAX_DESCRIPTION)
    return f"<Details><SubStatus>{substatus}</SubStatus><Description>{told}</Description></Details>"


def _properties(name: str, value: str) -> Body:
    plain = escaped(value.replace(":", ""))  # the form that the platform has always received

    def body(goal: GoalState) -> str:
        return (
            f"<RoleProperties><Container><ContainerId>{escaped(goal.container_id)}</ContainerId><RoleInstances>"
            f"<RoleInstance><Id>{escaped(goal.instance_id)}</Id><Properties>"
            f'<Property name="{name}" value="{plain}"/>'
            "</Properties></RoleInstance></RoleInstances></Container></RoleProperties>"
        )

    return body


def escaped(text: str, *, limit: int | None = None) -> str:
    """Text as XML, at most `limit` encoded bytes, cut between characters and escapes."""
    pieces = [_piece(letter) for letter in text]
    if limit is None or sum(len(piece.encode()) for piece in pieces) <= limit:
        return "".join(pieces)
    kept, room = [], limit - len(CUT)
    for piece in pieces:
        room -= len(piece.encode())
        if room < 0:
            break
        kept.append(piece)
    return "".join(kept) + CUT


def _piece(letter: str) -> str:
    if letter in ESCAPES:
        return ESCAPES[letter]
    forbidden = (letter < " " and letter not in "\t\n") or "\ud800" <= letter <= "\udfff" or letter in "\ufffe\uffff"
    return "?" if forbidden else letter
