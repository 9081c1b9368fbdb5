"""The service manager: sd_notify messages, and the time since the machine started."""

from __future__ import annotations

import os

from azureinit.errors import AzureInitError
from azureinit.machine.sockets import AF_UNIX, SOCK_CLOEXEC, SOCK_DGRAM, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

STARTED = 19  # index, after the name, of the process's start time in clock ticks since the kernel's start


def is_service(machine: Machine) -> bool:
    """Whether a service manager waits for a readiness message."""
    return bool(machine.environ.get("NOTIFY_SOCKET")) and not machine.rooted


def notify(machine: Machine, text: str) -> None:
    """Best effort: the service manager has its own timeout."""
    path = machine.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")) or machine.rooted:
        return
    talk = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC)
    try:
        talk.settimeout(1.0)
        talk.sendto(text.encode(), "\0" + path[1:] if path.startswith("@") else path)
    except OSError:
        pass
    finally:
        talk.close()


def boot_moment(machine: Machine) -> float:
    """Start of process 1 on the monotonic clock. In a container that is the container's start, not the kernel's."""
    try:
        stat = machine.read("/proc/1/stat") or b""
        return int(stat.rpartition(b")")[2].split()[STARTED]) / os.sysconf("SC_CLK_TCK")
    except (AzureInitError, IndexError, ValueError):
        return 0.0
