"""A real systemd-networkd in network and mount namespaces of its own, and DHCP servers beyond its NICs.

The test starts `in_lab(script)`; the script runs in the namespaces, imports `Lab` and prints one value.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azureinit.config.model import Config
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.run.enact import enact
from azureinit.run.network import plan_answer
from azureinit.sources.network_metadata import parse_network
from azureinit.telemetry.events import Events
from support.need import need, need_root, unfit

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

ROOT = Path(__file__).parents[2]
NETWORKD = "/usr/lib/systemd/systemd-networkd"
DEFAULT = ROOT / "packaging/network/zzz-azure-init.network"
PLATFORM = ("0.0.0.0/0", "168.63.129.16/32", "169.254.169.254/32")
PATIENCE = 20.0
VM_ID = "c0ffee00-1111-2222-3333-444444444444"
SERVE = """
import sys, time
sys.path[:0] = {path!r}
from fakeazure.platform.dhcp import Dhcp, Offer
from fakeazure.platform.ledger import Ledger
Dhcp({device!r}, {{{mac!r}: Offer(**{offer!r})}}, Ledger()).__enter__()
print("serving", flush=True)
time.sleep(600)
"""


def entry(mac: str, *ipv4: str, ipv6: tuple[str, ...] = ()) -> dict[str, Any]:
    """A NIC in IMDS's document."""
    return {
        "macAddress": mac.replace(":", "").upper(),
        "ipv4": {
            "ipAddress": [{"privateIpAddress": one, "publicIpAddress": ""} for one in ipv4],
            "subnet": [{"address": ipv4[0].rpartition(".")[0] + ".0", "prefix": "24"}],
        },
        "ipv6": {"ipAddress": [{"privateIpAddress": one} for one in ipv6]},
    }


def in_lab(script: str) -> Any:
    """Run a script in the namespaces; returns the value that its last line of output spells."""
    need_root()
    for tool in ("ip", "networkctl", "dbus-daemon", "unshare"):
        need(tool)
    if not Path(NETWORKD).exists() or subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        unfit("no systemd-networkd, or no network namespaces")
    program = f"from support.network_lab import *\n{textwrap.dedent(script)}"
    ran = subprocess.run(
        [
            "unshare",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            sys.executable,
            "-c",
            program,
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ast.literal_eval(ran.stdout.splitlines()[-1])


class Lab:
    """`nics`: name, MAC address, address, and whether its lease leads to the platform, each.

    `omit`: DHCP options that the leases of the others lack.
    """

    def __init__(self, *nics: tuple[str, str, str, bool], omit: tuple[int, ...] = ()) -> None:
        self.machine = Machine()
        self.data = "/run/azure-init-data"
        self.instance = Instance(data_dir=self.data, vm_id=VM_ID)
        self._mount()
        shell("ip link set lo up; ip netns add far; ip -n far link set lo up")
        for name, mac, address, leads in nics:
            self.attach(name, mac, address, leads, omit=omit)
        self._start_networkd()
        for _name, _mac, address, _leads in nics:
            self.wait(lambda address=address: address in shell("ip -4 addr"))  # type: ignore[misc]

    def attach(self, name: str, mac: str, address: str, leads: bool, *, omit: tuple[int, ...] = ()) -> None:
        """A NIC, with a DHCP server beyond it that is there first."""
        far, gateway = f"p-{name}", address.rpartition(".")[0] + ".1/24"
        shell(
            f"ip -n far link add {far} type veth peer name {name} address {mac};"
            f"ip -n far addr add {gateway} dev {far}; ip -n far link set {far} up"
        )
        hidden = () if leads else (121, 249, *omit)
        offer = {"address": address, "gateway": gateway, "routes": PLATFORM, "omit": hidden}
        code = SERVE.format(path=sys.path, device=far, mac=mac, offer=offer)
        server = subprocess.Popen(
            ["ip", "netns", "exec", "far", sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None and server.stdout.readline() == "serving\n"
        shell(f"ip -n far link set {name} netns $$; ip link set {name} up")

    def _mount(self) -> None:
        for place in ("/run", "/etc/systemd/network", "/usr/lib/systemd/network"):
            shell(f"mkdir -p {place}; mount -t tmpfs -o mode=755 tmpfs {place}")
        shell("mount -t sysfs -o ro sysfs /sys")
        file = Path("/usr/lib/systemd/network") / DEFAULT.name
        file.write_text(DEFAULT.read_text().replace("Driver=hv_netvsc", "Driver=veth"))
        netif = [f"/run/systemd/netif/{name}" for name in ("links", "leases", "lldp")]
        for place in (self.data, "/run/dbus", *netif):
            Path(place).mkdir(parents=True)
        shell("chown -R systemd-network:systemd-network /run/systemd/netif")

    def _start_networkd(self) -> None:
        self.bus = subprocess.Popen(["dbus-daemon", "--system", "--nofork", "--nopidfile"], stderr=subprocess.DEVNULL)
        self.wait(lambda: Path("/run/dbus/system_bus_socket").exists())
        self._start()

    def _start(self) -> None:
        with Path("/run/networkd.log").open("a") as log:
            self.networkd = subprocess.Popen([NETWORKD], stderr=log)

    def restart_networkd(self) -> None:
        """As a boot would: its files are there before it starts."""
        self.networkd.terminate()
        self.networkd.wait()
        self._start()

    def wait(self, reached: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < until, shell("cat /run/networkd.log; ip addr; ip route")
            time.sleep(0.05)

    def plan(self, document: dict[str, Any], *, confirmed: bool = False, config: Config | None = None) -> Plan:
        answer = parse_network(document)
        return plan_answer(self.machine, config or Config(), self.instance, answer, confirmed=confirmed)

    def apply(self, document: dict[str, Any], *, confirmed: bool = False) -> list[str]:
        """The names of the items; the steps are done."""
        plan = self.plan(document, confirmed=confirmed)
        until = self.machine.clock.monotonic() + 60
        enact(self.machine, plan, events=Events(clock=self.machine.clock), deadline=until)
        return [f"{type(item).__name__}: {item.name}" for item in plan]

    def way(self, *words: str) -> str:
        """What the kernel would do: `via 10.0.0.1 dev eth0 src 10.0.0.4`."""
        ran = subprocess.run(["ip", "-j", "route", "get", *words], capture_output=True, text=True)
        if ran.returncode:
            return ran.stderr.strip()
        row = json.loads(ran.stdout)[0]
        return " ".join(f"{key} {row[name]}" for key, name in WORDS.items() if name in row)


WORDS = {"via": "gateway", "dev": "dev", "table": "table", "src": "prefsrc"}


def watched(work: Callable[[], object], link: str) -> list[str]:
    """The kernel's announcements about a link while something is done."""
    log = Path("/run/monitor.log")
    monitor = subprocess.Popen(["ip", "monitor", "link", "address", "route"], stdout=log.open("w"))
    time.sleep(0.3)
    work()
    time.sleep(1.5)
    monitor.terminate()
    monitor.wait()
    return [line for line in log.read_text().splitlines() if f" {link} " in f"{line} " or f" {link}:" in line]


def shell(script: str) -> str:
    ran = subprocess.run(["sh", "-ec", script], capture_output=True, text=True)
    assert ran.returncode == 0, f"{script}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def files_below(directory: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(Path(directory).iterdir()) if path.is_file()}
