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

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def wait(self, ready: Callable[[float], Any], seconds: float) -> Any:
        """What `ready(seconds)` gives: something that blocks at most that long."""
        return ready(max(0.0, seconds))


def rfc3339(seconds: float) -> str:
    whole, fraction = divmod(seconds, 1)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(fraction * 1e6):06d}+00:00"
