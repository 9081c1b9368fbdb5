"""What happens, said once: steps with a start, an end, a result and a cause, and single events between them."""

from __future__ import annotations

from itertools import count

from azureinit.machine.threads import get_ident
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.machine import Clock

    # One that also has `flush` keeps what it heard until that is called.
    Listener = Callable[["Event"], None]

ERROR, WARN, INFO, DEBUG, TRACE = 40, 30, 20, 10, 5
NO_FIELDS: Mapping[str, str] = {}


class Event(Record):
    at: float  # when it happened; of a finish or a timed event, when it was over
    kind: str  # start, finish or event
    level: int
    name: str
    text: str = ""
    seconds: float | None = None  # None for what takes no time
    failed: bool = False
    id: str = ""  # 32 hex digits; a start and its finish share it
    parent: str = ""  # the id of the step it happened in
    fields: Mapping[str, str] = NO_FIELDS


class Events:
    """`seed`: 32 hex digits that no other run has; ids are counted from it, and it is the run's own.

    `about`: who we are, as far as it is known: vm_id, and what the metadata say. Listeners look it up when they write.
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
        self._open: dict[int, list[str]] = {self._own: []}  # the steps each thread is in, innermost last
        self._numbers = count(int(seed[24:], 16) + 1)

    def new_id(self) -> str:
        """Never the same one twice, also where two threads ask at once."""
        return f"{self.seed[:24]}{next(self._numbers) & 0xFFFFFFFF:08x}"

    def innermost(self) -> str:
        """The step we are in, or nothing. A thread that has begun none is in the run's own, which may end meanwhile."""
        return "".join(self.steps()[-1:] or self._open[self._own][-1:])

    def steps(self) -> list[str]:
        return self._open.setdefault(get_ident(), [])

    def step(self, name: str) -> Span:
        """`with events.step("hostname") as step: ...; step.text = "set to web-1"`"""
        return Span(self, name)

    def tell(self, level: int, name: str, text: str, **fields: str) -> None:
        """What has no duration."""
        self._single(level, name, text, fields=fields)

    def observe(self, name: str, *, seconds: float | None = None, failure: str = "", **fields: object) -> None:
        """The callable handed to http and the sources: one attempt, how long it took, and what came of it."""
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
        """Whatever was heard lies where it belongs: done before every word to the platform."""
        for listener in self.listeners:
            try:
                getattr(listener, "flush", _nothing)()
            except Exception:  # noqa: BLE001, S110
                pass


class Span:
    text = ""
    failed = False  # set by who goes on all the same

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
