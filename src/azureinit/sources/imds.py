"""The instance metadata service (IMDS): one document, requested until it arrives or the time is over."""

from __future__ import annotations

from azureinit.errors import (
    HttpFailed,
    HttpTimeout,
    ImdsConnectFailed,
    ImdsConnectTimeout,
    ImdsInvalid,
    ImdsReadTimeout,
    ImdsRefused,
    ImdsUnavailable,
    ImdsUnparsable,
)
from azureinit.http import SHORTEST_DELAY, Retry, send
from azureinit.jsontext import loads
from azureinit.pubkey import PublicKey as PublicKey
from azureinit.record import Record, Secret
from azureinit.sources.identity import UNSET_IDS, parse_vm_id
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.http import Observe, Response
    from azureinit.machine import Clock

# The oldest has neither `extended` nor an osProfile, only the VM's id and keys.
QUESTIONS = ("2023-11-15&extended=true", "2021-08-01&extended=true", "2019-06-01")
# Retried for the whole time; other statuses and malformed answers become final.
RETRIED = frozenset((404, 410, 429, *range(500, 600)))
WRONG_VERSION, DENIED = 400, (401, 403)
LONGEST_DELAY = 10.0
MAX_BODY = 1 << 20
ABOUT = ("name", "location", "zone", "vmSize", "subscriptionId", "resourceGroupName", "resourceId", "vmScaleSetName")
BOM = b"\xef\xbb\xbf"


class Imds(Record):
    """IMDS's document. Absent values, which it writes as "", are None."""

    vm_id: str | None
    username: str | None
    hostname: str | None
    disable_password: bool | None
    keys: tuple[PublicKey, ...]
    pps_type: str | None
    has_custom_data: bool | None
    # An empty profile means that nothing is requested; an absent one means nothing.
    has_profile: bool = True
    user_data: Secret | None = None  # as received: base64
    network: Mapping[str, Any] | None = None  # as received
    about: Mapping[str, str] = {}


def query_imds(
    config: Config,
    *,
    clock: Clock,
    deadline: float,
    observe: Observe | None = None,
    wait_for_proxy: Callable[[str], str] | None = None,
) -> Imds:
    """Newest API version first; status 400 selects the next, and after the oldest, with a pause, the newest again.

    Status 401 or 403 calls `wait_for_proxy` once, with the cause.
    """
    found: list[Imds] = []

    def accept(response: Response) -> None:
        found.append(parse_imds(response.body))

    until = min(deadline, clock.monotonic() + config.imds.total_retry_timeout_secs)
    questions = list(QUESTIONS)
    pause = max(config.imds.retry_interval_secs, SHORTEST_DELAY)
    said = ""
    while True:
        try:
            send(
                "GET",
                f"{config.imds.endpoint.rstrip('/')}/metadata/instance?api-version={questions[0]}",
                headers=imds_headers(),
                retry=imds_policy(config, at_once=(WRONG_VERSION, *(DENIED if wait_for_proxy is not None else ()))),
                deadline=until,
                clock=clock,
                accept=accept,
                observe=observe,
                limit=MAX_BODY,
            )
            return found[-1]
        except HttpFailed as error:
            if error.status == WRONG_VERSION and len(questions) > 1:
                del questions[0]
            elif error.status == WRONG_VERSION and clock.monotonic() + pause < until:
                clock.sleep(pause)
                pause = min(pause * 1.5, LONGEST_DELAY)
                questions = list(QUESTIONS)
            elif error.status in DENIED and wait_for_proxy is not None:
                said = wait_for_proxy(f"IMDS refused with status {error.status}")
                wait_for_proxy = None
            else:
                raise unavailable(config, error, said) from error


def unavailable(config: Config, error: HttpFailed, said: str) -> ImdsUnavailable:
    """The error class for the cause. Recoverable if the time was over before an answer became final."""
    told, where = str(error) + said, config.imds.endpoint
    cause = error.__cause__
    made: ImdsUnavailable
    if isinstance(cause, ImdsInvalid):
        made = type(cause)(told, reason=cause.reason, endpoint=where)
    elif error.status:
        made = ImdsRefused(told, reason=f"http error {error.status} querying IMDS", status=error.status, endpoint=where)
    elif error.timeout:
        made = (ImdsConnectTimeout if error.timeout == "connect" else ImdsReadTimeout)(told, endpoint=where)
    else:
        made = ImdsConnectFailed(told, endpoint=where)
    made.recoverable = isinstance(error, HttpTimeout) or error.status == WRONG_VERSION
    return made


def imds_policy(config: Config, *, at_once: tuple[int, ...]) -> Retry:
    return Retry(
        connect_timeout=config.imds.connection_timeout_secs,
        request_timeout=config.imds.request_timeout_secs,
        total=config.imds.total_retry_timeout_secs,
        delay=config.imds.retry_interval_secs,
        statuses=RETRIED,
        max_delay=max(LONGEST_DELAY, config.imds.retry_interval_secs),
        final_secs=config.imds.final_after_secs,
        at_once=frozenset(at_once),
    )


def imds_headers() -> dict[str, str]:
    return {"Metadata": "true", "User-Agent": f"azure-init v{VERSION}"}


def parse_json(body: bytes) -> object:
    try:
        return loads((body[3:] if body.startswith(BOM) else body).decode())
    except ValueError as error:
        what = str(error) if type(error) is ValueError else getattr(error, "msg", type(error).__name__)
        what = "HTML" if body.lstrip()[:1] == b"<" else what
        raise ImdsUnparsable(f"IMDS answered something that is not JSON: {what}") from None


def parse_imds(body: bytes) -> Imds:
    document = parse_json(body)
    compute = _table(document, "compute", "IMDS document", required=True)
    profile = _table(compute, "osProfile", "compute")
    extended = _table(_table(document, "extended", "IMDS document"), "compute", "extended")
    return Imds(
        vm_id=_vm_id(compute),
        username=_text(profile, "adminUsername"),
        hostname=_text(profile, "computerName"),
        disable_password=_flag(profile, "disablePasswordAuthentication"),
        keys=_keys(compute),
        pps_type=_text(extended, "ppsType"),
        has_custom_data=_flag(extended, "hasCustomData"),
        has_profile="osProfile" in compute,
        user_data=_secret(compute, "userData"),
        network=_network(document),
        about={key: value for key in ABOUT if isinstance(value := compute.get(key), str) and value},
    )


def _network(document: object) -> Mapping[str, Any] | None:
    """What is wrong with it concerns the network alone, and no verdict."""
    found = document.get("network") if isinstance(document, dict) else None
    return found if isinstance(found, dict) and found else None


def _invalid(told: str, *, key: str) -> ImdsInvalid:
    return ImdsInvalid(told, reason=f"invalid IMDS metadata for key={key}", key=key)


def _table(parent: object, name: str, where: str, *, required: bool = False) -> dict[str, Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    if value in (None, "") and not required:
        return {}
    if not isinstance(value, dict):
        raise _invalid(f"{where} has no object {name}", key=name)
    return value


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value in (None, ""):
        return None
    if not isinstance(value, str):
        raise _invalid(f"{name} is not a string", key=name)
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which is valid in JSON but not in a file
        raise _invalid(f"{name} is not text", key=name) from None
    return value


def _secret(table: dict[str, Any], name: str) -> Secret | None:
    told = _text(table, name)
    return Secret(told.encode()) if told and not told.isspace() else None


def _vm_id(compute: dict[str, Any]) -> str | None:
    """Accepts only a UUID, since the id becomes part of file names."""
    told = _text(compute, "vmId")
    found = parse_vm_id(told, swapped=False) if told else None
    if told and found is None and told.strip().lower() not in UNSET_IDS:
        raise _invalid("vmId is not a UUID", key="vmId")
    return found


def _flag(table: dict[str, Any], name: str) -> bool | None:
    value = table.get(name)
    if value in (None, ""):
        return None
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _invalid(f"{name} is neither true nor false", key=name)
    return value


def _keys(compute: dict[str, Any]) -> tuple[PublicKey, ...]:
    values = compute.get("publicKeys")
    if values in (None, ""):
        return ()
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise _invalid("publicKeys is not a list of objects", key="publicKeys")
    pairs = [(_text(value, "keyData"), _text(value, "path")) for value in values]
    return tuple(PublicKey(data=data, path=path) for data, path in pairs if data and not data.isspace())
