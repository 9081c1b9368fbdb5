"""Files by which a DHCP client may be told a fixed host name, instead of the one the host has."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

DHCLIENT = ("/etc/dhcp/dhclient.conf", "/etc/dhcp3/dhclient.conf", "/etc/dhclient.conf")
WICKED = "/etc/sysconfig/network/dhcp"
IFCFG = "/etc/sysconfig/network-scripts"


class NameFile(Record):
    path: str
    data: bytes


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
    """None also for what only root may read, as some distributions have it: then only root sees that it has a name."""
    try:
        return machine.read(path) if machine.is_file(path) else None
    except LocalError:
        return None
