"""A NIC's layout as the files of each network manager: names, modes and bytes. Compared before they are written."""

from __future__ import annotations

from azureinit.facts.link_managers import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, OWN_FROM_NETPLAN, SCRIPTS
from azureinit.facts.network_own import (
    IFUPDOWN_FILE,
    KEYFILE_PREFIX,
    KEYFILES,
    MANA_PREFIX,
    NETPLAN_FILE,
    NETWORKD_DIR,
    NETWORKD_PREFIX,
    NETWORKD_RUNTIME,
    SCRIPT_MARK,
    SCRIPTS_DIR,
)
from azureinit.plan.network_layout import file_key
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azureinit.plan.network_layout import Layout

SYNTHETIC, MANA = "hv_netvsc", "mana"
NAMESPACE = "7b0a9d0e-5d3f-5c0b-9a55-3a1d0f1c7e21"  # of the UUIDs of NetworkManager's profiles


class File(Record):
    path: str
    data: bytes
    mode: int = 0o644


def files_of(manager: str, layouts: Sequence[Layout]) -> tuple[File, ...]:
    """The files for these NICs. NICs that the packaged defaults configure have none."""
    needed = [layout for layout in layouts if not layout.is_default]
    if not needed:
        return ()
    if manager == NETPLAN:
        return (File(path=NETPLAN_FILE, data=netplan(needed).encode(), mode=0o600),)
    if manager == IFUPDOWN:
        return (File(path=IFUPDOWN_FILE, data=ifupdown(needed).encode()),)
    if manager == SCRIPTS:
        return tuple(file for layout in needed for file in scripts(layout))
    if manager == NETWORK_MANAGER:
        return tuple(
            File(
                path=keyfile_path(one.mac),
                data=keyfile(one).encode(),
                mode=0o600,
            )
            for one in needed
        )
    return tuple(File(path=networkd_path(one), data=networkd(one).encode()) for one in needed)


def runtime_file(layout: Layout, *, loaded: str) -> File:
    """The same as a networkd file, for this boot alone: netplan's own file counts from the next one on.

    `loaded`: the file by which networkd has the link. One that netplan made of azure-init's file when the machine
    started precedes any other name, and is replaced.
    """
    generated = loaded.startswith(f"{NETWORKD_RUNTIME}/{OWN_FROM_NETPLAN}")
    path = loaded if generated else networkd_path(layout, NETWORKD_RUNTIME)
    return File(path=path, data=networkd(layout).encode())


def networkd_path(layout: Layout, directory: str = NETWORKD_DIR) -> str:
    if layout.driver == MANA:  # without a synthetic twin: only a file of this prefix precedes the one for VFs
        return f"{NETWORKD_RUNTIME}/{MANA_PREFIX}{file_key(layout.mac)}.network"
    return f"{directory}/{NETWORKD_PREFIX}{file_key(layout.mac)}.network"


# How the file of a NIC other than the primary shows itself: the lease's DNS servers are not used.
WITHOUT_DNS = {NETWORKD: b"UseDNS=no\n", NETWORK_MANAGER: b"ignore-auto-dns=true\n", NETPLAN: b"use-dns: false"}


def is_without_dns(manager: str, layout: Layout, files: Mapping[str, bytes]) -> bool:
    """Whether the manager's present file for this NIC is one of a NIC other than the primary."""
    paths = {NETWORKD: networkd_path(layout), NETWORK_MANAGER: keyfile_path(layout.mac), NETPLAN: NETPLAN_FILE}
    data = files.get(paths.get(manager, ""), b"")
    if manager == NETPLAN:  # one file for all NICs
        data = data.partition(f" azure-init-{file_key(layout.mac)}:\n".encode())[2].partition(b" azure-init-")[0]
    return manager in WITHOUT_DNS and WITHOUT_DNS[manager] in data


def keyfile_path(mac: str) -> str:
    return f"{KEYFILES}/{KEYFILE_PREFIX}{file_key(mac)}.nmconnection"


# ---- systemd-networkd


def networkd(layout: Layout) -> str:
    match = [f"MACAddress={layout.mac}", *([f"Driver={layout.driver}"] if layout.driver in (SYNTHETIC, MANA) else [])]
    dhcp = "yes" if layout.primary or layout.ipv6 else "ipv4"
    addresses = [f"Address={one}/32" for one in layout.secondary]
    # Azure's DNS server is the wireserver: a route to it must not come from the list of DNS servers.
    dns = ["RoutesToDNS=no"] if layout.primary else ["UseDNS=no", "UseDomains=no"]
    sections = [
        ("Match", match),
        ("Network", [f"DHCP={dhcp}", *addresses]),
        # The kernel takes none of them as the source of a packet, unless a program asks for it.
        *(("Address", [f"Address={one}/128", "PreferredLifetime=0"]) for one in layout.secondary6),
        ("DHCPv4", ["ClientIdentifier=mac", f"RouteMetric={layout.metric}", *dns]),
    ]
    if layout.ipv6:
        unused = [] if layout.primary else ["UseDNS=no"]
        sections.append(("IPv6AcceptRA", [f"RouteMetric={layout.metric}", *unused]))
    if layout.table:
        gateway = "_dhcp4" if layout.has_router else layout.gateway
        if gateway:
            sections.append(("Route", [f"Gateway={gateway}", f"Table={layout.table}"]))
        if layout.subnet:
            sections.append(("Route", [f"Destination={layout.subnet}", "Scope=link", f"Table={layout.table}"]))
        if layout.gateway6:  # whichever router announces itself
            sections.append(("Route", ["Gateway=_ipv6ra", f"Table={layout.table}"]))
        where = [f"Table={layout.table}", f"Priority={layout.table}"]
        sections += [("RoutingPolicyRule", [f"From={source}", *where]) for source in _sources(layout)]
    return "\n".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections)


def _sources(layout: Layout) -> list[str]:
    return [f"{one}/32" for one in layout.sources] + [f"{one}/128" for one in layout.sources6]


# ---- netplan


def netplan(layouts: Sequence[Layout]) -> str:
    """For its renderer networkd; with the other one NetworkManager gets a profile."""
    lines = ["network:", "  version: 2", "  ethernets:"]
    for layout in layouts:
        driver = f", driver: {SYNTHETIC}" if layout.driver == SYNTHETIC else ""
        # netplan compares the permanent MAC address, which a container's link has not.
        match = f'macaddress: "{layout.mac}"{driver}' if layout.driver else f"name: {layout.name}"
        overrides = f"{{route-metric: {layout.metric}" + ("" if layout.primary else ", use-dns: false") + "}"
        lines += [
            f"    azure-init-{file_key(layout.mac)}:",
            f"      match: {{{match}}}",
            "      dhcp4: true",
            "      dhcp-identifier: mac",
            f"      dhcp4-overrides: {overrides}",
        ]
        if layout.ipv6:  # networkd refuses overrides that differ between the two
            lines += ["      dhcp6: true", f"      dhcp6-overrides: {overrides}"]
        addresses = [f"{one}/32" for one in layout.secondary]
        addresses += [f'{{"{one}/128": {{lifetime: 0}}}}' for one in layout.secondary6]
        if addresses:
            lines.append(f"      addresses: [{', '.join(addresses)}]")
        if not layout.table:
            continue
        routes = _routes(layout)
        if routes:
            lines.append("      routes:")
            lines += [f"        - {{{route}, table: {layout.table}}}" for route in routes]
        lines.append("      routing-policy:")
        rule = f"table: {layout.table}, priority: {layout.table}"
        lines += [f"        - {{from: {_yaml(source)}, {rule}}}" for source in _sources(layout)]
    return "".join(f"{line}\n" for line in lines)


def _routes(layout: Layout) -> list[str]:
    routes = [f"to: default, via: {layout.gateway}"] if layout.gateway else []
    routes += [f"to: {layout.subnet}, scope: link"] if layout.subnet else []
    return [*routes, f'to: "::/0", via: "{layout.gateway6}"'] if layout.gateway6 else routes


def _yaml(source: str) -> str:
    return f'"{source}"' if ":" in source else source


# ---- NetworkManager


def keyfile(layout: Layout) -> str:
    lines = [
        "[connection]",
        f"id=azure-init {layout.mac}",
        f"uuid={profile_uuid(layout.mac)}",
        "type=ethernet",
        "autoconnect-priority=-10",
        "",
        "[ethernet]",
        f"mac-address={layout.mac.upper()}",
        "",
        "[ipv4]",
        "method=auto",
        f"route-metric={layout.metric}",
        *([] if layout.primary else ["ignore-auto-dns=true"]),
        *(f"address{number}={one}/32" for number, one in enumerate(layout.secondary, 1)),
    ]
    if layout.table:
        routes = [f"0.0.0.0/0,{layout.gateway}"] if layout.gateway else []
        routes += [layout.subnet] if layout.subnet else []
        lines += _keyfile_routes(layout, routes)
        lines += _keyfile_rules(layout, layout.sources, 32)
    lines += ["", "[ipv6]", "method=auto"]
    if not layout.primary and layout.ipv6:
        lines += [f"route-metric={layout.metric}", "ignore-auto-dns=true"]
    lines += [f"address{number}={one}/128" for number, one in enumerate(layout.secondary6, 1)]
    if layout.gateway6:  # not `route-table`, which would take the routes out of the main table
        lines += _keyfile_routes(layout, [f"::/0,{layout.gateway6}"])
    if layout.table:
        lines += _keyfile_rules(layout, layout.sources6, 128)
    return "".join(f"{line}\n" for line in lines)


def profile_uuid(mac: str) -> str:
    """A UUID of version 5: always the same for one NIC."""
    from hashlib import sha1

    named = bytes.fromhex(NAMESPACE.replace("-", "")) + mac.encode()
    octets = bytearray(sha1(named, usedforsecurity=False).digest()[:16])
    octets[6], octets[8] = octets[6] & 0x0F | 0x50, octets[8] & 0x3F | 0x80
    digits = octets.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _keyfile_routes(layout: Layout, routes: Sequence[str]) -> list[str]:
    return [
        line
        for number, route in enumerate(routes, 1)
        for line in (f"route{number}={route}", f"route{number}_options=table={layout.table}")
    ]


def _keyfile_rules(layout: Layout, sources: tuple[str, ...], prefix: int) -> list[str]:
    return [
        f"routing-rule{number}=priority {layout.table} from {one}/{prefix} table {layout.table}"
        for number, one in enumerate(sources, 1)
    ]


# ---- ifupdown


def ifupdown(layouts: Sequence[Layout]) -> str:
    stanzas = []
    for layout in layouts:
        name, table = layout.name, layout.table
        lines = [f"allow-hotplug {name}", f"iface {name} inet dhcp", f"    metric {layout.metric}"]
        lines += [f"    up ip address add {one}/32 dev {name} || true" for one in layout.secondary]
        if table and layout.subnet:
            lines.append(f"    up ip route replace {layout.subnet} dev {name} table {table}")
            lines.append(f"    up ip route replace default via {layout.gateway} dev {name} table {table}")
        lines += _ifupdown_rules("ip rule", [f"{one}/32" for one in layout.sources], table)
        if (
            layout.ipv6
        ):  # in a stanza of its own: when dhclient starts for IPv6, it removes the IPv6 addresses of the link
            lines.append(f"iface {name} inet6 dhcp")
            lines += [
                f"    up ip -6 address add {one}/128 dev {name} preferred_lft 0 || true" for one in layout.secondary6
            ]
            if layout.gateway6:
                lines.append(f"    up ip -6 route replace default via {layout.gateway6} dev {name} table {table}")
            lines += _ifupdown_rules("ip -6 rule", [f"{one}/128" for one in layout.sources6], table)
        stanzas.append("".join(f"{line}\n" for line in lines))
    return "\n".join(stanzas)


def _ifupdown_rules(command: str, sources: Sequence[str], table: int) -> list[str]:
    which = [f"from {source} lookup {table} priority {table} || true" for source in sources]
    return [line for one in which for line in (f"    up {command} add {one}", f"    down {command} del {one}")]


# ---- network-scripts


def scripts(layout: Layout) -> tuple[File, ...]:
    name, table = layout.name, layout.table
    lines = [
        f"DEVICE={name}", f"HWADDR={layout.mac}", "BOOTPROTO=dhcp", "ONBOOT=yes", "TYPE=Ethernet", "NM_CONTROLLED=no",
        f"METRIC={layout.metric}", *([] if layout.primary else ["PEERDNS=no"]),
    ]  # fmt: skip
    if layout.ipv6:
        lines += ["IPV6INIT=yes", "DHCPV6C=yes"]
        more = " ".join(f"{one}/128" for one in layout.secondary6)
        lines += [f'IPV6ADDR_SECONDARIES="{more}"'] if more else []
    made = [File(path=f"{SCRIPTS_DIR}/ifcfg-{name}", data=_text(lines))]
    # IPADDR in the file above would be ignored beside BOOTPROTO=dhcp: each address is an alias of the link.
    for number, one in enumerate(layout.secondary, 1):
        alias = f"{name}:a{number}"
        lines = [f"DEVICE={alias}", f"IPADDR={one}", "PREFIX=32", "ONPARENT=yes", "ARPCHECK=no", "NO_ALIASROUTING=yes"]
        made.append(File(path=f"{SCRIPTS_DIR}/ifcfg-{alias}", data=_text([*lines, "IPV6INIT=no"])))
    if table:
        routes = [f"default via {layout.gateway} dev {name} table {table}"] if layout.gateway else []
        routes += [f"{layout.subnet} dev {name} table {table}"] if layout.subnet else []
        rules = [f"from {one}/32 lookup {table} priority {table}" for one in layout.sources]
        made += [File(path=f"{SCRIPTS_DIR}/route-{name}", data=_text(routes))] if routes else []
        made += [File(path=f"{SCRIPTS_DIR}/rule-{name}", data=_text(rules))] if rules else []
        routes6 = [f"default via {layout.gateway6} dev {name} table {table}"] if layout.gateway6 else []
        made += [File(path=f"{SCRIPTS_DIR}/route6-{name}", data=_text(routes6))] if routes6 else []
        rules6 = [f"from {one}/128 lookup {table} priority {table}" for one in layout.sources6]
        made += [File(path=f"{SCRIPTS_DIR}/rule6-{name}", data=_text(rules6))] if rules6 else []
    return tuple(made)


def _text(lines: Sequence[str]) -> bytes:
    return SCRIPT_MARK + "".join(f"{line}\n" for line in lines).encode()
