"""The network part of IMDS's document -> one record for each NIC. A mistake in one entry spoils no other.

The order of the entries means nothing: it changes from boot to boot. Public addresses are never the guest's.
"""

from __future__ import annotations

from azureinit.addresses import is_host_address, is_of_platform
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.http import Observe
    from azureinit.machine import Clock

HEX = frozenset("0123456789abcdef")
DIGITS = frozenset("0123456789abcdefABCDEF:.")
LONGEST_PREFIX = 30  # of a subnet with a gateway and a NIC; Azure's own limit is 29
MOST_NICS, MOST_ADDRESSES = 64, 512  # Azure allows 8 and 256
SHOWN = 40
VERSION = "2021-08-01"


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
    refused: int = 0  # entries that are not in `nics`; which NICs they describe may not be known


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
    nics = _without_shared(found, warnings)
    return NetworkMetadata(nics=nics, warnings=tuple(warnings), refused=len(entries) - len(nics))


def _without_shared(found: dict[str, Nic], warnings: list[str]) -> tuple[Nic, ...]:
    """An address has one NIC. Where two list it, both are doubtful: its traffic would leave by the wrong one."""
    owner: dict[str, str] = {}
    doubtful: set[str] = set()
    for nic in found.values():
        for address in (*nic.ipv4, *nic.ipv6):
            other = owner.setdefault(address, nic.mac)
            if other != nic.mac:
                told = f"network interfaces {other} and {nic.mac} both have {address}: they keep their defaults"
                warnings.append(told)
                doubtful |= {other, nic.mac}
    return tuple(nic for nic in found.values() if nic.mac not in doubtful)


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
    return Nic(mac=mac, ipv4=_rest_sorted(ipv4), ipv6=_rest_sorted(ipv6), subnet=subnet)


def _rest_sorted(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """The first one is the one that DHCP gives. IMDS keeps no order, and another order must not rewrite a file."""
    return (*addresses[:1], *sorted(addresses[1:]))


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
            warnings.append(f"{where}: an address is left out, because no NIC can have it ({_shown(given)})")
        elif address not in addresses:
            addresses.append(address)
    if len(value["ipAddress"]) > MOST_ADDRESSES:
        warnings.append(f"{where} has more than {MOST_ADDRESSES} addresses: the others are not used")
    if family == 6:
        return tuple(addresses), ""
    subnet = _subnet(value.get("subnet"), addresses[:1], where)
    reserved = _reserved(subnet)
    warnings += [f"{where}: {one} is left out: Azure reserves it in {subnet}" for one in addresses if one in reserved]
    return tuple(address for address in addresses if address not in reserved), subnet


def _address(value: object, family: int) -> str | None:
    """None for what is no address of a NIC in a virtual network. A scope ("%eth0") may be any text: it is none, too."""
    from ipaddress import ip_address

    text = value.strip() if isinstance(value, str) else ""
    try:
        found = ip_address(text) if DIGITS.issuperset(text) else None
    except ValueError:
        return None
    if found is None or found.version != family or is_of_platform(found.packed):
        return None
    usable = is_host_address(str(found)) if family == 4 else not (found.is_multicast or found.is_reserved)
    return str(found) if usable else None


def _subnet(value: Any, first: list[str], where: str) -> str:
    """The one that has the first address; empty where address or prefix is missing."""
    from ipaddress import IPv4Address, IPv4Network

    entries = value if isinstance(value, list) else []
    given = [(one.get("address"), one.get("prefix")) for one in entries if isinstance(one, dict)]
    given = [pair for pair in given if None not in pair and "" not in pair]
    for address, prefix in given:
        try:
            subnet = IPv4Network(f"{str(address).strip()}/{int(str(prefix))}", strict=False)
        except ValueError:
            continue
        if 0 < subnet.prefixlen <= LONGEST_PREFIX and all(IPv4Address(one) in subnet for one in first):
            return str(subnet)
    if given:
        told = f"{_shown(given[0][0])}/{_shown(given[0][1])}"
        raise ValueError(f"{where} has the subnet {told}, which is none of {first[0] if first else 'a NIC'}")
    return ""


def _reserved(subnet: str) -> set[str]:
    """The network itself, Azure's gateway, and the broadcast address."""
    if not subnet:
        return set()
    from ipaddress import IPv4Network

    network = IPv4Network(subnet)
    return {str(network[0]), str(network[1]), str(network[-1])}


def _shown(value: object) -> str:
    text = "nothing" if value is None else f'"{value}"' if isinstance(value, str) else type(value).__name__
    return ascii(text[:SHOWN])[1:-1]


def query_network(
    config: Config, *, clock: Clock, deadline: float, observe: Observe | None = None, attempts: int = 0
) -> NetworkMetadata:
    """Ask IMDS for this part alone. Raises ImdsUnavailable where there is no usable answer until the deadline, or after
    that many attempts."""
    from azureinit.errors import HttpFailed
    from azureinit.http import send
    from azureinit.sources.imds import MAX_BODY, imds_headers, imds_policy, parse_json, unavailable

    found: list[NetworkMetadata] = []
    try:
        send(
            "GET",
            f"{config.imds.endpoint.rstrip('/')}/metadata/instance/network?api-version={VERSION}",
            headers=imds_headers(),
            retry=replace(imds_policy(config, at_once=()), attempts=attempts),
            deadline=deadline,
            clock=clock,
            accept=lambda response: found.append(parse_network(parse_json(response.body))),
            observe=observe,
            limit=MAX_BODY,
        )
    except HttpFailed as error:
        raise unavailable(config, error, "") from error
    return found[-1]
