"""DHCP clients other than systemd-networkd: their packages, and how each is started."""

from __future__ import annotations

CLIENTS = ("network-manager", "isc-dhcp-client", "dhcpcd-base")
PROFILE = """\
[connection]
id=eth0
type=ethernet
interface-name=eth0
[ipv4]
method=auto
[ipv6]
method=disabled
"""
START = {
    "NetworkManager": "nm-online --quiet --timeout=30",
    "dhclient": "dhclient -4 -pf /run/dhclient.eth0.pid -lf /var/lib/dhcp/dhclient.eth0.leases eth0",
    "dhcpcd": "dhcpcd --ipv4only --waitip=4 eth0",
}
