"""IPv4 addresses, URLs and route rows, and a machine whose network is made up: no root, no namespace, no process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.addresses import (
    IMDS,
    WIRESERVER,
    base_of,
    best_link_to,
    format_ipv4,
    has_host_route,
    host_of,
    is_host_address,
    parse_ipv4,
    parse_route_rows,
    path_of,
)
from azureinit.config.model import Config
from azureinit.facts.network import network_in_brief, read_network
from azureinit.record import replace
from azureinit.run.endpoint import Card, read_card
from azureinit.sources.route import has_route
from support.made_up_network import CARD, LOOPBACK, Networked

SRC = Path(__file__).parents[2] / "src"
HEAD = b"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
DEFAULT = b"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
LITTLE = pytest.mark.skipif(sys.byteorder != "little", reason="the tables here are of a little-endian machine")


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_what_is_formatted_is_parsed_as_the_same(number: int) -> None:
    assert parse_ipv4(format_ipv4(number.to_bytes(4, "big"))) == number


@pytest.mark.parametrize("octets", [b"", b"\1\2\3", b"\1\2\3\4\5"])
def test_only_four_bytes_are_an_address(octets: bytes) -> None:
    assert format_ipv4(octets) == ""


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.", "a.b.c.d", "1.2.3.-4", "1.2.3.\u00b2"]
)
def test_what_is_no_address(text: str) -> None:
    assert parse_ipv4(text) is None
    assert not is_host_address(text)


def test_the_configuration_s_defaults_name_the_platform_s_addresses() -> None:
    config = Config()
    assert host_of(config.imds.endpoint) == IMDS
    assert host_of(config.wireserver.health_endpoint) == WIRESERVER
    assert base_of(config.wireserver.health_endpoint) == f"http://{WIRESERVER}"


@pytest.mark.parametrize(
    ("url", "host", "base", "path"),
    [
        ("http://10.0.0.1", "10.0.0.1", "http://10.0.0.1", ""),
        ("http://10.0.0.1:80/a/b?c=d/e", "10.0.0.1", "http://10.0.0.1:80", "a/b"),
        ("http://[::1]:8080/x", "::1", "http://[::1]:8080", "x"),
        ("https://10.0.0.1/", "", "https://10.0.0.1", ""),
        ("nothing", "", "nothing", ""),
    ],
)
def test_the_parts_of_a_url(url: str, host: str, base: str, path: str) -> None:
    assert (host_of(url), base_of(url), path_of(url)) == (host, base, path)


@given(st.binary())
def test_no_table_is_a_traceback(table: bytes) -> None:
    assert all(row.link for row in parse_route_rows(HEAD + table))
    best_link_to(table, 0)
    has_host_route(table, 0)


@LITTLE
def test_the_longest_prefix_wins_and_then_the_lowest_metric() -> None:
    dearer = DEFAULT.replace(b"eth0", b"eth1").replace(b"\t100\t", b"\t200\t")
    host = b"eth2\t10813FA8\t0100000A\t0007\t0\t0\t900\tFFFFFFFF\t0\t0\t0\n"
    wireserver, imds = (parse_ipv4(text) or 0 for text in (WIRESERVER, IMDS))
    assert best_link_to(HEAD + dearer + DEFAULT, wireserver) == "eth0"
    assert best_link_to(HEAD + dearer + DEFAULT + host, wireserver) == "eth2"
    assert best_link_to(HEAD + dearer + DEFAULT + host, imds) == "eth0"
    assert best_link_to(HEAD, imds) is None


# ---- a machine with a made-up network


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"up": False}, "eth0 is down: nothing has brought it up"),
        ({"carrier": False}, "eth0 has no carrier"),
        ({}, "eth0 has no IPv4 address: no DHCP lease"),
    ],
)
def test_the_diagnosis_reads_the_network_through_the_machine(
    tmp_path: Path, change: dict[str, bool], told: str
) -> None:
    machine = Networked(tmp_path, links=(LOOPBACK, replace(CARD, **change)))
    assert network_in_brief(read_network(machine)).split("\n")[0] == told


def test_a_card_without_a_route_is_the_first_one_that_could_have_one(tmp_path: Path) -> None:
    down = replace(CARD, name="eth1", index=1, up=False, mac="00:0d:3a:00:00:01")
    machine = Networked(tmp_path, links=(LOOPBACK, down, CARD))
    assert read_card(machine) == Card(link="eth0", index=2, mac=CARD.mac)
    assert read_card(Networked(tmp_path, links=(LOOPBACK,))) is None


@LITTLE
def test_routes_come_from_the_machine_s_table(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    machine = Networked(tmp_path, links=(LOOPBACK, CARD))
    for table, answer in ((HEAD, False), (HEAD + DEFAULT, True)):
        (tmp_path / "proc/net/route").write_bytes(table)
        assert has_route(machine, IMDS) is answer
