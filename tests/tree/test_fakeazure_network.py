"""Network namespaces, with and without privileges, and a real DHCP client in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fakeazure
from fakeazure.platform.addresses import gateway_for
from fakeazure.platform.vm import Interface
from support.need import need, need_root, unfit

pytestmark = pytest.mark.newer

SOURCE = str(Path(fakeazure.__file__).parent.parent)
NOBODY = 65534
MAC = "00:0d:3a:12:34:56"
LAY = """
import json, subprocess
from fakeazure.machines.network import enter_network, make_veth
enter_network()
make_veth(mac="00:0d:3a:12:34:56")
said = subprocess.run(("ip", "-json", "address"), capture_output=True, check=True).stdout
print(json.dumps({one["ifname"]: [one.get("address"), *(a["local"] for a in one["addr_info"])]
                  for one in json.loads(said)}))
"""
# The client enters its own network namespace and gets the inner interface.
CLIENT = """
import ctypes, os, socket, struct, subprocess, sys, tempfile
from pathlib import Path
from fakeazure.platform.dhcp import Dhcp, Offer, parse_options
from fakeazure.platform.ledger import Ledger
from fakeazure.machines.network import enter_network, make_veth, unshare, CLONE_NEWNET

def machine(go, ready):
    unshare(CLONE_NEWNET)
    os.write(ready, b".")
    os.read(go, 1)
    subprocess.run(("ip", "link", "set", "eth0", "up"), check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
        client.bind(("", 68))
        client.settimeout(1)
        head = struct.pack("!BBBBIHH", 1, 1, 6, 0, 7, 0, 0x8000) + bytes(16)
        head += bytes.fromhex("000d3a123456").ljust(208, b"\\0") + b"\\x63\\x82\\x53\\x63"
        for junk in (b"", b"junk"):
            client.sendto(junk, ("255.255.255.255", 67))
        for wanted, asked in (2, b"\\x35\\x01\\x01"), (5, b"\\x35\\x01\\x03\\x32\\x04\\x0a\\x00\\x00\\x04"):
            for again in range(20):  # an interface that just came up loses the first packets, so clients repeat them
                client.sendto(head + asked + b"\\x0c\\x05web-1\\xff", ("255.255.255.255", 67))
                try:
                    while (options := parse_options(client.recv(4096)[240:]))[53] != bytes((wanted,)):
                        pass  # the reply to a repeated message
                except TimeoutError:
                    continue
                print(options[53].hex(), options[245].hex(), flush=True)
                break

enter_network()
make_veth(mac="00:0d:3a:12:34:56")
waiting, go = os.pipe()
prepared, ready = os.pipe()
child = os.fork()
if child == 0:
    try:
        machine(waiting, ready)
    finally:
        os._exit(0)
os.read(prepared, 1)
subprocess.run(("ip", "link", "set", "eth0", "netns", str(child)), check=True)
ledger = Ledger()
with Dhcp("azure0", {"00:0d:3a:12:34:56": Offer()}, ledger):
    os.write(go, b".")
    os.waitpid(child, 0)
for line in dict.fromkeys(f"{one.kind} {one.mac} {one.address} {one.hostname}" for one in ledger.events):
    print(line)
"""


def python(script: str, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*before, sys.executable, "-B", "-c", script),
        env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def own_interfaces() -> list[str]:
    return sorted(os.listdir("/sys/class/net"))


def laid(ran: subprocess.CompletedProcess[str]) -> None:
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert sorted(found) == ["azure0", "eth0", "lo"]
    assert found["azure0"][1:4] == ["10.0.0.1", "168.63.129.16", "169.254.169.254"]
    assert found["eth0"][0] == MAC
    assert found["lo"][1] == "127.0.0.1"


def test_root_has_a_network_with_azures_addresses_and_the_host_sees_none_of_it() -> None:
    need_root()
    need("ip")
    before = own_interfaces()
    laid(python(LAY))
    assert own_interfaces() == before


def test_nobody_has_one_too_where_the_kernel_lets_everybody() -> None:
    need("ip")
    as_nobody: tuple[str, ...] = ()
    if os.geteuid() == 0:
        as_nobody = (need("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        if python("import fakeazure", *as_nobody).returncode != 0:
            unfit("this Python or our source cannot be read by nobody")
    if subprocess.run((*as_nobody, need("unshare"), "-rn", "true"), capture_output=True, check=False).returncode != 0:
        unfit("user namespaces are not for everybody here")
    laid(python(LAY, *as_nobody))


def test_a_real_client_gets_its_lease_and_the_ledger_has_it() -> None:
    need_root()
    need("ip")
    ran = python(CLIENT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "02 a83f8110",
        "05 a83f8110",
        f"discover {MAC} 10.0.0.4 web-1",
        f"request {MAC} 10.0.0.4 web-1",
    ]


def test_without_the_ip_tool_one_sentence_says_what_to_install() -> None:
    script = """
from fakeazure.machines import network
network.SBIN = ()
try:
    network.ip("link")
except network.NoNetwork as error:
    print(error)
"""
    ran = subprocess.run(
        (sys.executable, "-B", "-c", script), env={"PATH": "/nowhere", "PYTHONPATH": SOURCE},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ran.stdout == "the ip tool is missing: install iproute2\n"


def test_where_the_kernel_refuses_one_sentence_says_so() -> None:
    """Containers filter the system call; the test sets the limit of namespaces to 0."""
    need_root()
    script = """
from pathlib import Path
from fakeazure.machines.network import CLONE_NEWUSER, NoNetwork, enter_network, unshare
import os
unshare(CLONE_NEWUSER)
Path("/proc/self/uid_map").write_text("0 0 1")
Path("/proc/sys/user/max_net_namespaces").write_text("0")
try:
    enter_network()
except NoNetwork as error:
    print(error)
"""
    ran = python(script)
    if ran.returncode != 0:
        unfit("a limit of network namespaces cannot be set here")
    assert ran.stdout.startswith("cannot create a network namespace: ")


@pytest.mark.parametrize(
    ("address", "prefix", "gateway"),
    [("10.0.0.4", 24, "10.0.0.1/24"), ("10.1.2.70", 26, "10.1.2.65/26"), ("172.16.5.4", 16, "172.16.0.1/16")],
)
def test_the_gateway_is_the_first_address_of_the_subnet(address: str, prefix: int, gateway: str) -> None:
    assert gateway_for(Interface(address=address, prefix=prefix)) == gateway
