"""Setting the host name: by system call and file, or by asking systemd."""

from __future__ import annotations

from azureinit.plan.actions import Declined, Run, SetHostname, Way, Write
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.facts.gather import Facts
    from azureinit.facts.host import Host

    Set = Callable[["HostnameIntent", Facts | Host], Way | Declined]


class HostnameIntent(Record):
    name: str


def native(intent: HostnameIntent, facts: Facts | Host) -> Way | Declined:
    write = Write(path="/etc/hostname", data=f"{intent.name}\n".encode(), mode=0o644, was=facts.hostname_file)
    if facts.rooted:
        return Way(backend="native", actions=(write,))
    if not facts.privileged:
        return Declined(backend="native", why="only root sets the kernel's host name")
    return Way(backend="native", actions=(SetHostname(name=intent.name), write))


def hostnamectl(intent: HostnameIntent, facts: Facts | Host) -> Way | Declined:
    if facts.rooted:
        return Declined(backend="hostnamectl", why="it names the running system, not the one under --root")
    if "hostnamectl" not in facts.tools:
        return Declined(backend="hostnamectl", why="hostnamectl is not installed")
    if not facts.systemd:
        return Declined(backend="hostnamectl", why="systemd is not running")
    return Way(backend="hostnamectl", actions=(Run(argv=("hostnamectl", "set-hostname", intent.name)),))


SET: dict[str, Set] = {
    "native": native,
    "hostnamectl": hostnamectl,
}
