"""The wireserver's address: from real packets, routes and leases in a network namespace; nothing else is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
from azureinit.run.endpoint import with_host
from azureinit.sources.route import is_to_be_found
from support.need import need, need_root, unfit

SRC = Path(__file__).parents[2] / "src"
USUAL, ELSEWHERE = "168.63.129.16", "10.7.7.7"
MAC = "00:0d:3a:12:34:56"
LEASE = Lease(
    link="eth0",
    client="c",
    address="10.0.0.4",
    routes=(("0.0.0.0", 0, "10.0.0.1"), (USUAL, 32, "10.0.0.2"), ("10.8.0.0", 16, "")),
)
# A machine's end of the cable and the platform's in one network, with a /run and a /sys that are about it alone.
BEFORE = f"""
import json, os, socket, struct, subprocess, sys, threading, time
from azureinit.run import endpoint
from azureinit.addresses import has_host_route, has_route_to
from azureinit.config.model import Config
from azureinit.run.platform import Platform
from azureinit.run.state import Context
from azureinit.machine import Machine
from azureinit.sources import dhcp
from azureinit.telemetry.events import Events

def ip(*words):
    return subprocess.run(("ip", *words), check=True, capture_output=True, text=True).stdout

for words in (("-t", "tmpfs", "none", "/run"), ("-t", "sysfs", "none", "/sys"), ("-t", "tmpfs", "none", "/var/lib")):
    subprocess.run(("mount", *words), check=True)
ip("link", "add", "azure0", "type", "veth", "peer", "name", "eth0", "address", "{MAC}")
for one in ("lo", "azure0", "eth0"):
    ip("link", "set", one, "up")
dhcp.PAUSES = (0.5, 1.0, 2.0)
endpoint.PROBING = 1.0
machine = Machine()
events = []
telling = Events(clock=machine.clock, listeners=(lambda event: events.append([event.name, event.text]),))

def make_platform(booted=None):
    return Platform(Context(machine=machine, config=Config(), events=telling, started=time.monotonic(), booted=booted))

def lease(text):
    os.makedirs("/run/systemd/netif/leases", exist_ok=True)
    with open("/run/systemd/netif/leases/" + open("/sys/class/net/eth0/ifindex").read().strip(), "w") as file:
        file.write(text)

def told():
    return [text for name, text in events if name == "wireserver"]

platform = make_platform()
soon = time.monotonic() + 20
"""
# A server that says all that is in `answers`, each made of the question, to every question.
SERVER = """
served = []
def serve():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"azure0")
    server.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    server.bind(("", 67))
    ready.set()
    while True:
        question = server.recv(4096)
        served.append(question)
        for answer in answers(question):
            server.sendto(answer, ("255.255.255.255", 68))
def offer(question, options, *, xid=None, mac=None, kind=2):
    head = b"\\2\\1\\6\\0" + (xid or question[4:8]) + bytes(8) + bytes((10, 0, 0, 4)) + bytes(8)
    head += (mac or question[28:34]).ljust(16, b"\\0") + bytes(192) + b"\\x63\\x82\\x53\\x63"
    return head + bytes((53, 1, kind)) + options + b"\\xff"
ip("address", "add", "10.0.0.1/24", "dev", "azure0")
ready = threading.Event()
threading.Thread(target=serve, daemon=True).start()
ready.wait(10)
"""


def apart(script: str) -> Any:
    need_root()
    need("ip")
    if subprocess.run([need("unshare"), "--net", "--mount", "true"], capture_output=True).returncode:
        unfit("no network namespaces")
    ran = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-B", "-c", BEFORE + script],
        env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


LOCATE = """
platform.locate(until=soon)
"""
SAY = """
print(json.dumps([platform.config.wireserver.health_endpoint, platform.located, told()]))
"""


def test_a_server_is_asked_where_nobody_has_a_lease_and_nothing_is_taken_from_it() -> None:
    found, kinds, told, before, after = apart(
        """
answers = lambda question: [offer(question, b"\\xf5\\x04\\x0a\\x07\\x07\\x07")]
"""
        + SERVER
        + """
before = ip("-4", "address"), ip("link"), ip("route")
"""
        + LOCATE
        + """
print(json.dumps([platform.config.wireserver.health_endpoint, [q[242] for q in served], told(),
                  before, (ip("-4", "address"), ip("link"), ip("route"))]))
"""
    )
    assert found == f"http://{ELSEWHERE}/provisioning/health"
    assert set(kinds) == {1}, "never more than a DISCOVER"
    assert told == [
        "a DHCP server offers 10.0.0.4 to eth0, and no DHCP client here takes it",
        f"the wireserver is at {ELSEWHERE}: option 245 of an offer on eth0, since no DHCP client here has a lease",
    ]
    assert before == after


def test_of_all_that_comes_back_only_an_offer_to_us_with_a_wireserver_counts() -> None:
    """Two servers, of which the first knows none; and before them what is broken, misdirected or meant for others."""
    found, located, told = apart(
        """
bad = b"\\xf5\\x04\\x0a\\x06\\x06\\x06"
answers = lambda question: [
    b"", question[:100], offer(question, bad)[:230], offer(question, bad, xid=b"\\1\\2\\3\\4"),
    offer(question, bad, mac=bytes(6)), offer(question, bad, kind=5), question,
    offer(question, b"\\xf5\\x00"), offer(question, b"\\xf5\\x04" + bytes(4)), offer(question, b"\\x06\\x04" + bad[2:]),
    offer(question, b"\\x00\\x00\\x34\\x01\\x00\\xf5\\x04\\x0a\\x07\\x07\\x07"),
]
"""
        + SERVER
        + LOCATE
        + SAY
    )
    assert found == f"http://{ELSEWHERE}/provisioning/health"
    assert located
    assert told[:2] == [
        "option 245 in the offer of a server is no wireserver: not four bytes",
        "option 245 in the offer of a server is no wireserver: 0.0.0.0",
    ]


def test_a_server_that_is_late_is_asked_again() -> None:
    found, _located, _told = apart(
        """
answers = lambda question: [offer(question, b"\\xf5\\x04\\x0a\\x07\\x07\\x07")] if len(served) > 1 else []
"""
        + SERVER
        + LOCATE
        + SAY
    )
    assert found == f"http://{ELSEWHERE}/provisioning/health"


def test_where_nobody_answers_it_is_the_usual_one() -> None:
    found, located, told = apart("dhcp.PAUSES = (0.05, 0.1)\n" + LOCATE + SAY)
    assert (found, located) == (f"http://{USUAL}/provisioning/health", True)
    assert told == [
        "no DHCP server answers on eth0",
        f"the wireserver is at {USUAL}: the usual address, since no DHCP server names another",
    ]


@pytest.mark.parametrize(("lay", "why"), [('ip("link", "set", "eth0", "down")', "eth0 is down"),
                                          ('ip("link", "set", "azure0", "down")', "eth0 has no carrier")])  # fmt: skip
def test_a_link_that_is_down_stays_so(lay: str, why: str) -> None:
    same, told = apart(
        lay
        + """
ip("link", "set", "azure0", "nomaster")
before = ip("link", "show", "eth0")
"""
        + LOCATE
        + """
print(json.dumps([before == ip("link", "show", "eth0"), told()]))
"""
    )
    assert same
    assert told[0] == f"no DHCP server was asked: {why}"


def test_a_lease_is_read_and_nobody_asked_and_threads_find_the_same() -> None:
    found, located, told = apart(
        """
ip("address", "add", "10.0.0.4/24", "dev", "eth0")
ip("route", "add", "default", "via", "10.0.0.1")
lease("ADDRESS=10.0.0.4\\nOPTION_245=0a070707\\n")
dhcp.ask_server = None  # whoever called it would fail
threads = [threading.Thread(target=platform.locate, kwargs={"until": soon}) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        + SAY
    )
    assert (found, located) == (f"http://{ELSEWHERE}/provisioning/health", True)
    assert told == [f"the wireserver is at {ELSEWHERE}: option 245 of the lease of eth0 (systemd-networkd)"]


# A wireserver, or something else, that listens on port 80 of the addresses given.
LISTEN = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
class Server(ThreadingHTTPServer):
    server_bind = TCPServer.server_bind  # HTTPServer's would ask DNS, which is not there, for its own name
def listen(address, body, status=200):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass
    ip("address", "add", address + "/32", "dev", "lo")
    server = Server((address, 80), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
VERSIONS = b"<Versions><Supported><Version>2012-11-30</Version></Supported></Versions>"
endpoint.PROBING = 3.0
ip("address", "add", "10.0.0.4/24", "dev", "eth0")
ip("route", "add", "default", "via", "10.0.0.1")
lease("ADDRESS=10.0.0.4\\nOPTION_245=0a070707\\n")
"""


@pytest.mark.parametrize(
    ("listeners", "expected"),
    [
        (f'listen("{USUAL}", VERSIONS)', USUAL),
        (f'listen("{USUAL}", VERSIONS); listen("{ELSEWHERE}", b"<html/>")', USUAL),
        (f'listen("{USUAL}", VERSIONS); listen("{ELSEWHERE}", VERSIONS, 404)', USUAL),
        (f'listen("{USUAL}", VERSIONS); listen("{ELSEWHERE}", VERSIONS)', ELSEWHERE),
        (f'listen("{USUAL}", b"", 500); listen("{ELSEWHERE}", VERSIONS)', ELSEWHERE),
        (f'listen("{USUAL}", b"not a list"); listen("{ELSEWHERE}", b"neither")', ELSEWHERE),
    ],
)
def test_an_address_where_no_wireserver_answers_gives_way_to_the_usual_one(listeners: str, expected: str) -> None:
    found, located, told = apart(LISTEN + listeners + LOCATE + SAY)
    assert (found, located) == (f"http://{expected}/provisioning/health", True)
    warned = [text for text in told if text.startswith("no wireserver answers at 10.7.7.7")]
    assert bool(warned) is (expected == USUAL)


def test_garbage_in_a_lease_is_told_once_however_often_it_is_looked_at() -> None:
    found, _located, told = apart(
        """
ip("address", "add", "10.0.0.4/24", "dev", "eth0")
ip("route", "add", "default", "via", "10.0.0.1")
lease("ADDRESS=10.0.0.4\\nOPTION_245=e0000001\\nDNS=10.7.7.7\\n")
os.makedirs("/run/NetworkManager")
endpoint.A_MOMENT = 0.01
platform = make_platform(booted=0.0)
"""
        + LOCATE
        + SAY
    )
    assert found == f"http://{USUAL}/provisioning/health"
    assert told == [
        "option 245 of the lease of eth0 (systemd-networkd) is not a wireserver: 224.0.0.1",
        f"the wireserver is at {USUAL}: the usual address, since no DHCP server names another",
    ]


def test_the_lease_of_a_link_that_does_not_lead_to_the_platform_does_not_count() -> None:
    found, _located, told = apart(
        """
ip("address", "add", "10.0.0.4/24", "dev", "azure0")
ip("address", "add", "10.1.0.4/24", "dev", "eth0")
ip("route", "add", "default", "via", "10.0.0.1", "dev", "azure0")
ip("route", "add", "168.63.129.16", "via", "10.0.0.1", "dev", "azure0")
lease("ADDRESS=10.1.0.4\\nOPTION_245=0a070707\\n")
"""
        + LOCATE
        + SAY
    )
    assert found == f"http://{USUAL}/provisioning/health"
    assert told == [f"the wireserver is at {USUAL}: a route leads to it alone"]


def test_a_boot_waits_for_the_lease_and_is_not_held_up_by_a_missing_route() -> None:
    """Nothing in this network ever leads to the usual address."""
    found, _located, told = apart(
        """
from azureinit.sources import route
route.LOOK_ANYWAY = 0.1
platform = make_platform(booted=0.0)
def later():
    time.sleep(0.3)
    ip("address", "add", "10.0.0.4/24", "dev", "eth0")
    lease("ADDRESS=10.0.0.4\\nOPTION_245=0a070707\\n")
threading.Thread(target=later).start()
"""
        + LOCATE
        + SAY
    )
    assert found == f"http://{ELSEWHERE}/provisioning/health"
    assert told == [f"the wireserver is at {ELSEWHERE}: option 245 of the lease of eth0 (systemd-networkd)"]


def test_a_boot_without_any_network_looks_again_at_the_next_report() -> None:
    found, located, told = apart(
        """
from azureinit.sources import route
route.LOOK_ANYWAY = 0.05
endpoint.LATE = 0.2
ip("link", "set", "eth0", "down")
platform = make_platform(booted=0.0)
platform.locate(until=time.monotonic() + 0.5)
first = platform.located
ip("link", "set", "eth0", "up")
ip("address", "add", "10.0.0.4/24", "dev", "eth0")
ip("route", "add", "default", "via", "10.0.0.1")
lease("ADDRESS=10.0.0.4\\nOPTION_245=0a070707\\n")
assert not first
"""
        + LOCATE
        + SAY
    )
    assert (found, located) == (f"http://{ELSEWHERE}/provisioning/health", True)
    assert told[-1] == f"the wireserver is at {ELSEWHERE}: option 245 of the lease of eth0 (systemd-networkd)"


ADD_ROUTES = """
lease("ADDRESS=10.0.0.4\\nCLASSLESS_ROUTES=0.0.0.0/0,10.0.0.1 10.8.8.8/32,0.0.0.0\\n")
for host in ("168.63.129.16", "10.8.8.8", "168.63.129.16"):
    platform.add_route(host)
print(json.dumps([ip("-4", "route", "show", "dev", "eth0").split("\\n")[:-1], [name for name, text in events if text]]))
"""


def test_a_way_that_only_the_lease_tells_is_added_once_for_that_host_alone() -> None:
    routes, told = apart('ip("address", "add", "10.0.0.4/24", "dev", "eth0")\n' + ADD_ROUTES)
    assert [" ".join(route.split()) for route in routes] == [
        "10.0.0.0/24 proto kernel scope link src 10.0.0.4",
        "10.8.8.8 scope link metric 65536",
        "168.63.129.16 via 10.0.0.1 metric 65536 onlink",
    ]
    assert told == ["route to 168.63.129.16", "route to 10.8.8.8"]


def test_an_address_without_a_subnet_reaches_its_gateway_all_the_same() -> None:
    routes, _told = apart('ip("address", "add", "10.0.0.4/32", "dev", "eth0")\n' + ADD_ROUTES)
    assert any(route.startswith("168.63.129.16 via 10.0.0.1") for route in routes)


@pytest.mark.parametrize(
    "lay",
    [
        'ip("address", "add", "10.0.0.9/24", "dev", "eth0")',  # the lease is another's
        'ip("address", "add", "10.0.0.4/24", "dev", "eth0"); ip("route", "add", "default", "via", "10.0.0.1")',
    ],
)
def test_a_way_that_is_there_or_of_a_lease_that_is_not_in_force_is_left_alone(lay: str) -> None:
    routes, told = apart(lay + ADD_ROUTES.replace('"168.63.129.16", "10.8.8.8", "168.63.129.16"', '"168.63.129.16",'))
    assert not any("metric 65536" in route for route in routes)
    assert told == []


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
