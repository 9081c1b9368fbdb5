"""What each NIC needs beyond DHCP: which one is primary, metrics, routing tables, secondary addresses. Pure.

The primary NIC is the one that leads to the platform: never the first in a list, never the one named eth0.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureinit.facts.nics import NicFacts, Nics
    from azureinit.sources.network_metadata import Nic

METRIC = 100  # of the primary; the others have 200, 300, ... in the order of their MAC addresses
ROUTER6 = "fe80::1234:5678:9abc"  # Azure's IPv6 router, the same behind every NIC; IMDS does not name it
TABLE, MOST_TABLES = 10100, 64  # the tables and priorities of the others: 10101, 10102, ...


class NicState(Record):
    """A NIC of this machine, as facts show it. A virtual function is none: it has the MAC address of its NIC."""

    mac: str
    name: str
    driver: str = ""
    # Its DHCP lease has routes to the platform (option 121): IMDS or the wireserver.
    to_platform: bool = False
    # The kernel's best route to the wireserver leaves by it, and the wireserver has answered.
    answered: bool = False
    router: str = ""  # of its lease


class Layout(Record):
    """What a NIC is to have besides the address that DHCP gives it."""

    mac: str
    name: str
    driver: str
    primary: bool
    metric: int
    table: int = 0  # 0: the main table, and no rules
    secondary: tuple[str, ...] = ()  # IPv4, without prefix
    secondary6: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # the IPv4 addresses whose traffic leaves by this NIC
    sources6: tuple[str, ...] = ()
    subnet: str = ""
    gateway: str = ""  # the subnet's first address
    has_router: bool = True  # its lease gives one
    ipv6: bool = False
    gateway6: str = ""  # of its own table
    promoted: bool = False  # the primary now; its manager has loaded the file of a NIC that was not

    @property
    def is_default(self) -> bool:
        """The packaged defaults do the same."""
        return self.primary and not (self.secondary or self.secondary6 or self.promoted)


def nic_states(nics: Nics) -> tuple[NicState, ...]:
    return tuple(
        NicState(
            mac=nic.link.mac,
            name=nic.link.name,
            driver=nic.link.driver,
            to_platform=nic.to_platform,
            # IMDS's answer came this way. A NIC without an address yet may be the primary one: then it proves nothing.
            answered=nic.link.name == nics.platform and all(map(_has_ipv4, nics.nics)),
            # Without a lease yet the router is not known to be missing.
            router=nic.router or ("" if nic.leased else "not known"),
        )
        for nic in nics.nics
    )


def _has_ipv4(nic: NicFacts) -> bool:
    return nic.leased or any(":" not in address for address in nic.addresses)


class Choice(Record):
    primary: str = ""  # the MAC address; empty where it is not certain
    why: str = ""


def choose_primary(states: Sequence[NicState], *, members: Sequence[str] = ()) -> Choice:
    """`members`: the names of NICs that belong to a bridge or bond. One of them may be the primary."""
    routed = [state for state in states if state.to_platform]
    if len(routed) == 1:
        return Choice(primary=routed[0].mac, why=f"the lease of {routed[0].name} has routes to the platform")
    if len(states) == 1 and not members:
        return Choice(primary=states[0].mac, why=f"{states[0].name} is the only one")
    answered = [state for state in states if state.answered]
    if not routed and len(answered) == 1:
        return Choice(primary=answered[0].mac, why=f"the wireserver answers by {answered[0].name}")
    names = ", ".join(state.name for state in routed)
    evidence = f"the leases of {names} have routes to the platform" if routed else "no lease has routes to the platform"
    evidence += f", {', '.join(members)} may lead there as a member of a bridge or bond" if members else ""
    return Choice(why=f"{evidence}, and the wireserver answers by {_named(answered)}")


def primary_of(nics: Nics) -> Choice:
    return choose_primary(nic_states(nics), members=[link.name for link in nics.members])


def _named(states: Sequence[NicState]) -> str:
    return ", ".join(state.name for state in states) or "none of them"


def lay_out(nics: Sequence[Nic], states: Sequence[NicState], *, primary: str, base: int = METRIC) -> tuple[Layout, ...]:
    """One for each NIC that both IMDS and this machine have, the primary first, the others by MAC address.

    `base`: the metric of the primary's routes; those of the others lie above it.
    """
    known = {nic.mac: nic for nic in nics}
    # A NIC without an address keeps the default DHCP. It counts nevertheless, as does one whose link is not here:
    # tables and metrics of the others stay.
    here = sorted((state for state in states if state.mac in known), key=lambda state: state.mac)
    others = sorted(mac for mac in known if mac != primary)
    made = []
    for state in sorted(here, key=lambda state: state.mac != primary):
        nic = known[state.mac]
        if not nic.ipv4 and not nic.ipv6:
            continue
        number = others.index(state.mac) + 1 if state.mac != primary else 0
        made.append(_layout(nic, state, number=number, base=base))
    return tuple(made)


def _layout(nic: Nic, state: NicState, *, number: int, base: int) -> Layout:
    return Layout(
        mac=nic.mac,
        name=state.name,
        driver=state.driver,
        primary=number == 0,
        metric=base + METRIC * number if number else METRIC,
        table=TABLE + number if number else 0,
        secondary=nic.ipv4[1:],
        secondary6=nic.ipv6[1:],
        sources=nic.ipv4 if number else (),
        sources6=nic.ipv6 if number else (),
        subnet=nic.subnet,
        gateway=first_address(nic.subnet),
        has_router=bool(state.router),
        ipv6=bool(nic.ipv6),
        gateway6=ROUTER6 if number and nic.ipv6 else "",
    )


def stale_rules(nics: Nics, listed: Sequence[Nic], layouts: Sequence[Layout]) -> tuple[tuple[str, int, int, int], ...]:
    """Rules of azure-init's range for an address that is gone, or that has another table now: the table in such a rule
    may be another NIC's by now. Rules for a listed NIC that is neither the primary nor in `layouts` stay.

    Each as source, prefix, table, priority.
    """
    by_mac = {nic.mac: {*nic.ipv4, *nic.ipv6} for nic in listed}
    known = {source for each in by_mac.values() for source in each}
    wanted = {(source, one.table) for one in layouts for source in (*one.sources, *one.sources6)}
    decided = {source for source, _table in wanted} | by_mac.get(primary_of(nics).primary, set())
    return tuple(
        (rule.source, rule.prefix, rule.table, rule.priority)
        for rule in nics.rules
        if rule.prefix == (128 if ":" in rule.source else 32)  # one for a network is an administrator's
        and rule.priority == rule.table
        and TABLE < rule.table <= TABLE + MOST_TABLES
        and (rule.source not in known or (rule.source in decided and (rule.source, rule.table) not in wanted))
    )


def first_address(subnet: str) -> str:
    """10.0.2.128/25 -> 10.0.2.129: Azure's gateway of that subnet. Empty without a subnet."""
    if not subnet:
        return ""
    from ipaddress import IPv4Network

    return str(IPv4Network(subnet)[0] + 1)


def file_key(mac: str) -> str:
    return mac.replace(":", "")
