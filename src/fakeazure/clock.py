"""The machine's clock, where it is to be wrong: by an amount, or standing at a date."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAY = 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY, "y": 365 * DAY}
WORDS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w", "year": "y"}
EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2099, 12, 31, tzinfo=UTC)  # what a PC's clock can say
LIBRARIES = (
    "usr/lib/*/faketime/libfaketime.so.1",
    "usr/lib*/faketime/libfaketime.so.1",
    "usr/lib*/libfaketime.so.1",
)

# Up to 0.9.10 its clock_nanosleep refuses to sleep when the monotonic clock is left alone, and Python sleeps by that
# call. In our copy of the library nobody finds it, and the C library's own is called.
ITS_SLEEP = (b"\0clock_nanosleep\0", b"\0-lock_nanosleep\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    offset: timedelta = timedelta()
    at: datetime | None = None  # a date at the machine's start, instead

    @property
    def wrong(self) -> bool:
        return self.at is not None or bool(self.offset)

    def reads(self, now: datetime) -> datetime:
        return now + self.offset if self.at is None else self.at


class NoFaketime(Exception):
    """The clock of a command cannot be moved."""


def parse_clock(text: str, *, now: datetime) -> Clock:
    """`-3 years`, `+10m`, `2001-02-03`, `2001-02-03T04:05:06`; a ValueError says what is wrong with it."""
    clock = amount(text) or date(text)
    if clock is None:
        raise ValueError(f"{text!r} is neither an amount such as -3 years or +10m nor a date such as 2001-02-03")
    try:
        sensible = EARLIEST <= clock.reads(now) <= LATEST
    except OverflowError:
        sensible = False
    if not sensible:
        raise ValueError(f"{text!r} is no time that a machine's clock can say: from 1970 to 2099 it must be")
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


def find_library() -> Path:
    for pattern in LIBRARIES:
        for file in Path("/").glob(pattern):
            return file
    raise NoFaketime("the scenario's clock is wrong, and that needs libfaketime: install the package faketime")


def faketime(clock: Clock, *, now: datetime, directory: Path) -> dict[str, str]:
    """The environment in which a command's wall clock is wrong, and its monotonic clock is not."""
    library = directory / "libfaketime.so.1"
    library.write_bytes(find_library().read_bytes().replace(*ITS_SLEEP))
    preload = os.pathsep.join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
    seconds = round((clock.reads(now) - now).total_seconds())
    return {
        "LD_PRELOAD": preload,
        "FAKETIME": f"{seconds:+d}",
        "NO_FAKE_STAT": "1",  # files are as old as they are, beside the machine's true time of boot
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
