"""The kernel's announcements of new routes."""

from __future__ import annotations

import socket

from azureinit.machine import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IPV4_ROUTES = 0x40


class RouteWatch:
    def __init__(self) -> None:
        try:
            self.kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
            self.kernel.bind((0, IPV4_ROUTES))
        except OSError as error:
            raise local_error(error, "listen to", "the kernel's routes") from error

    def __enter__(self) -> RouteWatch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.kernel.close()

    def wait(self, seconds: float) -> bool:
        """True when something changed."""
        self.kernel.settimeout(seconds or 0.001)
        try:
            return bool(self.kernel.recv(1 << 16))
        except TimeoutError:
            return False
        except OSError as error:  # more was announced than fits: look again
            return error.errno is not None
