"""Files by which a DHCP client may be told a fixed host name, instead of the one the host has."""

from __future__ import annotations

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
    links = (f"{IFCFG}/{name}" for name in sorted(machine.names(IFCFG) or ()) if name.startswith("ifcfg-"))
    read = ((path, machine.read(path)) for path in (*DHCLIENT, WICKED, *links) if machine.is_file(path))
    return tuple(NameFile(path=path, data=data) for path, data in read if data and b"host" in data.lower())
