"""The NICs of this machine, from sysfs: which links are NICs, what their leases say, and which program configures each.

A virtual function has the MAC address of its synthetic NIC and is none itself: judged by the MAC address, not by the
driver, because a NIC of the same driver may have no synthetic twin.
"""

from __future__ import annotations

import errno

from azureinit.addresses import IMDS, WIRESERVER
from azureinit.errors import LocalError
from azureinit.facts.diagnosis import INSIDE, SYNTHETIC, way_to
from azureinit.facts.leases import read_standing
from azureinit.facts.link_managers import read_cloud_netconfig, read_holder
from azureinit.facts.network_own import MANA_PREFIX, NETWORKD_RUNTIME, read_own_files
from azureinit.machine.netlink import MAIN_TABLE
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.facts.link_managers import Holder
    from azureinit.machine import Machine
    from azureinit.machine.netlink import Address, Route
    from azureinit.machine.network_changes import Rule

LINKS = "/sys/class/net"
MANA = "mana"
ETHERNET = "1"  # ARPHRD_ETHER; InfiniBand, 32, has the drivers of virtual functions
GOING = (errno.EINVAL, errno.ENODEV)  # sysfs's answer for a link that is being removed
TOOLS = ("networkctl", "nmcli", "ifup", "ifdown")


class NicLink(Record):
    name: str
    index: int
    mac: str
    driver: str  # empty for a container's link


class NicFacts(Record):
    link: NicLink
    holder: Holder  # the program that configures it
    leased: bool = False
    to_platform: bool = False  # its lease has a route to the wireserver or to IMDS
    router: str = ""  # of its lease
    given: str = ""  # the address of its lease
    addresses: tuple[str, ...] = ()  # without prefix
    metric: int | None = None  # of its best IPv4 default route


class Nics(Record):
    nics: tuple[NicFacts, ...]
    problems: tuple[str, ...] = ()
    # The link by which the kernel reaches both IMDS and the wireserver; empty where it is not one.
    platform: str = ""
    wireserver: str = ""  # the link by which the kernel reaches the wireserver
    members: tuple[NicLink, ...] = ()  # NICs that belong to a bridge, bond or VRF, whose addresses are not theirs
    gateways: frozenset[str] = frozenset()  # of the kernel's default routes and of the leases
    rules: tuple[Rule, ...] = ()
    files: Mapping[str, bytes] = {}  # azure-init's own network configuration, by path
    cloud_netconfig: str = ""  # where SUSE's own agent for Azure's network is installed
    tools: frozenset[str] = frozenset()
    live: bool = True  # False under --root: the kernel and its managers are not the tree's


def read_nic_links(machine: Machine) -> tuple[NicLink, ...]:
    """Cards, without virtual functions and without members of a bond or bridge; in a container its own links."""
    return tuple(link for link in _read_cards(machine) if not _is_member(machine, link))


def _is_member(machine: Machine, link: NicLink) -> bool:
    return machine.read_link(f"{LINKS}/{link.name}/master") is not None


def _read_cards(machine: Machine) -> list[NicLink]:
    every = [link for name in machine.names(LINKS) or () if name != "lo" and (link := _link(machine, name)) is not None]
    cards = [link for link in every if link.driver]
    synthetic = {link.mac for link in cards if link.driver == SYNTHETIC}
    found = [link for link in cards if link.driver == SYNTHETIC or link.mac not in synthetic]
    if not cards and not machine.rooted:
        inside = {link.name for link in machine.read_links() if link.kind in INSIDE}
        found = [link for link in every if link.name in inside]
    return found


def _link(machine: Machine, name: str) -> NicLink | None:
    index, mac = _attribute(machine, name, "ifindex"), _attribute(machine, name, "address").lower()
    if _attribute(machine, name, "type") != ETHERNET or not index.isdigit() or not mac.strip("0:"):
        return None
    driver = (machine.read_link(f"{LINKS}/{name}/device/driver") or "").rpartition("/")[2]
    return NicLink(name=name, index=int(index), mac=mac, driver=driver)


def _attribute(machine: Machine, name: str, attribute: str) -> str:
    try:
        data = machine.read(f"{LINKS}/{name}/{attribute}", limit=64)
    except LocalError as error:
        if error.errno not in GOING:
            raise
        data = None
    return (data or b"").decode("ascii", "replace").strip()


class LoneNic(Record):
    """A NIC with the driver of a virtual function and no synthetic twin: the packaged rules keep it unmanaged."""

    link: NicLink
    file: bool  # systemd-networkd has a file for it
    networkd: bool  # runs
    tools: frozenset[str] = frozenset()


def read_lone_nics(machine: Machine) -> tuple[LoneNic, ...]:
    tools = frozenset(tool for tool in ("udevadm", "networkctl") if machine.find(tool))
    return tuple(
        LoneNic(
            link=link,
            file=machine.stat(f"{NETWORKD_RUNTIME}/{MANA_PREFIX}{link.mac.replace(':', '')}.network") is not None,
            networkd=machine.is_dir("/run/systemd/netif"),
            tools=tools,
        )
        for link in read_nic_links(machine)
        if link.driver == MANA
    )


def has_several_nics(machine: Machine) -> bool:
    return len({link.mac for link in read_nic_links(machine)}) > 1


def read_nics(machine: Machine) -> Nics:
    live = not machine.rooted
    addresses = machine.read_addresses() if live else ()
    routes = machine.read_routes() if live else ()
    cards = _read_cards(machine)
    members = tuple(link for link in cards if _is_member(machine, link))
    found = [_read_nic(machine, link, addresses, routes) for link in cards if link not in members]
    nics, problems = _without_twins(found)
    defaults = [route.gateway for route in routes if not route.prefix]
    return Nics(
        nics=nics,
        problems=problems,
        platform=_platform_link(nics, routes),
        wireserver=_link_to(WIRESERVER, nics, routes),
        members=members,
        gateways=frozenset(filter(None, (*defaults, *(nic.router for nic in found)))),
        rules=machine.read_rules() if live else (),
        files=read_own_files(machine),
        cloud_netconfig=read_cloud_netconfig(machine),
        tools=frozenset(tool for tool in TOOLS if live and machine.find(tool)),
        live=live,
    )


def _read_nic(machine: Machine, link: NicLink, addresses: tuple[Address, ...], routes: tuple[Route, ...]) -> NicFacts:
    own = [one for one in addresses if one.index == link.index]
    held = frozenset(one.address for one in own if one.family == 4)
    lease = read_standing(machine, link=link.name, index=link.index, mac=link.mac, held=lambda: held).lease
    hosts = {WIRESERVER, IMDS, *((lease.wireserver,) if lease is not None and lease.wireserver else ())}
    defaults = [
        route.metric
        for route in routes
        if route.index == link.index and route.family == 4 and not route.prefix and route.table == MAIN_TABLE
    ]
    return NicFacts(
        link=link,
        holder=read_holder(machine, name=link.name, index=link.index, mac=link.mac),
        leased=lease is not None,
        to_platform=lease is not None and any(prefix == 32 and host in hosts for host, prefix, _way in lease.routes),
        router=lease.router if lease is not None else "",
        given=lease.address if lease is not None else "",
        addresses=tuple(one.address for one in own),
        metric=min(defaults, default=None),
    )


def _without_twins(found: list[NicFacts]) -> tuple[tuple[NicFacts, ...], tuple[str, ...]]:
    """Two links of one MAC address, none of them synthetic: the one with a lease, if there is exactly one."""
    kept: list[NicFacts] = []
    problems: list[str] = []
    for mac in dict.fromkeys(nic.link.mac for nic in found):
        same = [nic for nic in found if nic.link.mac == mac]
        chosen = same if len(same) == 1 else [nic for nic in same if nic.leased]
        if len(chosen) == 1:
            kept += chosen
        else:
            names = ", ".join(nic.link.name for nic in same)
            problems.append(f"the links {names} have one MAC address, {mac}: none of them is configured")
    return tuple(kept), tuple(problems)


def _platform_link(nics: tuple[NicFacts, ...], routes: tuple[Route, ...]) -> str:
    links = {_link_to(host, nics, routes) for host in (WIRESERVER, IMDS)}
    return links.pop() if len(links) == 1 else ""


def _link_to(host: str, nics: tuple[NicFacts, ...], routes: tuple[Route, ...]) -> str:
    way = way_to(host, routes)
    if way is None or way.type != "unicast":
        return ""
    return next((nic.link.name for nic in nics if nic.link.index == way.index), "")
