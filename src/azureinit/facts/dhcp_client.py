"""The DHCP client that holds the lease of the link to the platform: it renews the lease under a new host name."""

from __future__ import annotations

from azureinit.addresses import MOST_TABLE_BYTES, ROUTE_TABLE, WIRESERVER, best_link_to, parse_ipv4
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

TOOLS = ("networkctl", "nmcli", "dhclient", "dhcpcd", "wicked")
NETWORKD, NETWORK_MANAGER = "/run/systemd/netif", "/run/NetworkManager/devices"
WICKED = "/run/wicked/leaseinfo."
# PID files of a client that runs for one link, or for all.
PIDS = {
    "dhclient": ("/run/dhclient.{}.pid", "/run/dhclient-{}.pid", "/run/dhclient.pid"),
    "dhcpcd": (
        "/run/dhcpcd/{}.pid",
        "/run/dhcpcd/{}-4.pid",
        "/run/dhcpcd-{}.pid",
        "/run/dhcpcd/pid",
        "/run/dhcpcd.pid",
    ),
}


class DhcpClient(Record):
    link: str
    client: str = ""  # empty: unknown
    config: str = ""  # systemd-networkd's configuration file of the link
    tools: frozenset[str] = frozenset()


def read_dhcp_client(machine: Machine) -> DhcpClient | None:
    """None where no route leads to the platform, and under --root."""
    if machine.rooted:
        return None
    from azureinit.machine.links import without_vfs

    link = platform_link(without_vfs(machine, machine.read(ROUTE_TABLE, limit=MOST_TABLE_BYTES) or b""))
    if link is None:
        return None
    index = (machine.read(f"/sys/class/net/{link}/ifindex", limit=32) or b"").decode("ascii", "replace").strip()
    tools = frozenset(tool for tool in TOOLS if machine.find(tool))
    if machine.is_file(f"{NETWORKD}/leases/{index}"):
        state = _settings(machine.read(f"{NETWORKD}/links/{index}") or b"")
        return DhcpClient(link=link, client="systemd-networkd", config=state.get("NETWORK_FILE", ""), tools=tools)
    return DhcpClient(link=link, client=_other_client(machine, link, index), tools=tools)


def _other_client(machine: Machine, link: str, index: str) -> str:
    if b"[dhcp4]" in (machine.read(f"{NETWORK_MANAGER}/{index}") or b""):
        return "NetworkManager"
    for client, places in PIDS.items():
        for place in places:
            pid = (machine.read(place.format(link), limit=64) or b"").strip()
            if pid.isdigit() and machine.is_another(int(pid)):
                return client
    return "wicked" if machine.is_file(f"{WICKED}{link}.dhcp.ipv4") else ""


def read_manager(machine: Machine, *, link: str, index: int) -> DhcpClient:
    """The manager of that link, also of one without a lease or a route."""
    tools = frozenset(tool for tool in TOOLS if machine.find(tool))
    state = _settings(machine.read(f"{NETWORKD}/links/{index}") or b"")
    if state.get("ADMIN_STATE", "unmanaged") not in ("unmanaged", "pending"):
        return DhcpClient(link=link, client="systemd-networkd", config=state.get("NETWORK_FILE", ""), tools=tools)
    return DhcpClient(link=link, client=_other_client(machine, link, str(index)), tools=tools)


def platform_link(table: bytes) -> str | None:
    """The link of the best route to the platform."""
    return best_link_to(table, parse_ipv4(WIRESERVER) or 0)


def _settings(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in data.decode("utf-8", "replace").split("\n"))
    return {key: value for key, equals, value in pairs if equals}
