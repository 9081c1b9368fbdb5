"""The wireserver's address: from real packets, routes and leases in a network namespace; nothing else is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.need import need, need_root, unfit

SRC = Path(__file__).parents[2] / "src"
USUAL, ELSEWHERE = "168.63.129.16", "10.7.7.7"
MAC = "00:0d:3a:12:34:56"
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
def are_up():  # the kernel notices a carrier up to a second later
    return all(open(f"/sys/class/net/{{one}}/operstate").read() == "up\\n" for one in ("azure0", "eth0"))
limit = time.monotonic() + 30
while not are_up() and time.monotonic() < limit:
    time.sleep(0.01)
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
