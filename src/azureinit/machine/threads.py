"""Threads without the 5 ms that `threading` costs. The process does not wait for them when it ends.

`_thread` is documented and has kept this interface since Python 3.2, so that no fallback is needed.
"""

from __future__ import annotations

from _thread import TIMEOUT_MAX, allocate_lock as allocate_lock, get_ident as get_ident, start_new_thread
from sys import setswitchinterval
from time import monotonic

from azureinit.errors import LocalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


SHORT_TURN = 0.0005  # seconds that a thread waits for the interpreter; Python's default is 5 ms


class Flag:
    """An event: set once, any number of waiting threads."""

    def __init__(self) -> None:
        self._gate = allocate_lock()
        self._gate.acquire()
        self.up = False

    def set(self) -> None:
        if not self.up:
            self.up = True
            self._gate.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was set."""
        if self.up:  # also where a signal ended an earlier wait between acquire and release
            return True
        opened = self._gate.acquire(timeout=-1 if seconds is None else min(max(0.0, seconds), TIMEOUT_MAX))
        if opened:
            self._gate.release()
        return opened


class Inbox:
    """A queue with one reader. The module `_queue` would cost one more file to open."""

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._bell = allocate_lock()
        self._bell.acquire()

    def put(self, message: Any) -> None:
        self._messages.append(message)
        try:
            self._bell.release()
        except RuntimeError:
            pass  # already released

    def get(self, seconds: float) -> Any:
        """The next message; None after the timeout."""
        until = monotonic() + min(max(0.0, seconds), TIMEOUT_MAX)
        while not self._messages:
            left = until - monotonic()
            if not self._bell.acquire(timeout=max(0.0, left)) and left <= 0:
                return None
        return self._messages.pop(0)


def start(work: Callable[[], object]) -> Flag:
    """Start a thread. The returned flag is set when the work has ended."""
    ended = Flag()

    def body() -> None:
        try:
            work()
        finally:
            ended.set()

    setswitchinterval(SHORT_TURN)
    try:
        start_new_thread(body, ())
    except RuntimeError:
        raise LocalError("cannot start a thread: a process or memory limit is reached") from None
    return ended
