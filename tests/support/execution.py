"""What the tests of the executor share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from azureinit.apply.executor import apply_plan
from azureinit.errors import (
    HostnameFailed,
)
from azureinit.machine import Clock, Machine
from azureinit.memory.journal import Journal, MemoryJournal
from azureinit.plan.actions import (
    Declined,
    EditLine,
    Step,
    Way,
)
from azureinit.telemetry.events import Events

if TYPE_CHECKING:
    from azureinit.plan.actions import Action, Plan


HOURS = 3600.0


class Stepping(Clock):
    """Time passes by sleeping, and when a test says so."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def shim(tmp_path: Path, name: str, script: str) -> None:
    file = tmp_path / "bin" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def step(*ways: Way | Declined, name: str = "thing", once: bool = False) -> Step:
    return Step(name=name, why="because", ways=ways, once=once, failure=HostnameFailed)


def native(*actions: Action) -> Way:
    return Way(backend="native", actions=actions)


def apply(machine: Machine, plan: Plan, *, journal: Journal | None = None, seconds: float = HOURS) -> None:
    events = Events(clock=machine.clock)
    deadline = machine.clock.monotonic() + seconds
    apply_plan(machine, plan, journal=journal or MemoryJournal(), events=events, deadline=deadline)


def append(name: str, number: int) -> EditLine:
    return EditLine(path="/etc/passwd", key=name, line=f"{name}:x:{number}:{number}::/home/{name}:/bin/sh", unique=2)
