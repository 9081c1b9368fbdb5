"""OpenTelemetry: a run as spans and log records, sent once, after everything else, as OTLP/HTTP JSON.

A slow or failing collector costs at most the budget and does not change the run's result.
"""

from __future__ import annotations

import json

from azureinit.config.model import shown
from azureinit.errors import AzureInitError
from azureinit.http import Retry, send
from azureinit.telemetry.collector import choose_collector
from azureinit.telemetry.events import DEBUG, OUTPUT, WARN
from azureinit.telemetry.spans import Run, log_records, request, resource, spans
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.telemetry.collector import Destination
    from azureinit.telemetry.events import Event

    Tell = Callable[[int, str, str], None]

RETRIED = frozenset((429, 502, 503, 504))
MOST_EVENTS = 2000
MAX_ANSWER = 1 << 16
FIRST_DELAY = 0.1
# The part of the budget that is left for the error of a request that timed out.
LAST_WORD = 0.1
WHAT = {"traces": "spans", "logs": "log records"}


class Otlp:
    """A listener that buffers events until `send`."""

    def __init__(
        self, machine: Machine, config: Config, environ: Mapping[str, str], *, seed: str, about: Mapping[str, str]
    ) -> None:
        self.machine, self.seed, self.about = machine, seed, about
        self.budget = config.telemetry.otlp_budget_secs
        self.collector = choose_collector(config, environ)
        self.started = machine.clock.now()
        self._buffered: list[Event] = []
        self._lost = 0

    def __call__(self, event: Event) -> None:
        if event.name == OUTPUT:
            return
        self._buffered.append(event)
        if len(self._buffered) > MOST_EVENTS:
            del self._buffered[0]
            self._lost += 1

    def send(self, deadline: float, *, tell: Tell | None = None) -> None:
        """Send within `telemetry.otlp_budget_secs` and before the deadline. `tell` gets the result."""
        tell = tell or _ignore
        events, self._buffered = self._buffered, []
        for level, text in self.collector.complaints:
            tell(level, "otlp", text)
        if not self.collector.destinations:
            return
        try:
            for level, text in self._exchange(self._parts(events), deadline):
                tell(level, "otlp", text)
        except Exception as error:  # noqa: BLE001 - telemetry that cannot be sent never stops a run
            tell(WARN, "otlp", f"nothing was sent: {type(error).__name__}: {error}")

    def _parts(self, events: list[Event]) -> dict[str, list[dict[str, Any]]]:
        run = Run(
            trace_id=self.seed,
            started=self.started,
            ended=self.machine.clock.now(),
            attributes={"azure_init.boot_id": self.machine.boot_id()},
            lost=self._lost,
        )
        return {"traces": spans(events, run), "logs": log_records(events, run)}

    def _exchange(self, parts: Mapping[str, list[dict[str, Any]]], deadline: float) -> Iterable[tuple[int, str]]:
        """Send both signals in parallel; slow name resolution blocks only a thread."""
        from azureinit.machine.threads import Inbox, start

        clock = self.machine.clock
        until = min(deadline, clock.monotonic() + self.budget)
        inbox = Inbox()
        waiting = {one.signal: one for one in self.collector.destinations if parts[one.signal]}

        def sending(destination: Destination) -> Callable[[], None]:
            return lambda: inbox.put(
                (destination.signal, *self._tell_one(destination, parts[destination.signal], until))
            )

        for one in waiting.values():
            start(sending(one))
        while waiting:
            result: tuple[str, int, str] | None = clock.wait(inbox.get, until - clock.monotonic())
            if result is None:
                for signal, one in waiting.items():
                    yield WARN, f"{one.address} did not accept the {WHAT[signal]} within {self.budget:g} s"
                return
            signal, level, text = result
            del waiting[signal]
            yield level, text

    def _tell_one(self, destination: Destination, records: list[dict[str, Any]], until: float) -> tuple[int, str]:
        what = WHAT[destination.signal]
        try:
            said = partial_success(self._post(destination, records, until))
        except AzureInitError as error:
            return WARN, f"{what} were not sent: {str(error).replace(destination.url, destination.address)}"
        except Exception as error:  # noqa: BLE001 - an invalid host name, or any other defect of a URL
            return WARN, f"{what} were not sent to {destination.address}: {type(error).__name__}"
        return DEBUG, f"{len(records)} {what} sent to {destination.address}" + (f": {said}" if said else "")

    def _post(self, destination: Destination, records: list[dict[str, Any]], until: float) -> bytes:
        known = resource(self.about, host_name=self.machine.hostname(), said=self.collector.resource)
        body, headers = _packed(request(destination.signal, records, known), gzip=destination.gzip)
        headers.update({name: value.text() for name, value in destination.headers.items()})
        clock = self.machine.clock
        left = min(destination.seconds, until - clock.monotonic() - min(LAST_WORD, self.budget / 10))
        retry = Retry(connect_timeout=left, request_timeout=left, total=left, delay=FIRST_DELAY, statuses=RETRIED)
        return send(
            "POST",
            destination.url,
            headers=headers,
            body=body,
            retry=retry,
            deadline=until,
            clock=clock,
            limit=MAX_ANSWER,
        ).body


def _packed(document: dict[str, Any], *, gzip: bool) -> tuple[bytes, dict[str, str]]:
    body = json.dumps(document, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"azure-init v{VERSION}"}
    if gzip:
        from zlib import compressobj

        packer = compressobj(wbits=31)
        body = packer.compress(body) + packer.flush()
        headers["Content-Encoding"] = "gzip"
    return body, headers


def partial_success(body: bytes) -> str:
    """The error text of a partial success (status 200); empty if the collector accepted everything."""
    try:
        told = json.loads(body).get("partialSuccess")
        rejected = told.get("rejectedSpans") or told.get("rejectedLogRecords") or 0
        message = told.get("errorMessage") or ""
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f"{shown(str(rejected))} rejected: {shown(str(message), longest=200)}" if rejected or message else ""


def _ignore(_level: int, _name: str, _text: str) -> None:
    pass
