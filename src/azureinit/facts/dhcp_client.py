"""The DHCP client that holds the lease of the link to the platform: it is told a new host name."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

ROUTES = "/proc/net/route"
WIRESERVER = 168 << 24 | 63 << 16 | 129 << 8 | 16
UP = 0x1
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

    link = parse_outgoing_link(without_vfs(machine, machine.read(ROUTES, limit=1 << 22) or b""))
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


def parse_outgoing_link(table: bytes) -> str | None:
    """The link of the best route to the platform: the longest prefix, then the lowest metric."""
    best: tuple[int, int, str] | None = None
    for line in table.decode("ascii", "replace").split("\n")[1:]:
        fields = line.split()
        try:
            destination, flags, metric, mask = (
                int(fields[1], 16),
                int(fields[3], 16),
                int(fields[6]),
                int(fields[7], 16),
            )
        except (ValueError, IndexError):
            continue
        if flags & UP and _turned(WIRESERVER) & mask == destination:
            # A longer prefix has more bits set; byte order does not matter.
            one = (-bin(mask).count("1"), metric, fields[0])
            best = one if best is None else min(best, one)
    return best[2] if best else None


def _turned(address: int) -> int:
    """The table has addresses in network byte order, printed as integers of this machine's byte order."""
    from sys import byteorder

    return int.from_bytes(address.to_bytes(4, "big"), byteorder)


def _settings(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in data.decode("utf-8", "replace").split("\n"))
    return {key: value for key, equals, value in pairs if equals}
