"""What the tests of events and their listeners share."""

from __future__ import annotations

from azureinit.telemetry.events import INFO, Event


def event(
    text: str, *, level: int = INFO, kind: str = "event", failed: bool = False, seconds: float | None = None
) -> Event:
    if kind == "finish" and seconds is None:
        seconds = 0.0123
    return Event(at=0.0, kind=kind, level=level, name="user", text=text, seconds=seconds, failed=failed)
