"""Forbids processes and sockets, for the tests that need neither.

The interpreter announces both with audit events, from C code too: no module reaches past them. An audit hook cannot be
removed, so this one stays and is switched on and off.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager

FORBIDDEN = frozenset(
    ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system",
     "socket.__new__", "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo")
)  # fmt: skip


class Forbidden(RuntimeError):
    """A process was started or a socket opened where that is forbidden."""


class Guard:
    def __init__(self) -> None:
        self.on = False
        self.attempts: list[str] = []
        self.others: frozenset[int] = frozenset()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on and event in FORBIDDEN and get_ident() not in self.others:
            self.attempts.append(f"{event} {arguments!r:.200}")
            raise Forbidden(f"a test in tests/unit starts no process and opens no socket: {self.attempts[-1]}")

    @contextmanager
    def confined(self) -> Iterator[list[str]]:
        """Yields the attempts: code under test may have caught the exception. Earlier threads are not confined."""
        self.attempts = []
        self.others = frozenset(sys._current_frames()) - {get_ident()}
        self.on = True
        try:
            yield self.attempts
        finally:
            self.on = False


GUARD = Guard()
