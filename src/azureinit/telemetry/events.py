"""What happens, said once: steps with a start, an end, a result and a cause, and single events between them."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Clock

    Listener = Callable[["Event"], None]

ERROR, WARN, INFO, DEBUG = 40, 30, 20, 10


class Event(Record):
    at: float
    kind: str  # start, finish or event
    level: int
    name: str
    text: str = ""
    seconds: float = 0.0
    failed: bool = False


class Events:
    def __init__(self, *, clock: Clock, listeners: tuple[Listener, ...] = ()) -> None:
        self.clock = clock
        self.listeners = listeners

    def step(self, name: str) -> Span:
        """`with events.step("hostname") as step: ...; step.text = "set to web-1"`"""
        return Span(self, name)

    def tell(self, level: int, name: str, text: str) -> None:
        self.emit(Event(at=self.clock.now(), kind="event", level=level, name=name, text=text))

    def observe(self, name: str, **fields: object) -> None:
        """The callable handed to http and the sources."""
        self.tell(DEBUG, name, " ".join(f"{key}={value}" for key, value in fields.items()))

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001, S110 - telemetry that cannot be written never stops a run
                pass


class Span:
    text = ""

    def __init__(self, events: Events, name: str) -> None:
        self.events, self.name = events, name

    def __enter__(self) -> Span:
        self.started = self.events.clock.monotonic()
        self.events.emit(Event(at=self.events.clock.now(), kind="start", level=DEBUG, name=self.name))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.events.emit(
            Event(
                at=self.events.clock.now(),
                kind="finish",
                level=INFO if error is None else WARN if getattr(error, "recoverable", False) else ERROR,
                name=self.name,
                text=self.text if error is None else str(error) or type(error).__name__,
                seconds=self.events.clock.monotonic() - self.started,
                failed=error is not None,
            )
        )
