"""The way to the platform, in the kernel's own table, and how soon a new one is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from wire import Ticking

from azureinit.machine import Machine
from azureinit.sources.route import leads, parse_address, wait_for_route
from need import need, need_root

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
DEFAULT = "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
LINK = "eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
AUTOCONF = "eth0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"  # 169.254.0.0/16 without a gateway
HOST = "eth0\tFEA9FEA9\t0100000A\t0007\t0\t0\t100\tFFFFFFFF\t0\t0\t0\n"
DOWN = "eth0\t00000000\t0100000A\t0002\t0\t0\t100\t00000000\t0\t0\t0\n"
IMDS, WIRESERVER = "169.254.169.254", "168.63.129.16"


def led(table: str, host: str) -> bool:
    address = parse_address(host)
    assert address is not None
    return leads(HEAD + table, address)


pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables here are of a little-endian machine")


@pytest.mark.parametrize(
    ("table", "host", "answer"),
    [
        (DEFAULT, IMDS, True),
        (DEFAULT, WIRESERVER, True),
        (LINK, WIRESERVER, False),
        (AUTOCONF, IMDS, False),
        (HOST, IMDS, True),
        (HOST, WIRESERVER, False),
        (DOWN, WIRESERVER, False),
        ("", IMDS, False),
        ("torn\teth0\n", IMDS, False),
        (LINK + AUTOCONF + DEFAULT, IMDS, True),
    ],
)
def test_a_route_counts_only_through_a_gateway(table: str, host: str, answer: bool) -> None:
    assert led(table, host) is answer


@given(st.text(), st.integers(min_value=0, max_value=2**32 - 1))
def test_no_table_is_a_traceback(table: str, address: int) -> None:
    assert leads(table, address) in (True, False)


@given(st.text())
def test_no_host_is_a_traceback(text: str) -> None:
    assert parse_address(text) is None or text.count(".") == 3


def machine(kernel: Path, table: str) -> Machine:
    (kernel / "proc/net").mkdir(parents=True, exist_ok=True)
    (kernel / "proc/net/route").write_text(HEAD + table)
    return Machine(kernel=str(kernel), clock=Ticking(), environ={})


def test_where_there_is_a_way_nobody_waits(tmp_path: Path) -> None:
    assert wait_for_route(machine(tmp_path, DEFAULT), IMDS, until=0.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_loopback_or_a_name_is_not_waited_for(tmp_path: Path, host: str) -> None:
    assert wait_for_route(machine(tmp_path, ""), host, until=0.0)


def test_the_wait_ends_with_its_time(tmp_path: Path) -> None:
    assert not wait_for_route(machine(tmp_path, ""), IMDS, until=0.0)


def test_a_route_that_comes_ends_the_wait(tmp_path: Path) -> None:
    """In a network of its own: the kernel announces it, and nobody sleeps through it."""
    need_root()
    need("ip")
    script = """
import subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
from azureinit.machine import Machine
from azureinit.sources import route
route.LOOK_ANYWAY = 3600.0  # so that only the announcement can end the wait in time
def run(*words): subprocess.run(("ip", *words), check=True)
run("link", "add", "eth0", "type", "veth", "peer", "name", "far")
for name in ("lo", "eth0", "far"): run("link", "set", name, "up")
run("address", "add", "10.0.0.4/24", "dev", "eth0")
def later():
    time.sleep(0.3)
    run("route", "add", "default", "via", "10.0.0.1")
machine = Machine()
threading.Thread(target=later).start()
print(route.wait_for_route(machine, "168.63.129.16", until=time.monotonic() + 60))
"""
    src = str(Path(__file__).parents[2] / "src")
    ran = subprocess.run(["unshare", "--net", sys.executable, "-c", script, src], capture_output=True, text=True)
    assert ran.stdout == "True\n", ran.stderr
