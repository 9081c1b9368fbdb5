"""The clock, and timestamps in RFC 3339 form."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Clock:
    """Wall clock, monotonic clock and waiting. A test hands in its own."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    def now_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def wait(self, ready: Callable[[float], Any], seconds: float) -> Any:
        """The result of `ready(seconds)`, a function that blocks at most that long."""
        return ready(max(0.0, seconds))


def days(seconds: float) -> int:
    """Since 1970, as /etc/shadow counts."""
    return int(seconds // 86400)


def rfc3339(seconds: float) -> str:
    whole, fraction = divmod(seconds, 1)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(fraction * 1e6):06d}+00:00"


def rfc3339_ns(nanoseconds: int) -> str:
    """With 0, 3, 6 or 9 fractional digits, as few as are exact."""
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + (f".{digits}" if digits else "") + "+00:00"


def rfc2822(seconds: float) -> str:
    """`Tue, 17 Nov 2026 09:05:00 +0000`; the names are English in every locale, since the program never sets one."""
    return time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(seconds))
