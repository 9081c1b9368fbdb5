"""libfaketime: a wrong wall clock for one command."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from fakeazure.platform.clock import Clock

LIBRARIES = (
    "usr/lib/*/faketime/libfaketime.so.1",
    "usr/lib*/faketime/libfaketime.so.1",
    "usr/lib*/libfaketime.so.1",
)

# Up to 0.9.10, libfaketime's clock_nanosleep does not sleep when the monotonic clock is not faked, and Python's
# time.sleep uses that call. The copy has the symbol renamed, so that the C library's function is called.
SLEEP_SYMBOL = (b"\0clock_nanosleep\0", b"\0-lock_nanosleep\0")


class NoFaketime(Exception):
    """libfaketime is not installed."""


def find_library() -> Path:
    for pattern in LIBRARIES:
        for file in Path("/").glob(pattern):
            return file
    raise NoFaketime("the scenario sets a wrong clock, which needs libfaketime: install the package faketime")


def faketime(clock: Clock, *, now: datetime, directory: Path) -> dict[str, str]:
    """Environment variables that shift a command's wall clock, but not its monotonic clock."""
    library = directory / "libfaketime.so.1"
    library.write_bytes(find_library().read_bytes().replace(*SLEEP_SYMBOL))
    preload = os.pathsep.join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
    seconds = round((clock.reads(now) - now).total_seconds())
    return {
        "LD_PRELOAD": preload,
        "FAKETIME": f"{seconds:+d}",
        "NO_FAKE_STAT": "1",  # time stamps of files stay true, as the boot time in /proc does
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
