"""Work beside other work, without the 5 ms that `threading` costs. Nobody is waited for at the end of the process."""

from __future__ import annotations

from _thread import TIMEOUT_MAX, allocate_lock, start_new_thread
from sys import setswitchinterval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


SHORT_TURN = 0.0005  # who has an answer from the network waits no longer than this for the interpreter; else it is 5 ms


class Flag:
    """Raised once, and waited for by anybody."""

    def __init__(self) -> None:
        self._gate = allocate_lock()
        self._gate.acquire()
        self.up = False

    def set(self) -> None:
        if not self.up:
            self.up = True
            self._gate.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was raised."""
        opened = self._gate.acquire(timeout=-1 if seconds is None else min(max(0.0, seconds), TIMEOUT_MAX))
        if opened:
            self._gate.release()
        return opened


def start(work: Callable[[], object]) -> Flag:
    """Raised when the work has ended."""
    ended = Flag()

    def body() -> None:
        try:
            work()
        finally:
            ended.set()

    setswitchinterval(SHORT_TURN)
    start_new_thread(body, ())
    return ended


def start_later(seconds: float, work: Callable[[], object]) -> None:
    start(lambda: Flag().wait(seconds) or work())
