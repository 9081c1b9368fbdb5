"""What happens between platform and machine, one value an event, and each as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from fakeazure.vm import Expect


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    t: float  # seconds since the ledger was opened

    name: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot(Event):
    """A machine starts. What follows, up to the next of these, is one boot."""

    number: int
    vm_id: str
    expect: Mapping[str, Any]

    name = "boot"

    @property
    def expected(self) -> Expect:
        values = dict(self.expect)
        return Expect(**values | {name: tuple(values.get(name, ())) for name in ("says", "asks")})


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaMade(Event):
    path: str
    format: str
    size: int

    name = "media"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ejected(Event):
    """The platform has a verdict and takes its medium away."""

    path: str

    name = "ejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Event):
    """`status` is None where no answer was given; `fault` is the scripted answer, as it was written."""

    service: str
    method: str
    target: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    status: int | None
    size: int = 0
    fault: str | None = None
    off_script: bool = False
    took: float = 0.0
    note: str = ""

    name = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Event):
    """A health report that the platform took. `acknowledged`: the machine was in a position to know that."""

    kind: str  # ready, failed or progress
    description: str = ""
    acknowledged: bool = True
    agent: str = ""

    name = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Event):
    """The command is over; None: it was ended, for its time was up."""

    exit_code: int | None

    name = "end"


KINDS: dict[str, type[Event]] = {kind.name: kind for kind in (Boot, MediaMade, Ejected, Request, Told, End)}


class LedgerInvalid(Exception):
    """A file that is not a ledger of ours; the text says which line and why."""


def to_line(event: Event) -> str:
    return json.dumps({"event": event.name, **asdict(event)}, ensure_ascii=False) + "\n"


def read_events(file: Path) -> tuple[Event, ...]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise LedgerInvalid(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LedgerInvalid(f"{file}: not a text file, so not a ledger") from None
    lines = text.split("\n")
    # A line without its end was being written when the platform was killed: it never happened.
    events = tuple(parse_line(line, where=f"{file}:{number}") for number, line in enumerate(lines[:-1], 1) if line)
    if not events or not isinstance(events[0], Boot):
        raise LedgerInvalid(f"{file}: not a ledger: it does not begin with a boot")
    return events


def parse_line(line: str, *, where: str) -> Event:
    try:
        values = json.loads(line)
        kind = KINDS[values.pop("event")]
        if unknown := values.keys() - {one.name for one in fields(kind)}:
            raise LedgerInvalid(f"{where}: unknown {', '.join(sorted(unknown))}")
        event = kind(**values)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LedgerInvalid(f"{where}: not a line of a ledger") from None
    if not isinstance(event.t, int | float):
        raise LedgerInvalid(f"{where}: t is not a number")
    check_words(event, where=where)
    return event


def check_words(event: Event, *, where: str) -> None:
    if isinstance(event, Told) and event.kind not in ("ready", "failed", "progress"):
        raise LedgerInvalid(f"{where}: {event.kind!r} is nothing that a machine tells")
    try:
        known = not isinstance(event, Boot) or event.expected.verdict in Expect.VERDICTS
    except (TypeError, ValueError):
        known = False
    if not known:
        raise LedgerInvalid(f"{where}: expect is nothing that can be expected")
