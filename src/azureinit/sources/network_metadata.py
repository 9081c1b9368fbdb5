"""The network part of IMDS's document -> one record for each NIC. A mistake in one entry spoils no other.

The order of the entries means nothing: it changes from boot to boot. Public addresses are never the guest's.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEX = frozenset("0123456789abcdef")
MOST_NICS, MOST_ADDRESSES = 64, 512  # Azure allows 8 and 256
SHOWN = 40


class Nic(Record):
    """`ipv4`, `ipv6`: the first address is the one that DHCP gives; the others are secondary."""

    mac: str  # lower case, with colons
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    subnet: str = ""  # of the IPv4 addresses, as in 10.0.1.0/24; empty where IMDS does not give it


class NetworkMetadata(Record):
    nics: tuple[Nic, ...] = ()
    # Entries that could not be used, and parts of others; each says which.
    warnings: tuple[str, ...] = ()


def is_simple(network: object) -> bool:
    """One NIC with one address of each family: DHCP configures everything, and nothing else of it is read."""
    entries = network.get("interface") if isinstance(network, dict) else None
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict):
        return False
    families = [entries[0].get(family) for family in ("ipv4", "ipv6")]
    lists = [family.get("ipAddress") for family in families if isinstance(family, dict)]
    return all(isinstance(found, list) and len(found) <= 1 for found in lists)


def parse_network(network: object) -> NetworkMetadata:
    entries = network.get("interface") if isinstance(network, dict) else None
    if not isinstance(entries, list):
        return NetworkMetadata(warnings=("IMDS gives no list of network interfaces",))
    if not entries:
        return NetworkMetadata(warnings=("IMDS's list of network interfaces is empty",))
    warnings: list[str] = []
    found: dict[str, Nic] = {}
    for number, entry in enumerate(entries[:MOST_NICS]):
        nic = _nic(entry, f"network.interface[{number}]", warnings)
        if nic is not None and nic.mac in found:
            warnings.append(f"network.interface[{number}] has the MAC address of an earlier entry: not used")
        elif nic is not None:
            found[nic.mac] = nic
    if len(entries) > MOST_NICS:
        warnings.append(f"IMDS lists more than {MOST_NICS} network interfaces: the others are not used")
    return NetworkMetadata(nics=tuple(found.values()), warnings=tuple(warnings))


def _nic(entry: object, where: str, warnings: list[str]) -> Nic | None:
    if not isinstance(entry, dict):
        warnings.append(f"{where} is not an object: not used")
        return None
    mac = parse_mac(entry.get("macAddress"))
    if mac is None:
        warnings.append(f"{where} has no MAC address of 12 hexadecimal digits ({_shown(entry.get('macAddress'))})")
        return None
    told = f"network interface {mac}"
    try:
        ipv4, subnet = _family(entry.get("ipv4"), 4, f"{told}: ipv4", warnings)
        ipv6, _subnet = _family(entry.get("ipv6", {"ipAddress": []}), 6, f"{told}: ipv6", warnings)
    except ValueError as error:
        warnings.append(f"{error}: the interface keeps its defaults")
        return None
    return Nic(mac=mac, ipv4=ipv4, ipv6=ipv6, subnet=subnet)


def parse_mac(value: object) -> str | None:
    """Twelve hexadecimal digits, with or without colons; None for anything else."""
    text = value.strip().lower() if isinstance(value, str) else ""
    groups = text.split(":") if ":" in text else [text[at : at + 2] for at in range(0, len(text), 2)]
    valid = len(groups) == 6 and all(len(group) == 2 and HEX.issuperset(group) for group in groups)
    return ":".join(groups) if valid else None


def _family(value: object, family: int, where: str, warnings: list[str]) -> tuple[tuple[str, ...], str]:
    """The addresses and the subnet. ValueError for a subnet that cannot be one: the whole NIC is then doubtful."""
    if not isinstance(value, dict) or not isinstance(value.get("ipAddress"), list):
        warnings.append(f"{where} has no list of addresses")
        return (), ""
    addresses: list[str] = []
    for item in value["ipAddress"][:MOST_ADDRESSES]:
        given = item.get("privateIpAddress") if isinstance(item, dict) else None
        address = _address(given, family)
        if address is None:
            warnings.append(f"{where}: an address is left out, because it is none ({_shown(given)})")
        elif address not in addresses:
            addresses.append(address)
    return tuple(addresses), _subnet(value.get("subnet"), where) if family == 4 else ""


def _address(value: object, family: int) -> str | None:
    from ipaddress import ip_address

    try:
        found = ip_address(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None
    usable = found is not None and found.version == family and not found.is_unspecified and not found.is_multicast
    return str(found) if usable else None


def _subnet(value: Any, where: str) -> str:
    """Of the first subnet; empty where address or prefix is missing."""
    first = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}
    address, prefix = first.get("address"), first.get("prefix")
    if address in (None, "") or prefix in (None, ""):
        return ""
    from ipaddress import IPv4Network

    try:
        return str(IPv4Network(f"{str(address).strip()}/{int(str(prefix))}", strict=False))
    except ValueError:
        raise ValueError(f"{where} has the subnet {_shown(address)}/{_shown(prefix)}, which is none") from None


def _shown(value: object) -> str:
    text = "nothing" if value is None else f'"{value}"' if isinstance(value, str) else type(value).__name__
    return ascii(text[:SHOWN])[1:-1]
