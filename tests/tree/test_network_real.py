"""Links, addresses and routes over netlink, compared with the ip tool: on this machine, and in test networks."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from azureinit.facts.network import network_in_brief, read_network
from azureinit.machine import Machine
from azureinit.machine.kmsg import read_kernel_log
from azureinit.machine.netlink import read_addresses, read_links, read_routes
from support.need import need, need_root, unfit

SRC = Path(__file__).parents[2] / "src"
TABLES = {"main": 254, "local": 255, "default": 253}

# Lays a network in a namespace of its own, then looks at it from in there.
INSIDE = """
set -e
{lay}
exec {python} -c '
import json, sys
from azureinit.facts.diagnosis import diagnosis
from azureinit.facts.network import network_in_brief, read_network
from azureinit.machine import Machine
network = read_network(Machine(root=sys.argv[1]))
parts = {{name: [one.as_dict() for one in getattr(network, name)] for name in ("links", "addresses", "routes")}}
print([diagnosis(network), network_in_brief(network), parts])
' {root}
"""
PAIR = """
ip link set lo up
ip link add eth0 address 00:0d:3a:12:34:56 type veth peer name peer0
ip link add switch0 type bridge
ip link set peer0 master switch0
"""
UP = "ip link set eth0 up; ip link set peer0 up"
ADDRESSED = f"{PAIR} {UP}; ip addr add 10.0.0.4/24 dev eth0"
TO_BOTH = "the default route to 169.254.169.254 and 168.63.129.16"
LEASE = b"ADDRESS=10.0.0.4\nSERVER_ADDRESS=168.63.129.16\nLIFETIME=4294967295\nOPTION_245=a83f8110\n"


def ip(*words: str) -> list[dict[str, Any]]:
    out = subprocess.run([need("ip"), "-j", *words], capture_output=True, check=True, text=True).stdout
    return [row for row in json.loads(out or "[]") if row]


def apart(lay: str, root: Path) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    need_root()
    need("ip")
    if subprocess.run([need("unshare"), "--net", "true"], capture_output=True).returncode:
        unfit("no network namespaces")
    script = INSIDE.format(lay=lay, python=sys.executable, root=root)
    ran = subprocess.run(
        ["unshare", "--net", "sh", "-c", script],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    said, brief, parts = ast.literal_eval(ran.stdout.splitlines()[-1])
    return said, brief, parts


def link_rows(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {
        (
            row["ifindex"],
            row["ifname"],
            row["mtu"],
            row.get("address", "") if row.get("address", "").strip("0:") else "",
            "UP" in row["flags"],
            "LOOPBACK" in row["flags"],
            row["operstate"].lower(),
            row.get("linkinfo", {}).get("info_kind", ""),
        )
        for row in rows
    }


def address_rows(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {
        (row["ifindex"], 4 if one["family"] == "inet" else 6, one["local"], one["prefixlen"], one["scope"])
        for row in rows
        for one in row["addr_info"]
    }


def route_rows(rows: list[dict[str, Any]], names: dict[str, int], *, family: int) -> set[tuple[Any, ...]]:
    """As the kernel tells them, of what the ip tool left out for being the usual."""
    bits = 32 if family == 4 else 128
    found = set()
    for row in rows:
        destination, slash, prefix = row["dst"].partition("/")
        if destination == "default":
            destination, prefix = "0.0.0.0" if family == 4 else "::", "0"
        table = row.get("table", "main")
        for hop in row.get("nexthops", [row]):
            found.add(
                (
                    family,
                    destination,
                    int(prefix) if slash or prefix == "0" else bits,
                    row.get("type", "unicast"),
                    TABLES.get(table) or int(table),
                    names.get(hop.get("dev", ""), 0),
                    hop.get("gateway", hop.get("via", {}).get("host", "")),
                    row.get("metric", 0),
                )
            )
    return found


ROUTE = ("family", "destination", "prefix", "type", "table", "index", "gateway", "metric")
LINK = ("index", "name", "mtu", "mac", "up", "loopback", "state", "kind")
ADDRESS = ("index", "family", "address", "prefix", "scope")


def picked(rows: list[dict[str, Any]], fields: tuple[str, ...]) -> set[tuple[Any, ...]]:
    return {tuple(row[field] for field in fields) for row in rows}


def test_this_machine_s_links_addresses_and_routes_are_those_the_ip_tool_shows() -> None:
    links = ip("-d", "link")
    names = {row["ifname"]: row["ifindex"] for row in links}
    assert picked([one.as_dict() for one in read_links()], LINK) == link_rows(links)
    assert picked([one.as_dict() for one in read_addresses()], ADDRESS) == address_rows(ip("addr"))
    routes = [
        *route_rows(ip("-4", "route", "show", "table", "all"), names, family=4),
        *route_rows(ip("-6", "route", "show", "table", "all"), names, family=6),
    ]
    assert picked([one.as_dict() for one in read_routes()], ROUTE) == set(routes)


def test_a_network_with_all_there_is_reads_as_the_ip_tool_shows_it(tmp_path: Path) -> None:
    lay = f"""{PAIR}
    ip link add other0 type veth peer name other1
    ip addr add 10.0.0.4/24 dev eth0
    ip addr add 10.5.0.4 peer 10.5.0.9/32 dev eth0
    ip addr add fd00:1::4/64 dev eth0 nodad
    for link in eth0 peer0 switch0; do ip link set $link up; done
    for n in $(seq 200); do  # a bridge takes its time, and so does IPv6
        ip -o link show up | grep -v LOOPBACK | grep -qv "state UP" || [ "$(ip -o -6 addr show tentative)" ] || break
        sleep 0.02
    done
    ip route add default via 10.0.0.1
    ip route add default via 10.0.0.2 metric 300
    ip route add 10.9.0.0/16 via 10.0.0.1 dev eth0 table 1234
    ip route add 10.8.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0 weight 3
    ip route add 10.7.0.0/16 via inet6 fd00:1::1 dev eth0
    ip route add blackhole 10.6.0.0/16
    ip -6 route add fd00:2::/48 via fd00:1::1 dev eth0
    ip -6 route add fd00:3::/48 nexthop via fd00:1::1 dev eth0 nexthop via fd00:1::2 dev eth0
    ip -6 route add unreachable fd00:4::/48
    {{ ip -j -d link; ip -j addr; ip -j -4 route show table all; ip -j -6 route show table all; }} >{tmp_path}/ip
    """
    _said, _brief, parts = apart(lay, tmp_path)
    links, addresses, routes4, routes6 = map(json.loads, (tmp_path / "ip").read_text().splitlines())
    names = {row["ifname"]: row["ifindex"] for row in links}
    assert picked(parts["links"], LINK) == link_rows(links)
    assert picked(parts["addresses"], ADDRESS) == address_rows(addresses)
    expected = route_rows(routes4, names, family=4) | route_rows(routes6, names, family=6)
    assert picked(parts["routes"], ROUTE) == expected
    assert {"10.0.0.1", "10.0.0.2", "fd00:1::1", "fd00:1::2"} <= {route["gateway"] for route in parts["routes"]}
    assert {link["name"]: link["driver"] for link in parts["links"]}["eth0"] == "veth"
    assert {link["master"] for link in parts["links"] if link["name"] == "peer0"} == {names["switch0"]}


def test_thousands_of_routes_come_in_many_pieces_and_none_is_lost(tmp_path: Path) -> None:
    batch = tmp_path / "routes"
    batch.write_text("".join(f"route add 10.{100 + n // 256}.{n % 256}.0/24 via 10.0.0.1\n" for n in range(4096)))
    lay = f"{ADDRESSED}; ip -batch {batch}"
    _said, brief, parts = apart(lay, tmp_path)
    assert len({route["destination"] for route in parts["routes"] if route["gateway"] == "10.0.0.1"}) == 4096
    assert "more routes" in brief and len(brief) <= 3000


def test_the_cause_is_named_in_networks_that_are_broken_in_one_way_each(tmp_path: Path) -> None:
    for lay, sentence in (
        ("ip link set lo up", "no network interface but lo"),
        (PAIR, "eth0 is down: nothing has brought it up"),
        (f"{PAIR} ip link set eth0 up", "eth0 has no carrier"),
        (f"{PAIR} {UP}", "eth0 has no IPv4 address: no DHCP lease"),
        (f"{PAIR} {UP}; ip addr add 169.254.3.4/16 dev eth0", "eth0 has only the link-local address 169.254.3.4"),
        (ADDRESSED, "no route to 169.254.169.254 and 168.63.129.16: there is no default route"),
        (f"{ADDRESSED}; ip route add default dev eth0", f"{TO_BOTH} has no gateway, only eth0 itself"),
        (
            f"{ADDRESSED}; ip route add default via 10.9.9.9 dev eth0 onlink",
            f"{TO_BOTH} goes through 10.9.9.9, not a gateway that eth0 can reach",
        ),
        (f"{ADDRESSED}; ip route add unreachable default", f"{TO_BOTH} is of type unreachable: it leads nowhere"),
    ):
        said, brief, _parts = apart(lay, tmp_path)
        assert len(said) == 1 and said[0].startswith(sentence), lay
        assert brief.startswith(sentence)


def test_a_gateway_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/netif/leases").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/resolv.conf").write_text("nameserver 168.63.129.16\n")
    lay = f"""{ADDRESSED}; ip route add default via 10.0.0.1
    cp {tmp_path}/lease {tmp_path}/run/systemd/netif/leases/$(ip -o link show eth0 | cut -d: -f1)
    {sys.executable} -c "import socket; s = socket.socket(); s.settimeout(9); s.connect_ex(('168.63.129.16', 80))"
    """
    (tmp_path / "lease").write_bytes(LEASE)
    said, brief, _parts = apart(lay, tmp_path)
    assert said == ("the gateway 10.0.0.1 does not answer on eth0",)
    assert "lease eth0: 10.0.0.4, from 168.63.129.16, option 245 168.63.129.16, for ever, systemd-networkd" in brief
    assert brief.endswith("dns: 168.63.129.16")


def test_a_part_that_cannot_be_read_says_so_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "etc/resolv.conf").mkdir(parents=True)
    (tmp_path / "var/lib/dhcp").mkdir(parents=True)
    (tmp_path / "var/lib/dhcp/dhclient.leases").write_text('lease { interface "eth9"; fixed-address 10.0.0.4; }')
    brief = network_in_brief(read_network(Machine(root=str(tmp_path))))
    assert f"cannot read {tmp_path}/etc/resolv.conf: Is a directory" in brief
    assert "link lo:" in brief and "lease eth9: 10.0.0.4" in brief


def test_a_process_that_may_open_nothing_more_says_that_of_each_part() -> None:
    script = """if True:
        import resource
        from azureinit.machine import Machine
        from azureinit.facts.network import network_in_brief, read_network
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        print(network_in_brief(read_network(Machine())))
    """
    ran = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=True
    )
    for part in ("links", "addresses", "routes"):
        assert f"cannot ask the kernel for its {part}: Too many open files\n" in ran.stdout
    assert "cannot read /etc/resolv.conf: Too many open files\n" in ran.stdout
    assert "no network interface" not in ran.stdout


def test_the_kernel_s_newest_messages_are_read() -> None:
    need_root()
    log = read_kernel_log(Machine(), limit=1 << 16)
    if not log:
        unfit("no kernel log here")
    assert len(log) <= 1 << 16 and log.endswith(b"\n")
    assert all(line.startswith(b"[") and b"] " in line for line in log.splitlines())
    short = read_kernel_log(Machine(), limit=300)
    assert short is not None and len(short) <= 300
    dmesg = subprocess.run([need("dmesg")], capture_output=True).stdout
    assert short.splitlines()[0] in dmesg.splitlines() or not short
