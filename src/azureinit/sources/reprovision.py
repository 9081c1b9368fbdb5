"""The customer's data for a VM from a pool: IMDS serves its ovf-env.xml once a customer has got the VM.

`ask_once` sends one request and says what its answer means; it never raises for an answer. The document holds the
password: it is neither logged nor part of any text.
"""

from __future__ import annotations

from azureinit.errors import HttpFailed, MediaAbsent, OvfInvalid
from azureinit.http import Retry, send
from azureinit.record import Record, Secret, replace
from azureinit.sources.imds import imds_headers
from azureinit.sources.media import Medium
from azureinit.sources.ovf import parse_ovf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.errors import AzureInitError
    from azureinit.http import Response
    from azureinit.machine import Clock

QUESTION = "/metadata/reprovisiondata?api-version=2019-06-01"
MOST_BYTES = 1 << 20
CONNECT_SECS, REQUEST_SECS = 5.0, 30.0  # at most; the settings for other requests to IMDS may be shorter
PAUSE_SECS, LONGEST_PAUSE = 1.0, 60.0
TOO_LARGE = "larger than"  # in http's words
# Kinds of answers.
DATA, NOT_YET, UNUSABLE, REFUSED, SILENT = "data", "not yet", "unusable", "refused", "silent"
WORDS = {
    401: "IMDS refuses this VM",
    403: "IMDS refuses this VM",
    404: "no customer yet",
    410: "gone or updating",
    429: "too many requests",
    503: "unavailable",
}
ANSWERS = frozenset(range(300, 600))


class Answer(Record):
    """`told`: for the log. `pause`: seconds until the next request, at least. `medium`: of DATA."""

    kind: str
    told: str
    pause: float = PAUSE_SECS
    medium: Medium | None = None


def ask_once(config: Config, *, clock: Clock) -> Answer:
    connect_secs = min(CONNECT_SECS, config.imds.connection_timeout_secs)
    request_secs = min(REQUEST_SECS, config.imds.request_timeout_secs)
    once = Retry(
        connect_timeout=connect_secs,
        request_timeout=request_secs,
        total=request_secs + connect_secs,
        delay=0.0,
        attempts=1,
    )
    try:
        response = send(
            "GET",
            config.imds.endpoint.rstrip("/") + QUESTION,
            headers=imds_headers(),
            retry=once,
            deadline=float("inf"),
            clock=clock,
            limit=MOST_BYTES,
            also=ANSWERS,
        )
    except HttpFailed as error:
        cause = str(error.__cause__ or "")
        if TOO_LARGE in cause:
            return Answer(kind=UNUSABLE, told=f"an answer of more than {MOST_BYTES} bytes")
        return Answer(kind=SILENT, told=f"no answer: {error.timeout + ' timeout' if error.timeout else cause.lower()}")
    return meaning(response)


def meaning(response: Response) -> Answer:
    status = response.status
    if 200 <= status < 300:
        return _document(response.body)
    told = f"status {status}" + (f", {WORDS[status]}" if status in WORDS else "")
    kind = NOT_YET if status in (404, 410, 429) or status >= 500 else REFUSED
    return Answer(kind=kind, told=told, pause=_pause(response.headers.get("retry-after", "")))


def _pause(told: str) -> float:
    asked = float(told) if told.isascii() and told.isdigit() and len(told) < 9 else 0.0
    return min(max(asked, PAUSE_SECS), LONGEST_PAUSE)


def _document(body: bytes) -> Answer:
    if not body.strip():
        return Answer(kind=UNUSABLE, told="an empty answer")
    if len(body) > MOST_BYTES:
        return Answer(kind=UNUSABLE, told=f"an answer of more than {MOST_BYTES} bytes")
    try:
        return Answer(kind=DATA, told="the customer's data", medium=parse_medium(Secret(body)))
    except OvfInvalid as error:
        return Answer(kind=UNUSABLE, told=f"an answer that is no ovf-env.xml: {error}")


def parse_medium(document: Secret) -> Medium:
    """Its own request for pre-provisioning is not looked at: the VM has left the pool."""
    ovf = replace(parse_ovf(document.reveal(), limit=MOST_BYTES), preprovisioned=False, pps_type=None)
    return Medium(ovf=ovf, device=None, how="IMDS's reprovision data", document=document)


def read_reprovisioned(
    config: Config, *, clock: Clock, deadline: float, note: Callable[[AzureInitError], None] | None = None
) -> Medium:
    """For a boot after the data arrived once: the platform serves them again."""
    until = min(deadline, clock.monotonic() + config.provisioning_media.wait_secs)
    while True:
        answer = ask_once(config, clock=clock)
        if answer.medium is not None:
            return answer.medium
        error = MediaAbsent(f"IMDS does not serve the customer's data again: {answer.told}")
        error.recoverable = answer.kind in (NOT_YET, SILENT)
        if note is not None:
            note(error)
        if clock.monotonic() + answer.pause >= until:
            raise error
        clock.sleep(answer.pause)
