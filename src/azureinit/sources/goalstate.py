"""The wireserver's goal state: the VM's container and instance id, and the URL of its certificates."""

from __future__ import annotations

from azureinit.addresses import base_of
from azureinit.errors import GoalStateInvalid, GoalStateMissing, HttpFailed
from azureinit.http import Retry, send
from azureinit.record import Record, replace
from azureinit.sources.expat import texts
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from azureinit.config.model import Config
    from azureinit.http import Observe, Response
    from azureinit.machine import Clock

    T = TypeVar("T")

SPOKEN = "2012-11-30"
HEALTH = "/provisioning/health"
# 403: the host throttles. 410: the goal state was replaced during the request.
RETRIED = frozenset((403, 408, 410, 429, *range(500, 600)))
PROBE = 2.0  # seconds
HEADERS = {"User-Agent": f"azure-init v{VERSION}", "x-ms-agent-name": "azure-init", "x-ms-version": SPOKEN}

PREFERRED, SUPPORTED = "Versions/Preferred/Version", "Versions/Supported/Version"
INCARNATION = "GoalState/Incarnation"
CONTAINER = "GoalState/Container/ContainerId"
ROLE = "GoalState/Container/RoleInstanceList/RoleInstance"
INSTANCE, CERTIFICATES = ROLE + "/InstanceId", ROLE + "/Configuration/Certificates"


class GoalState(Record):
    endpoint: str  # of the wireserver that sent it
    incarnation: str
    container_id: str
    instance_id: str
    certificates_url: str | None


def wireserver(config: Config) -> str:
    """The wireserver's base URL, from the health endpoint."""
    url = config.wireserver.health_endpoint
    if url.endswith(HEALTH):
        return url[: -len(HEALTH)]
    return base_of(url)


def read_goal_state(
    config: Config, *, endpoint: str, clock: Clock, deadline: float, observe: Observe | None = None
) -> GoalState:
    """Fetch the goal state. Done before each report: the container may change without a new incarnation."""
    until = min(deadline, clock.monotonic() + config.wireserver.total_retry_timeout_secs)

    def get(path: str, parse: Callable[[bytes], T]) -> T:
        try:
            return ask(config, endpoint + path, parse, clock=clock, deadline=until, observe=observe)
        except HttpFailed as error:
            raise GoalStateMissing(f"the wireserver sent no goal state: {error}", endpoint=endpoint) from error

    versions = get("/?comp=versions", parse_versions)
    if SPOKEN not in versions:
        raise GoalStateMissing(f"the wireserver supports {', '.join(versions)} and not {SPOKEN}", endpoint=endpoint)
    return get("/machine/?comp=goalstate", lambda body: parse_goal_state(body, endpoint=endpoint))


def is_wireserver(config: Config, endpoint: str, *, clock: Clock, deadline: float) -> bool:
    """Whether a wireserver answers at that address; one attempt."""

    def accept(response: Response) -> None:
        parse_versions(response.body)

    try:
        send(
            "GET",
            f"{endpoint}/?comp=versions",
            headers=HEADERS,
            retry=replace(_policy(config, frozenset()), connect_timeout=PROBE, request_timeout=PROBE, attempts=1),
            deadline=deadline,
            clock=clock,
            accept=accept,
        )
    except HttpFailed:
        return False
    return True


def ask(
    config: Config,
    url: str,
    parse: Callable[[bytes], T],
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None,
    headers: Mapping[str, str] = {},
    statuses: frozenset[int] = RETRIED,
) -> T:
    """Fetch and parse one of the wireserver's documents; a malformed one is fetched again."""
    found: list[T] = []

    def accept(response: Response) -> None:
        found.append(parse(response.body))

    send(
        "GET",
        url,
        headers={**HEADERS, **headers},
        retry=_policy(config, statuses),
        deadline=deadline,
        clock=clock,
        accept=accept,
        observe=observe,
    )
    return found[-1]


def parse_versions(body: bytes) -> tuple[str, ...]:
    found = texts(body, (PREFERRED, SUPPORTED), name="the list of versions", invalid=GoalStateInvalid)
    versions = (*found[PREFERRED], *found[SUPPORTED])
    if not versions:
        raise GoalStateInvalid("the list of versions is empty")
    return tuple(dict.fromkeys(versions))


def parse_goal_state(body: bytes, *, endpoint: str) -> GoalState:
    wanted = (INCARNATION, CONTAINER, INSTANCE, CERTIFICATES)
    found = texts(body, wanted, name="the goal state", invalid=GoalStateInvalid)

    def first(path: str) -> str:
        if not found[path]:
            raise GoalStateInvalid(f"the goal state has no {path.rpartition('/')[2]}")
        return found[path][0]

    return GoalState(
        endpoint=endpoint,
        incarnation=first(INCARNATION),
        container_id=first(CONTAINER),
        instance_id=first(INSTANCE),
        certificates_url=found[CERTIFICATES][0] if found[CERTIFICATES] else None,
    )


def _policy(config: Config, statuses: frozenset[int]) -> Retry:
    return Retry(
        connect_timeout=config.wireserver.connection_timeout_secs,
        request_timeout=config.wireserver.read_timeout_secs,
        total=config.wireserver.total_retry_timeout_secs,
        delay=config.wireserver.retry_interval_secs,
        statuses=statuses,
        max_delay=max(10.0, config.wireserver.retry_interval_secs),
    )
