"""Which NICs azure-init configures, with their layouts, and why it leaves others alone. Pure."""

from __future__ import annotations

from azureinit.backends.network_files import is_without_dns
from azureinit.facts.diagnosis import SYNTHETIC
from azureinit.facts.link_managers import DHCPCD, IFUPDOWN, NETPLAN, WICKED
from azureinit.facts.network_own import IFUPDOWN_FILE, NETPLAN_FILE
from azureinit.plan.actions import Caution
from azureinit.plan.network_layout import METRIC, first_address, lay_out, nic_states
from azureinit.plan.network_record import Asked, Placed, known_addresses
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.config.model import Network
    from azureinit.facts.nics import NicFacts
    from azureinit.plan.actions import Item
    from azureinit.plan.network_layout import Layout
    from azureinit.sources.network_metadata import Nic

NAME = "network"
UNSUPPORTED = {
    WICKED: "wicked configures it, and azure-init writes nothing for wicked",
    DHCPCD: "dhcpcd configures it, and azure-init writes nothing for dhcpcd",
    "": "no network manager that azure-init knows configures it",
}


def layouts_of(asked: Asked, primary: str) -> tuple[tuple[Placed, ...], tuple[Item, ...]]:
    """Those that azure-init configures, and why it leaves others alone."""
    by_mac = {nic.link.mac: nic for nic in asked.nics.nics}
    metric = by_mac[primary].metric if primary in by_mac else None
    # A primary that other configuration gives a high metric stays the default route.
    base = metric if metric is not None and metric >= 2 * METRIC else METRIC
    wanted = [_bounded(_given_first(nic, by_mac.get(nic.mac)), asked.config) for nic in asked.answer.nics]
    placed: list[Placed] = []
    cautions: list[Item] = []
    for each in lay_out(wanted, nic_states(asked.nics), primary=primary, base=base):
        nic = by_mac[each.mac]
        layout = replace(each, promoted=True) if each.primary and _is_promoted(asked, each, nic) else each
        if layout.is_default or not (layout.primary or asked.config.secondary_nics):
            continue
        why = _refusal(nic) or _names_gateway(asked, layout) or _held_elsewhere(asked, layout)
        if why:
            lacks = [*layout.secondary, *layout.secondary6, *(() if layout.primary else ("policy routing",))]
            cautions.append(Caution(name=NAME, why=f"{layout.name} stays without {', '.join(lacks)}: {why}"))
            continue
        placed.append(Placed(layout=layout, nic=nic, manager=nic.holder.manager))
        if layout.sources and not layout.subnet:
            told = f"IMDS gives no IPv4 subnet of {layout.name}: table {layout.table} has no route to it"
            cautions.append(Caution(name=NAME, why=told))
    return tuple(placed), tuple(cautions)


def _is_promoted(asked: Asked, layout: Layout, nic: NicFacts) -> bool:
    """The primary was another NIC when this one's file was written: it has no DNS servers and a high metric."""
    manager, files = nic.holder.manager, asked.nics.files
    return is_without_dns(manager, layout, files) and not (manager == NETPLAN and is_shared(asked, NETPLAN_FILE))


def _given_first(nic: Nic, here: NicFacts | None) -> Nic:
    """The address of the lease is the one that DHCP gives, wherever IMDS lists it."""
    if here is None or here.given not in nic.ipv4[1:]:
        return nic
    return replace(nic, ipv4=(here.given, *sorted({*nic.ipv4} - {here.given})))


def _bounded(nic: Nic, config: Network) -> Nic:
    return nic if config.secondary_addresses else replace(nic, ipv4=nic.ipv4[:1], ipv6=nic.ipv6[:1])


def _refusal(nic: NicFacts) -> str:
    holder = nic.holder
    if holder.foreign:
        return f"{holder.foreign} configures it"
    if holder.manager == IFUPDOWN and not holder.reads:
        return "/etc/network/interfaces does not read /etc/network/interfaces.d"
    return UNSUPPORTED.get(holder.manager, "")


def _names_gateway(asked: Asked, layout: Layout) -> str:
    """A gateway's address on a link of this machine would take the machine off the network."""
    gateways = {*asked.nics.gateways, *(first_address(nic.subnet) for nic in asked.answer.nics)}
    found = sorted(gateways.intersection((*layout.sources, *layout.sources6, *layout.secondary, *layout.secondary6)))
    return f"{', '.join(found)} is the address of a gateway" if found else ""


def _held_elsewhere(asked: Asked, layout: Layout) -> str:
    """An address that another link has, and not from azure-init: its traffic would leave by this one."""
    record = asked.kept.record
    wanted = {*layout.sources, *layout.sources6, *layout.secondary, *layout.secondary6}
    for nic in asked.nics.nics:
        mac = nic.link.mac
        own = {*record.files.get(mac, ()), *record.addresses.get(mac, ())} - {nic.given}
        held = sorted(wanted & {*nic.addresses} - own)
        if held and mac != layout.mac:
            return f"{nic.link.name} has {', '.join(held)}"
    return ""


def is_shared(asked: Asked, path: str) -> bool:
    """A file for several NICs that stays: one link is not here, and it could only be written without that NIC."""
    return path in (NETPLAN_FILE, IFUPDOWN_FILE) and path in asked.nics.files and is_link_missing(asked)


def is_link_missing(asked: Asked) -> bool:
    here = {nic.link.mac for nic in asked.nics.nics}
    return any(mac in known_addresses(asked) and mac not in here for mac in asked.kept.record.files)


def strangers(asked: Asked) -> Iterator[Item]:
    """NICs that only this machine, or only IMDS, knows."""
    listed = {nic.mac for nic in asked.answer.nics}
    here = {link.mac for link in (*(nic.link for nic in asked.nics.nics), *asked.nics.members)}
    for nic in asked.nics.nics:
        if nic.link.mac not in listed and nic.link.driver == SYNTHETIC:
            lacks = "has no usable entry for" if asked.answer.refused else "does not list"
            yield Caution(name=NAME, why=f"IMDS {lacks} {nic.link.name} ({nic.link.mac}): it keeps its defaults")
    for mac in sorted(listed - here):
        yield Caution(name=NAME, why=f"no link has the MAC address {mac}, which IMDS lists")
