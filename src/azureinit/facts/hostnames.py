"""The host's name: the kernel's, the files', and the files that have a DHCP client send a fixed one."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.machine import MOST_BYTES
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

DHCLIENT = ("/etc/dhcp/dhclient.conf", "/etc/dhcp3/dhclient.conf", "/etc/dhclient.conf")
WICKED = "/etc/sysconfig/network/dhcp"
IFCFG = "/etc/sysconfig/network-scripts"


class NameFile(Record):
    """A configuration file of a DHCP client that mentions a host name."""

    path: str
    data: bytes


class HostNames(Record):
    kernel: str
    hostname_file: bytes | None
    hosts_file: bytes | None
    name_files: tuple[NameFile, ...] = ()


def read_host_names(machine: Machine) -> HostNames:
    return HostNames(
        kernel=machine.hostname(),
        hostname_file=machine.read("/etc/hostname"),
        hosts_file=machine.read("/etc/hosts", limit=MOST_BYTES),
        name_files=read_name_files(machine),
    )


def read_name_files(machine: Machine) -> tuple[NameFile, ...]:
    read = ((path, _read(machine, path)) for path in (*DHCLIENT, WICKED, *_links(machine)))
    return tuple(NameFile(path=path, data=data) for path, data in read if data and b"host" in data.lower())


def _links(machine: Machine) -> tuple[str, ...]:
    try:
        names = machine.names(IFCFG) or ()
    except LocalError:
        return ()
    return tuple(f"{IFCFG}/{name}" for name in sorted(names) if name.startswith("ifcfg-"))


def _read(machine: Machine, path: str) -> bytes | None:
    """None also for a file that only root may read: without privileges the name in it is not seen."""
    try:
        return machine.read(path) if machine.is_file(path) else None
    except LocalError:
        return None
