"""The ledger: all events of a machine and its platform, in memory and in a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from fakeazure.judge import Judgement, judge
from fakeazure.platform.events import Boot, Event, Request, Told, to_line
from fakeazure.pool_judge import final_verdicts, in_order


class Ledger:
    """Thread-safe. Events are appended, and written to the file at once."""

    def __init__(self, file: Path | None = None) -> None:
        self._start = time.monotonic()
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._file: TextIO | None = file.open("w", encoding="utf-8") if file else None

    def now(self) -> float:
        return round(time.monotonic() - self._start, 6)

    def add(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            if self._file:
                self._file.write(to_line(event))
                self._file.flush()
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            if self._file:
                self._file.close()
                self._file = None

    def wait(self, seen: Callable[[Ledger], bool], *, timeout: float) -> bool:
        """Sleeps until `seen(ledger)`; False at the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: seen(self), timeout)

    @property
    def events(self) -> tuple[Event, ...]:
        with self._changed:
            return tuple(self._events)

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(event for event in self.events if isinstance(event, Request))

    @property
    def told(self) -> tuple[Told, ...]:
        return tuple(event for event in self.events if isinstance(event, Told))

    @property
    def verdicts(self) -> tuple[Told, ...]:
        return tuple(told for told in self.told if told.kind != "progress")

    @property
    def boot(self) -> tuple[Event, ...]:
        """The events of the last boot."""
        events = in_order(self.events)
        starts = [n for n, event in enumerate(events) if isinstance(event, Boot)]
        return tuple(events[starts[-1] if starts else 0 :])

    @property
    def final_verdicts(self) -> tuple[Told, ...]:
        """The verdicts without Ready in the pool, which a VM's customer does not see."""
        return tuple(final_verdicts(in_order(self.events)))

    @property
    def has_verdict(self) -> bool:
        """Whether a verdict was reported in the last boot; a VM in its pool waits on after Ready."""
        return bool(final_verdicts(self.boot))

    @property
    def progress(self) -> tuple[Told, ...]:
        return tuple(told for told in self.told if told.kind == "progress")

    def judge(self) -> Judgement:
        return judge(self.events)
