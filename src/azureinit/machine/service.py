"""The service manager: told how far we are, and asked since when this machine is up."""

from __future__ import annotations

import os

from azureinit.errors import AzureInitError
from azureinit.machine.sockets import AF_UNIX, SOCK_CLOEXEC, SOCK_DGRAM, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

STARTED = 19  # of the fields behind the name: when the process began, in ticks since the kernel did


def is_service(machine: Machine) -> bool:
    """Somebody waits to hear that we are ready."""
    return bool(machine.environ.get("NOTIFY_SOCKET")) and not machine.rooted


def notify(machine: Machine, text: str) -> None:
    """Best effort: a manager that does not listen has its own limits."""
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
    """When the first process began, by the monotonic clock: of a container, not of the kernel below it."""
    try:
        stat = machine.read("/proc/1/stat") or b""
        return int(stat.rpartition(b")")[2].split()[STARTED]) / os.sysconf("SC_CLK_TCK")
    except (AzureInitError, IndexError, ValueError):
        return 0.0
