"""Kernel notifications: new routes, and a changed host name."""

from __future__ import annotations

import os
import select

from azureinit.machine.files import local_error
from azureinit.machine.sockets import AF_NETLINK, SOCK_CLOEXEC, SOCK_RAW, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IPV4_ROUTES = 0x40
HOSTNAME = "/proc/sys/kernel/hostname"


class RouteWatch:
    def __init__(self) -> None:
        try:
            self.kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)
            self.kernel.bind((0, IPV4_ROUTES))
        except OSError as error:
            raise local_error(error, "listen to", "the kernel's routes") from error

    def __enter__(self) -> RouteWatch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.kernel.close()

    def wait(self, seconds: float) -> bool:
        """True if a route changed."""
        self.kernel.settimeout(seconds or 0.001)
        try:
            return bool(self.kernel.recv(1 << 16))
        except TimeoutError:
            return False
        except OSError as error:  # notifications were lost: treat it as a change
            return error.errno is not None


class HostnameWatch:
    def __init__(self) -> None:
        try:
            self.file = os.open(HOSTNAME, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise local_error(error, "read", HOSTNAME) from error
        self.kernel = select.poll()
        self.kernel.register(self.file, select.POLLERR | select.POLLPRI)

    def __enter__(self) -> HostnameWatch:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.file)

    def wait(self, seconds: float) -> bool:
        """True if any process set the host name since this was opened, or since the last True."""
        return bool(self.kernel.poll(seconds * 1000))
