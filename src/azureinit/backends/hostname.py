"""Setting the host name: by system call and /etc/hostname, or by hostnamectl."""

from __future__ import annotations

from azureinit.plan.actions import Declined, Run, SetHostname, Way, Write
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from azureinit.facts.host import Host
    from azureinit.facts.hostnames import HostNames

    class Set(Protocol):
        def __call__(self, intent: HostnameIntent, *, host: Host, names: HostNames) -> Way | Declined: ...


class HostnameIntent(Record):
    name: str


def native(intent: HostnameIntent, *, host: Host, names: HostNames) -> Way | Declined:
    write = Write(path="/etc/hostname", data=f"{intent.name}\n".encode(), mode=0o644, was=names.hostname_file)
    if host.rooted:
        return Way(backend="native", actions=(write,))
    if not host.privileged:
        return Declined(backend="native", why="only root sets the kernel's host name")
    return Way(backend="native", actions=(SetHostname(name=intent.name), write))


def hostnamectl(intent: HostnameIntent, *, host: Host, names: HostNames) -> Way | Declined:  # noqa: ARG001
    if host.rooted:
        return Declined(backend="hostnamectl", why="it works on the running system, not on the one under --root")
    if "hostnamectl" not in host.tools:
        return Declined(backend="hostnamectl", why="hostnamectl is not installed")
    if not host.systemd:
        return Declined(backend="hostnamectl", why="systemd is not running")
    return Way(backend="hostnamectl", actions=(Run(argv=("hostnamectl", "set-hostname", intent.name)),))


SET: dict[str, Set] = {
    "native": native,
    "hostnamectl": hostnamectl,
}
