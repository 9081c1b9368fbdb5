"""Events of a run: steps with a start, an end, a result and a cause, and single events between them."""

from __future__ import annotations

from itertools import count

from azureinit.machine.threads import get_ident
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.machine import Clock

    # A listener with a `flush` method buffers events until `flush` is called.
    Listener = Callable[["Event"], None]

ERROR, WARN, INFO, DEBUG, TRACE = 40, 30, 20, 10, 5
OUTPUT = "output"  # a line that a program of the user's has printed: not for the host, nor for a collector
NO_FIELDS: Mapping[str, str] = {}


class Event(Record):
    at: float  # seconds since 1970; for a finish or a timed event, its end
    kind: str  # start, finish or event
    level: int
    name: str
    text: str = ""
    seconds: float | None = None  # None for an event without a duration
    failed: bool = False
    id: str = ""  # 32 hex digits; a start and its finish share it
    parent: str = ""  # the id of the enclosing step
    fields: Mapping[str, str] = NO_FIELDS


class Events:
    """`seed`: 32 hex digits unique to this run. It is the run's own id, and ids of events are counted from it.

    `about`: what is known of this VM: vm_id and metadata. Listeners read it when they write.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        listeners: tuple[Listener, ...] = (),
        seed: str = "0" * 32,
        about: dict[str, str] | None = None,
    ) -> None:
        self.clock = clock
        self.listeners = listeners
        self.about = {} if about is None else about
        self.seed = seed
        self._own = get_ident()
        self._open: dict[int, list[str]] = {self._own: []}  # each thread's open steps, innermost last
        self._numbers = count(int(seed[24:], 16) + 1)

    def new_id(self) -> str:
        """A unique id. Thread-safe."""
        return f"{self.seed[:24]}{next(self._numbers) & 0xFFFFFFFF:08x}"

    def innermost(self) -> str:
        """The innermost open step of this thread, else of the run's main thread; empty for none."""
        return "".join(self.steps()[-1:] or self._open[self._own][-1:])

    def steps(self) -> list[str]:
        return self._open.setdefault(get_ident(), [])

    def step(self, name: str) -> Span:
        """`with events.step("hostname") as step: ...; step.text = "set to web-1"`"""
        return Span(self, name)

    def tell(self, level: int, name: str, text: str, **fields: str) -> None:
        """An event without a duration."""
        self._single(level, name, text, fields=fields)

    def observe(self, name: str, *, seconds: float | None = None, failure: str = "", **fields: object) -> None:
        """The callable handed to http and the sources: one attempt, its duration and its result."""
        told = {key: str(value) for key, value in fields.items()}
        text = " ".join(f"{key}={value}" for key, value in told.items()) + (f": {failure}" if failure else "")
        self._single(DEBUG, name, text, seconds=seconds, failed=bool(failure), fields=told)

    def _single(
        self,
        level: int,
        name: str,
        text: str,
        *,
        fields: Mapping[str, str],
        seconds: float | None = None,
        failed: bool = False,
    ) -> None:
        self.emit(
            Event(
                at=self.clock.now(),
                kind="event",
                level=level,
                name=name,
                text=text,
                seconds=seconds,
                failed=failed,
                id=self.new_id(),
                parent=self.innermost(),
                fields=fields,
            )
        )

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001, S110 - telemetry that cannot be written never stops a run
                pass

    def flush(self) -> None:
        """Write all buffered events. Called before every report to the platform."""
        for listener in self.listeners:
            try:
                getattr(listener, "flush", _nothing)()
            except Exception:  # noqa: BLE001, S110
                pass


class Span:
    text = ""
    failed = False  # set by a caller that continues after the failure

    def __init__(self, events: Events, name: str) -> None:
        self.events, self.name = events, name

    def __enter__(self) -> Span:
        events = self.events
        self.started, self.id = events.clock.monotonic(), events.new_id()
        self.parent = events.innermost()
        events.emit(
            Event(at=events.clock.now(), kind="start", level=INFO, name=self.name, id=self.id, parent=self.parent)
        )
        events.steps().append(self.id)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        events = self.events
        events.steps().remove(self.id)
        level = ERROR if error is not None else WARN if self.failed else INFO
        if getattr(error, "recoverable", False):
            level = WARN
        events.emit(
            Event(
                at=events.clock.now(),
                kind="finish",
                level=level,
                name=self.name,
                text=self.text if error is None else str(error) or type(error).__name__,
                seconds=events.clock.monotonic() - self.started,
                failed=self.failed or error is not None,
                id=self.id,
                parent=self.parent,
            )
        )


def _nothing() -> None:
    pass
