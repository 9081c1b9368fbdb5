"""A run in OpenTelemetry's terms: spans, log records and the resource, as OTLP JSON."""

from __future__ import annotations

from azureinit.addresses import path_of
from azureinit.record import Record
from azureinit.telemetry.events import DEBUG, ERROR, INFO, TRACE, WARN
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from azureinit.telemetry.events import Event

SHAPES = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}
INTERNAL, CLIENT = 1, 3
FAILED = 2
SEVERITIES = {TRACE: (1, "TRACE"), DEBUG: (5, "DEBUG"), INFO: (9, "INFO"), WARN: (13, "WARN"), ERROR: (17, "ERROR")}
# Attributes of the machine, by the names of the semantic conventions.
RESOURCE = {
    "vm_id": "host.id",
    "vmSize": "host.type",
    "location": "cloud.region",
    "zone": "cloud.availability_zone",
    "subscriptionId": "cloud.account.id",
    "resourceId": "cloud.resource_id",
    "vmScaleSetName": "azure.vm.scaleset.name",
    "os_name": "os.name",
    "os_version": "os.version",
    "os_description": "os.description",
}
HTTP_TEXT = {"method": "http.request.method", "url": "url.full"}


class Run(Record):
    """Values that all spans and records of one run share."""

    trace_id: str
    started: float
    ended: float
    attributes: Mapping[str, object] = {}  # of the span that is the whole run
    lost: int = 0

    @property
    def root(self) -> str:
        return span_id(self.trace_id)


def resource(about: Mapping[str, str], *, host_name: str, said: Mapping[str, str]) -> dict[str, Any]:
    """The resource: the sender's attributes. The environment's values override detected ones."""
    values = {
        "service.name": "azure-init",
        "service.version": VERSION,
        "cloud.provider": "azure",
        "cloud.platform": "azure.vm",
        "host.name": host_name,
        "os.type": "linux",
        **{name: about[key] for key, name in RESOURCE.items() if about.get(key)},
        **said,
    }
    return {"attributes": attributes(values)}


def request(signal: str, records: list[dict[str, Any]], known: dict[str, Any]) -> dict[str, Any]:
    outer, inner, parts = SHAPES[signal]
    scope = {"name": "azure-init", "version": VERSION}
    return {outer: [{"resource": known, inner: [{"scope": scope, parts: records}]}]}


def is_moment(event: Event) -> bool:
    """An event without a duration becomes a log record and an event of its span; all others become spans."""
    return event.kind == "event" and event.seconds is None


def spans(events: Iterable[Event], run: Run) -> list[dict[str, Any]]:
    """The run's span first. A step that has not ended is sent without an end."""
    begun: dict[str, Event] = {}
    made: dict[str, dict[str, Any]] = {}
    moments: dict[str, list[dict[str, Any]]] = {}
    cause = ""
    for event in events:
        if event.kind == "start":
            begun[event.id] = event
        elif is_moment(event):
            moments.setdefault(_parent(event, run), []).append(_moment(event))
        else:
            begun.pop(event.id, None)
            made[span_id(event.id)] = _span(event, run, begins=event.at - (event.seconds or 0.0), ends=event.at)
        # The verdict names the cause better than the step that failed first.
        if event.level >= ERROR and (is_moment(event) or not cause):
            cause = event.text or event.name
    made.update((span_id(key), _span(event, run, begins=event.at, ends=run.ended)) for key, event in begun.items())
    root = _root(run, begins=min([run.started, *(int(one["startTimeUnixNano"]) / 1e9 for one in made.values())]))
    if cause:
        root["status"] = {"code": FAILED, "message": text(cause)}
    for key, found in moments.items():
        made.get(key, root).setdefault("events", []).extend(found)
    return [root, *made.values()]


def _root(run: Run, *, begins: float) -> dict[str, Any]:
    return {
        "traceId": run.trace_id,
        "spanId": run.root,
        "name": "azure-init",
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(begins),
        "endTimeUnixNano": nanoseconds(run.ended),
        "attributes": attributes(run.attributes),
        "droppedEventsCount": run.lost,
    }


def _span(event: Event, run: Run, *, begins: float, ends: float) -> dict[str, Any]:
    request = event.name == "http"
    values = _http_fields(event.fields) if request else _own_fields(event.fields)
    if event.kind == "finish" and event.text and not event.failed:
        values["azure_init.result"] = event.text
    made: dict[str, Any] = {
        "traceId": run.trace_id,
        "spanId": span_id(event.id),
        "parentSpanId": _parent(event, run),
        "name": text(_request_name(event) if request else event.name),
        "kind": CLIENT if request else INTERNAL,
        "startTimeUnixNano": nanoseconds(begins),
        "endTimeUnixNano": nanoseconds(ends),
        "attributes": attributes(values),
    }
    if event.failed:
        made["status"] = {"code": FAILED, "message": text(event.text)}
    return made


def _moment(event: Event) -> dict[str, Any]:
    values = {**_own_fields(event.fields), "azure_init.text": event.text, "azure_init.level": _severity(event)[1]}
    return {"timeUnixNano": nanoseconds(event.at), "name": text(event.name), "attributes": attributes(values)}


def log_records(events: Iterable[Event], run: Run) -> list[dict[str, Any]]:
    return [_log_record(event, run) for event in events if is_moment(event) or event.level >= WARN]


def _log_record(event: Event, run: Run) -> dict[str, Any]:
    number, word = _severity(event)
    return {
        "timeUnixNano": nanoseconds(event.at),
        "observedTimeUnixNano": nanoseconds(event.at),
        "severityNumber": number,
        "severityText": word,
        "body": {"stringValue": text(event.text or event.name)},
        "attributes": attributes({"azure_init.name": event.name, **_own_fields(event.fields)}),
        "traceId": run.trace_id,
        "spanId": _parent(event, run) if is_moment(event) else span_id(event.id),
    }


def _request_name(event: Event) -> str:
    """`GET /metadata/instance`: without query, so that equal requests have the same name."""
    return f"{event.fields.get('method', 'HTTP')} /{path_of(event.fields.get('url', ''))}"


def _http_fields(fields: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {name: fields[key] for key, name in HTTP_TEXT.items() if key in fields}
    status, attempt = (_whole_number(fields.get(key, "")) for key in ("status", "attempt"))
    if status is not None:
        found["http.response.status_code"] = status
    if attempt is not None and attempt > 1:
        found["http.request.resend_count"] = attempt - 1
    return found


def _whole_number(text: str) -> int | None:
    """isdigit() alone would accept superscripts, which int() refuses."""
    return int(text[:10]) if text.isascii() and text.isdigit() else None


def _own_fields(fields: Mapping[str, str]) -> dict[str, object]:
    return {f"azure_init.{key}": value for key, value in fields.items()}


def _parent(event: Event, run: Run) -> str:
    return span_id(event.parent) if event.parent else run.root


def _severity(event: Event) -> tuple[int, str]:
    return SEVERITIES.get(event.level, (0, ""))


def span_id(digits: str) -> str:
    return digits[-16:]


def nanoseconds(seconds: float) -> str:
    """Nanoseconds since 1970, never negative, even on a machine without a clock."""
    return str(max(0, int(seconds * 1e9)))


def attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"key": text(key), "value": _value(value)} for key, value in values.items() if value not in (None, "")]


def _value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # 64 bits are a string in this JSON
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": text(str(value))}


def text(said: str) -> str:
    """Replaces lone surrogates: valid JSON, but collectors refuse the whole request for them."""
    return said.encode("utf-8", "replace").decode()
