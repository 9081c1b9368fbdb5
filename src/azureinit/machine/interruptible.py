"""A connection that no longer waits for an answer once none can come, because its link has been removed."""

from __future__ import annotations

import errno

from azureinit.machine.sockets import socket, timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_SECS = 0.25  # between two questions whether an answer can still come


class Interruptible(socket):
    """A connection whose reading ends when `ended` says so: an answer can no longer come."""

    ended: Callable[[], bool]

    def recv(self, size: int, flags: int = 0) -> bytes:
        left = self.gettimeout() or 0.0
        while True:
            piece = min(left, LOOK_SECS)
            self.settimeout(piece)
            try:
                return super().recv(size, flags)
            except (TimeoutError, timeout):
                left -= piece
                if self.ended():
                    raise ConnectionAbortedError(errno.ECONNABORTED, "the link has been removed") from None
                if left <= 0:
                    raise


def interruptible(connection: socket, ended: Callable[[], bool]) -> socket:
    """Takes the connection over."""
    made = Interruptible(fileno=connection.detach())
    made.ended = ended
    return made
