"""The trace file: every event of every run as one JSON object on one line."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.telemetry.events import DEBUG, ERROR, INFO, OUTPUT, TRACE, WARN
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.config.model import Config
    from azureinit.machine import Machine
    from azureinit.telemetry.events import Event

LEVELS = {ERROR: "error", WARN: "warn", INFO: "info", DEBUG: "debug", TRACE: "trace"}
MOST_BYTES = 4 << 20  # of the file before it is rotated to .1
MOST_EVENTS = 2000  # buffered until the data directory exists
ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
)


class Trace:
    """A listener that buffers what it cannot write yet. A run without any step writes nothing."""

    def __init__(self, machine: Machine, path: str, *, seed: str, about: Mapping[str, str]) -> None:
        self.machine, self.path = machine, path
        self.seed, self.about = seed, about
        self._held: list[tuple[Event, float]] = []
        self._lost = 0
        self._stepped = False
        self._begun = False  # whether the file ends with a complete line of this run
        self._introduced: Mapping[str, str] | None = None  # the last header's content

    def __call__(self, event: Event) -> None:
        if event.name == OUTPUT:
            return
        self._stepped = self._stepped or event.kind == "start"
        # On Linux this clock starts at boot.
        self._held.append((event, self.machine.clock.monotonic()))
        if len(self._held) > MOST_EVENTS:
            del self._held[0]
            self._lost += 1

    def flush(self) -> None:
        count = len(self._held)
        if not count or not self._stepped:
            return
        about = dict(self.about)
        try:
            data = self._lines(self._held[:count], about)
            size = self._make_room(len(data))
            # A killed run may have left an incomplete line: start a new one.
            self._append(b"\n" + data if size and not self._begun else data)
        except AzureInitError:
            return  # no directory yet, or no space: the next flush tries again
        self._introduced = about
        del self._held[:count]

    def _lines(self, held: list[tuple[Event, float]], about: Mapping[str, str]) -> bytes:
        from azureinit.jsontext import dumps  # imported only if there is something to write

        run = {"run": self.seed, "boot": self.machine.boot_id()}
        values = [{**run, **_object(event), "uptime": round(uptime, 6)} for event, uptime in held]
        if about != self._introduced:
            values.insert(0, {**run, **self._header(about)})
        return "".join(dumps(value) + "\n" for value in values).encode()

    def _header(self, about: Mapping[str, str]) -> dict[str, object]:
        from sys import version_info

        return {
            "at": self.machine.clock.now(),
            "kind": "run",
            "agent": VERSION,
            "python": ".".join(map(str, version_info[:3])),
            "kernel": (self.machine.read("/proc/sys/kernel/osrelease") or b"").decode("utf-8", "replace").strip(),
            "lost": self._lost,
            "about": about,
        }

    def _make_room(self, wanted: int) -> int:
        """The file's size; 0 after a rotation."""
        status = self.machine.stat(self.path)
        if status is None:
            return 0
        if status.st_size + wanted <= MOST_BYTES:
            return status.st_size
        self.machine.keep(self.path, self.path + ".1")
        self.machine.remove(self.path)
        return 0

    def _append(self, data: bytes) -> None:
        file = self.machine.appender(self.path)
        self._begun = False
        try:
            file.write(data)
        finally:
            file.close()
        self._begun = True


def _object(event: Event) -> dict[str, object]:
    return {
        "at": event.at,
        "kind": event.kind,
        "name": event.name,
        "level": LEVELS.get(event.level, str(event.level)),
        "text": event.text,
        "seconds": None if event.seconds is None else round(event.seconds, 6),
        "failed": event.failed,
        "id": event.id,
        "parent": event.parent,
        "fields": dict(event.fields),
    }


def collector_wanted(config: Config, environ: Mapping[str, str]) -> bool:
    """Whether a collector is configured. Here, because every boot asks, and collector.py is one more module to load."""
    named = config.telemetry.otlp_endpoint or any(environ.get(name) for name in ENDPOINTS)
    return bool(named) and environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
