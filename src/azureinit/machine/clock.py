"""Time."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Clock:
    """Time, handed in, so that a test can own it."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    def now_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def wait(self, ready: Callable[[float], Any], seconds: float) -> Any:
        """What `ready(seconds)` gives: something that blocks at most that long."""
        return ready(max(0.0, seconds))


def rfc3339(seconds: float) -> str:
    whole, fraction = divmod(seconds, 1)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(fraction * 1e6):06d}+00:00"


def rfc3339_ns(nanoseconds: int) -> str:
    """With as many digits as it needs: none, 3, 6 or 9."""
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + (f".{digits}" if digits else "") + "+00:00"
