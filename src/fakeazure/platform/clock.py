"""A wrong clock of the machine: shifted by an amount, or started at a date."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAY = 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY, "y": 365 * DAY}
WORDS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w", "year": "y"}
# The range of a PC's hardware clock.
EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2099, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    offset: timedelta = timedelta()
    at: datetime | None = None  # instead of `offset`: the time at the machine's start

    @property
    def wrong(self) -> bool:
        return self.at is not None or bool(self.offset)

    def reads(self, now: datetime) -> datetime:
        return now + self.offset if self.at is None else self.at


def parse_clock(text: str, *, now: datetime) -> Clock:
    """`-3 years`, `+10m`, `2001-02-03`, `2001-02-03T04:05:06`; ValueError for anything else."""
    clock = amount(text) or date(text)
    if clock is None:
        raise ValueError(f"{text!r} is neither an amount such as -3 years or +10m nor a date such as 2001-02-03")
    try:
        sensible = EARLIEST <= clock.reads(now) <= LATEST
    except OverflowError:
        sensible = False
    if not sensible:
        raise ValueError(f"{text!r} is out of the range of a machine's clock: 1970 to 2099")
    return clock


def amount(text: str) -> Clock | None:
    found = re.fullmatch(r"([+-])\s*(\d{1,10})\s*([a-z]+)", text.strip(), re.ASCII)
    unit = WORDS.get(found[3].removesuffix("s"), found[3]) if found else ""
    if not found or unit not in UNITS:
        return None
    seconds = int(found[2]) * UNITS[unit] * (-1 if found[1] == "-" else 1)
    return Clock(offset=timedelta(seconds=min(max(seconds, -200 * UNITS["y"]), 200 * UNITS["y"])))


def date(text: str) -> Clock | None:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return Clock(at=at if at.tzinfo else at.replace(tzinfo=UTC))
