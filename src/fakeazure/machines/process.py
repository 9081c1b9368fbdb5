"""Stop signals, and the end of a child's process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from types import FrameType
from typing import Any, Self

GRACE_SECS = 3.0  # between SIGTERM and SIGKILL


class Stop:
    """Records SIGINT, SIGTERM and SIGHUP. No exception is raised: one during Popen could lose the child."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.number = 0
        self.count = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._record) for number in self.NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self.count += 1

    def exit_code(self, *, truthful: bool) -> int:
        """0: the platform was told the truth in time; 1: it was not; 128 + n: stopped by signal n."""
        return 128 + self.number if self.number else 0 if truthful else 1


def has_ended(child: subprocess.Popen[Any]) -> bool:
    """Does not reap the child: until then its process id cannot be reused."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def kill(child: subprocess.Popen[Any], group: int) -> int:
    """As if the power failed. The child's exit status."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    return child.wait()


def end(child: subprocess.Popen[Any], group: int, *, grace: float = GRACE_SECS) -> int:
    """Ends the child's process group: SIGTERM, then SIGKILL. The child's exit status."""
    until = time.monotonic() + grace
    if not has_ended(child):
        os.killpg(group, signal.SIGTERM)
    while not has_ended(child) and time.monotonic() < until:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    return child.wait()
