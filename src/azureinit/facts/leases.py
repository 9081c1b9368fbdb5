"""DHCP leases, as whichever client this machine has wrote them down. Of each: address, server, option 245, lifetime.

A file is known by its content, not by its place: NetworkManager keeps its own form, or dhclient's when that is its
client.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureinit.machine import Machine

# Who, where, and how the names end; a name that is only a number is a link's index.
PLACES = (
    ("systemd-networkd", "/run/systemd/netif/leases", ""),
    ("NetworkManager", "/run/NetworkManager/devices", ""),
    ("NetworkManager", "/var/lib/NetworkManager", ".lease"),
    ("dhclient", "/var/lib/dhcp", ".leases"),
    ("dhclient", "/var/lib/dhclient", ".leases"),
    ("dhclient", "/var/lib/dhclient", ".lease"),
    ("dhcpcd", "/var/lib/dhcpcd", ".lease"),
    ("dhcpcd", "/var/lib/dhcpcd5", ".lease"),
    ("dhcpcd", "/var/db/dhcpcd", ".lease"),
)
MOST_FILES, MOST_BYTES = 64, 1 << 20  # of one place; of one file
NAMES = {
    "address": ("ADDRESS", "ip_address", "fixed-address"),
    "server": ("SERVER_ADDRESS", "dhcp_server_identifier", "dhcp-server-identifier"),
    "wireserver": ("OPTION_245", "private_245", "unknown-245"),
    "lifetime": ("LIFETIME", "dhcp_lease_time", "dhcp-lease-time"),
}
COOKIE, OPTIONS = bytes((99, 130, 83, 99)), 240  # in a DHCP packet, before its options
PAD, LEASE_TIME, SERVER, WIRESERVER, END = 0, 51, 54, 245, 255


class Lease(Record):
    link: str
    client: str
    address: str
    server: str = ""
    wireserver: str = ""  # option 245
    lifetime: int | None = None  # seconds


def read_leases(machine: Machine, links: Mapping[int, str]) -> tuple[tuple[Lease, ...], tuple[str, ...]]:
    """The leases, and what could not be read. `links`: their names by their indexes."""
    found: dict[tuple[str, str], Lease] = {}
    problems = []
    for client, directory, ending in PLACES:
        try:
            names = machine.names(directory) or ()
        except LocalError as error:
            problems.append(str(error))
            continue
        for name in [name for name in names if name.endswith(ending)][:MOST_FILES]:
            try:
                data = machine.read(f"{directory}/{name}", limit=MOST_BYTES) or b""
            except LocalError as error:
                problems.append(str(error))
                continue
            for lease in parse_leases(data, client=client, link=link_of(name.removesuffix(ending), links)):
                found[lease.link, client] = lease
    return tuple(found.values()), tuple(problems)


def link_of(name: str, links: Mapping[int, str]) -> str:
    """`3`, `eth0`, `dhclient-eth0` or `internal-<uuid>-eth0`."""
    if name.isascii() and name.isdigit():
        return links.get(int(name[:10]), name)
    known = [link for link in links.values() if link and (name == link or name.endswith((f"-{link}", f".{link}")))]
    return max(known, key=len, default=name)


def parse_leases(data: bytes, *, client: str, link: str) -> list[Lease]:
    """In the order of the file: of two of one link, the later is the one that counts."""
    if data[OPTIONS - len(COOKIE) : OPTIONS] == COOKIE:
        found = [(link, _packet(data))]
    elif b"lease {" in data:
        found = [(values.get("interface", link), _chosen(values)) for values in _blocks(data)]
    else:
        found = [(link, _chosen(_pairs(data)))]
    # 0.0.0.0 is no address either.
    return [_lease(values, client=client, link=name) for name, values in found if parse_ipv4(values["address"])]


def parse_ipv4(text: str) -> int | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return None if max(numbers) > 255 else numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8 | numbers[3]


def _lease(values: Mapping[str, str], *, client: str, link: str) -> Lease:
    lifetime = values["lifetime"]
    return Lease(
        link=link,
        client=client,
        address=values["address"],
        server=values["server"] if parse_ipv4(values["server"]) else "",
        wireserver=_from_hex(values["wireserver"]),
        lifetime=int(lifetime[:10]) if lifetime.isascii() and lifetime.isdigit() else None,
    )


def _chosen(values: Mapping[str, str]) -> dict[str, str]:
    return {field: next((values[name] for name in names if name in values), "") for field, names in NAMES.items()}


def _from_hex(text: str) -> str:
    """`a83f8110`, `a8:3f:81:10`, or an address already."""
    try:
        octets = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        return text if parse_ipv4(text) else ""
    return _dotted(octets)


def _dotted(octets: bytes) -> str:
    return ".".join(map(str, octets)) if len(octets) == 4 else ""


def _pairs(data: bytes) -> dict[str, str]:
    """KEY=VALUE, one a line."""
    lines = data.decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines)
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def _blocks(data: bytes) -> Iterable[dict[str, str]]:
    """dhclient's: `lease { option dhcp-lease-time 3600; ... }`, one after another."""
    for block in data.decode("utf-8", "replace").split("lease {")[1:]:
        values = {}
        for statement in block.partition("}")[0].split(";"):
            words = statement.split()
            if words[:1] == ["option"]:
                del words[0]
            if len(words) == 2:
                values[words[0]] = words[1].strip('"')
        yield values


def _packet(data: bytes) -> dict[str, str]:
    """dhcpcd's: the answer of the server as it came."""
    options: dict[int, bytes] = {}
    place = OPTIONS
    while place < len(data) and data[place] != END:
        if data[place] == PAD:
            place += 1
            continue
        length = data[place + 1] if place + 1 < len(data) else 0
        options[data[place]] = data[place + 2 : place + 2 + length]
        place += 2 + length
    return {
        "address": _dotted(data[16:20]),
        "server": _dotted(options.get(SERVER, b"")),
        "wireserver": _dotted(options.get(WIRESERVER, b"")),
        "lifetime": str(int.from_bytes(options[LEASE_TIME], "big")) if len(options.get(LEASE_TIME, b"")) == 4 else "",
    }
