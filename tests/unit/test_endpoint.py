"""Where the wireserver is, on machines whose links, addresses, routes and DHCP servers are made up.

tests/tree/test_endpoint.py has the same with real packets, routes and programs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from azureinit.addresses import has_host_route, has_route_to
from azureinit.config.model import Config
from azureinit.facts.leases import Lease
from azureinit.machine import Machine
from azureinit.plan.actions import Run, Satisfied, Step, Way
from azureinit.plan.route import plan_route
from azureinit.record import replace
from azureinit.run.endpoint import LATE, Endpoint, Search, with_host
from azureinit.run.platform import Platform
from azureinit.run.state import Context
from azureinit.sources.route import is_to_be_found
from azureinit.telemetry.events import Events
from support.dhcp_machines import HEADER, route
from support.made_up_network import ACK, CARD, LOOPBACK, OWN, Networked, offer

USUAL, ELSEWHERE = "168.63.129.16", "10.7.7.7"
NAMED = b"\xf5\x04\x0a\x07\x07\x07"  # option 245: 10.7.7.7
BY_LEASE = Endpoint(address=ELSEWHERE, how="option 245 of the lease of eth0 (systemd-networkd)")
BY_OFFER = Endpoint(address=ELSEWHERE, how="option 245 of an offer on eth0, since no DHCP client here has a lease")
BY_DEFAULT = Endpoint(address=USUAL, how="the usual address, since no DHCP server names another")
LEASE = Lease(
    link="eth0",
    client="c",
    address="10.0.0.4",
    routes=(("0.0.0.0", 0, "10.0.0.1"), (USUAL, 32, "10.0.0.2"), ("10.8.0.0", 16, "")),
)


@dataclass
class Looking:
    machine: Networked
    told: list[str] = field(default_factory=list)

    def context(self, *, booted: float | None = None) -> Context:
        events = Events(clock=self.machine.clock, listeners=(lambda event: self.told.append(event.text),))
        return Context(
            machine=self.machine, config=Config(), events=events, started=self.machine.time.at, booted=booted
        )

    def find(self, *, seconds: float = 300.0, booted: float | None = None) -> Endpoint | None:
        return Search(self.context(booted=booted), set()).candidate(until=self.machine.time.at + seconds)


def look(tmp_path: Path, *routes: str, lease: str = "", **network: Any) -> Looking:
    machine = Networked(tmp_path, **network)
    for link in machine.links:
        machine.put(f"/sys/class/net/{link.name}/ifindex", f"{link.index}\n")
        machine.put(f"/sys/class/net/{link.name}/address", f"{link.mac}\n")
    machine.put("/proc/net/route", HEADER + "".join(routes))
    if lease:
        machine.put("/run/systemd/netif/leases/2", lease)
    return Looking(machine)


def test_a_lease_is_read_and_no_server_asked(tmp_path: Path) -> None:
    one = look(tmp_path, route("eth0"), lease="ADDRESS=10.0.0.4\nOPTION_245=0a070707\n", addresses=(OWN,))
    assert one.find() == BY_LEASE
    assert (one.machine.asked, one.told) == ([], [])


@pytest.mark.parametrize("option", ["e0000001", "7f000001", "00000000"])
def test_garbage_in_a_lease_is_told_once_however_often_it_is_looked_at(tmp_path: Path, option: str) -> None:
    """In a boot under NetworkManager, which writes its leases late, it is looked at many times."""
    lease = f"ADDRESS=10.0.0.4\nOPTION_245={option}\nDNS=10.7.7.7\n"
    one = look(tmp_path, route("eth0"), lease=lease, addresses=(OWN,))
    (tmp_path / "run/NetworkManager").mkdir()
    assert one.find(booted=0.0) == BY_DEFAULT
    address = ".".join(str(octet) for octet in bytes.fromhex(option))
    assert one.told == [f"option 245 of the lease of eth0 (systemd-networkd) is not a wireserver: {address}"]
    assert one.machine.asked == [], "there is a lease, so no server is asked"
    assert len(one.machine.time.slept) == 10


def test_the_lease_of_a_link_that_does_not_lead_to_the_platform_does_not_count(tmp_path: Path) -> None:
    other = replace(CARD, index=3, name="eth1", mac="00:0d:3a:00:00:03")
    routes = (route("eth1"), route("eth1", USUAL, "255.255.255.255", flags=7))
    links = (LOOPBACK, CARD, other)
    one = look(tmp_path, *routes, lease="ADDRESS=10.0.0.4\nOPTION_245=0a070707\n", addresses=(OWN,), links=links)
    assert one.find() == Endpoint(address=USUAL, how="a route leads to it alone")


def test_a_server_is_asked_where_no_client_has_a_lease(tmp_path: Path) -> None:
    one = look(tmp_path, answers=lambda number, question: [offer(question, NAMED)])
    assert one.find() == BY_OFFER
    assert one.told == ["a DHCP server offers 10.0.0.4 to eth0, and no DHCP client here takes it"]
    assert [question[242] for question in one.machine.asked] == [1], "a DISCOVER and nothing else"
    assert one.machine.ran == []


def test_only_an_offer_to_this_machine_with_a_wireserver_counts(tmp_path: Path) -> None:
    bad = b"\xf5\x04\x0a\x06\x06\x06"

    def answers(_number: int, question: bytes) -> list[bytes]:
        return [
            b"",
            question[:100],
            offer(question, bad)[:230],
            offer(question, bad, xid=b"\1\2\3\4"),
            offer(question, bad, mac=bytes(6)),
            offer(question, bad, kind=ACK),
            question,
            offer(question, b"\xf5\x00"),
            offer(question, b"\xf5\x04" + bytes(4)),
            offer(question, b"\x06\x04" + bad[2:]),
            offer(question, b"\x00\x00\x34\x01\x00" + NAMED),
        ]

    one = look(tmp_path, answers=answers, addresses=(OWN,))
    assert one.find() == BY_OFFER
    assert one.told == [
        "option 245 in the offer of a server is no wireserver: not four bytes",
        "option 245 in the offer of a server is no wireserver: 0.0.0.0",
    ]


def test_a_server_that_is_late_is_asked_again(tmp_path: Path) -> None:
    one = look(tmp_path, answers=lambda number, question: [offer(question, NAMED)] if number > 1 else [])
    assert one.find() == BY_OFFER
    assert len(one.machine.asked) == 2
    assert len({question[4:8] for question in one.machine.asked}) == 1, "one transaction"


def test_where_no_server_answers_it_is_the_usual_address(tmp_path: Path) -> None:
    one = look(tmp_path)
    assert one.find() == BY_DEFAULT
    assert one.told == ["no DHCP server answers on eth0"]
    assert len(one.machine.asked) == 3


@pytest.mark.parametrize(
    ("change", "why"), [({"up": False}, "eth0 is down"), ({"carrier": False}, "eth0 has no carrier")]
)
def test_on_a_link_that_is_down_no_server_is_asked(tmp_path: Path, change: dict[str, bool], why: str) -> None:
    one = look(tmp_path, links=(LOOPBACK, replace(CARD, **change)))
    assert one.find() == BY_DEFAULT
    assert one.told == [f"no DHCP server was asked: {why}"]
    assert one.machine.asked == []


def test_a_boot_waits_for_the_lease_and_is_not_held_up_by_a_missing_route(tmp_path: Path) -> None:
    """Nothing in this network ever leads to the usual address."""
    one = look(tmp_path)

    def lease() -> None:
        one.machine.addresses = (OWN,)
        one.machine.put("/run/systemd/netif/leases/2", "ADDRESS=10.0.0.4\nOPTION_245=0a070707\n")

    one.machine.changes = [lambda: None, lease]
    begun = one.machine.time.at
    assert one.find(booted=0.0) == BY_LEASE
    assert one.machine.asked == []
    assert one.machine.time.at - begun < LATE


def test_a_boot_without_any_network_finds_nothing_and_asks_the_server_once(tmp_path: Path) -> None:
    one = look(tmp_path)
    begun = one.machine.time.at
    assert one.find(booted=0.0, seconds=60.0) is None
    assert one.machine.time.at - begun == 60.0
    assert one.told == ["no DHCP server answers on eth0"]
    assert len(one.machine.asked) == 3, "while there was still time"


def test_a_boot_whose_network_comes_late_finds_it(tmp_path: Path) -> None:
    one = look(tmp_path)

    def network() -> None:
        one.machine.put("/proc/net/route", HEADER + route("eth0"))

    one.machine.changes = [lambda: None] * 8 + [network]
    assert one.find(booted=0.0) == BY_DEFAULT


# ---- the route that a lease names

ROUTES = "ADDRESS=10.0.0.4\nCLASSLESS_ROUTES=0.0.0.0/0,10.0.0.1 10.8.8.8/32,0.0.0.0\n"


def test_a_route_that_only_the_lease_names_is_added_once_for_each_host(tmp_path: Path) -> None:
    one = look(tmp_path, lease=ROUTES, addresses=(OWN,))
    platform = Platform(one.context())
    for host in (USUAL, "10.8.8.8", USUAL):
        assert platform.add_route(host) is False
    assert one.machine.ran == [
        ("ip", "-4", "route", "add", f"{USUAL}/32", "via", "10.0.0.1", "dev", "eth0", "onlink", "metric", "65536"),
        ("ip", "-4", "route", "add", "10.8.8.8/32", "dev", "eth0", "scope", "link", "metric", "65536"),
    ]


@pytest.mark.parametrize(
    ("address", "routes"),
    [("10.0.0.9", ()), ("10.0.0.4", (route("eth0"),))],
    ids=["the lease is another machine's", "there is a route"],
)
def test_a_route_is_not_added_to_an_existing_one_or_by_a_lease_not_in_force(
    tmp_path: Path, address: str, routes: tuple[str, ...]
) -> None:
    one = look(tmp_path, *routes, lease=ROUTES, addresses=(replace(OWN, address=address),))
    Platform(one.context()).add_route(USUAL)
    assert (one.machine.ran, one.told) == ([], [])


# ---- pure


def test_only_the_usual_address_is_looked_for_and_only_on_this_machine(tmp_path: Path) -> None:
    here, config = Machine(), Config()
    static = replace(config, wireserver=replace(config.wireserver, discovery="static"))
    other = replace(config, wireserver=replace(config.wireserver, health_endpoint="http://127.0.0.1:8080/health"))
    assert is_to_be_found(here, config)
    assert not is_to_be_found(here, static)
    assert not is_to_be_found(here, other)
    assert not is_to_be_found(Machine(root=str(tmp_path)), config)
    assert not is_to_be_found(here, with_host(config, ELSEWHERE))


def test_a_port_and_a_path_stay_what_they_were() -> None:
    config = replace(Config(), wireserver=replace(Config().wireserver, health_endpoint=f"http://{USUAL}:8080/x"))
    assert with_host(config, ELSEWHERE).wireserver.health_endpoint == f"http://{ELSEWHERE}:8080/x"


@pytest.mark.parametrize(
    ("host", "through"),
    [
        (USUAL, ("via", "10.0.0.2", "dev", "eth0", "onlink")),
        ("169.254.169.254", ("via", "10.0.0.1", "dev", "eth0", "onlink")),
        ("10.8.1.2", ("dev", "eth0", "scope", "link")),
    ],
)
def test_the_narrowest_of_a_lease_s_routes_is_the_way(host: str, through: tuple[str, ...]) -> None:
    (step,) = plan_route(host=host, lease=LEASE, leads=False)
    assert isinstance(step, Step)
    argv = ("ip", "-4", "route", "add", f"{host}/32", *through, "metric", "65536")
    assert step.ways == (Way(backend="ip", actions=(Run(argv=argv, timeout=10.0, changes=False),)),)


def test_there_is_nothing_to_do_where_there_is_a_way_or_the_lease_knows_none() -> None:
    assert isinstance(plan_route(host=USUAL, lease=LEASE, leads=True)[0], Satisfied)
    assert plan_route(host=USUAL, lease=replace(LEASE, routes=()), leads=False) == ()


@pytest.mark.skipif(sys.byteorder != "little", reason="the tables here are of a little-endian machine")
def test_a_host_in_our_own_network_is_reached_without_a_gateway_but_azure_s_are_in_none() -> None:
    near = b"head\neth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    alone = b"head\neth0\tFEA9FEA9\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n"
    whole = b"head\neth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"
    assert has_route_to(near, 0x0A000007) and not has_route_to(near, 0x0A070707)
    assert has_route_to(alone, 0xA9FEA9FE) and has_host_route(alone, 0xA9FEA9FE)
    assert not has_route_to(whole, 0xA83F8110) and not has_host_route(whole, 0xA83F8110)
    around = b"head\neth0\t00813FA8\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    assert has_route_to(around, 0xA83F8107) and not has_route_to(around, 0xA83F8110)
