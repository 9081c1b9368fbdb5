"""The network of a machine from a pool as a container: the platform moves it, or exchanges the interface."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fakeazure.machines.network import NoNetwork, ip, make_veth, make_veths, serve_leases
from fakeazure.platform.addresses import WIRESERVER, gateway_for
from fakeazure.platform.dhcp import Dhcp, Offer, offers_for
from fakeazure.platform.events import LinkChange
from fakeazure.platform.fabric import Fabric
from fakeazure.platform.pool import OS_DISK, SAVABLE, Pool, is_pooled, pool_vm
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.vm import Vm

START_SECS = 30.0  # a container has its network namespace by then
APART_SECS = 1.0  # between two links that come or go
ON_ITS_WAY = "newnic"  # the name of an interface until the container has it
SECONDARY, SECONDARY_OUTSIDE = "eth9", "azure9"
SECONDARY_MAC, SECONDARY_ADDRESS = "00:0d:3a:00:00:99", "10.9.9.4"


def network_vm(scenario: Scenario, fabric: Fabric | None = None) -> Vm:
    """The VM whose network the next boot has. A VF belongs to the pool's interface, if the scenario has one."""
    if not is_pooled(scenario.vm) or (fabric and fabric.pool and fabric.pool.moved):
        return scenario.vm
    vm = pool_vm(scenario.vm, scenario.pool)
    return replace(vm, nics=tuple(replace(nic, vf="vf" in scenario.pool.others) for nic in vm.nics))


class ContainerNetwork:
    """The machine's links and the DHCP servers behind them. A lock keeps a boot and a move apart."""

    def __init__(self, scenario: Scenario, *, stem: str, inside: str) -> None:
        self._scenario, self._stem, self._inside = scenario, stem, inside
        self._wireserver = scenario.wireserver.address or WIRESERVER
        self._servers = contextlib.ExitStack()
        self._offers: dict[str, Offer] = {}
        self._outside: list[str] = []
        self._lock = threading.RLock()
        self.links: list[str] = []  # of the machine, at its start
        self.leader: Callable[[], int | None] = lambda: None  # a process in the machine's network namespace

    @property
    def _first(self) -> str:
        return f"{self._stem}0"

    def make(self, vm: Vm) -> None:
        """For each boot: the interfaces inside disappear with their container."""
        with self._lock:
            self._servers.close()
            for name in (*self._outside, SECONDARY_OUTSIDE):
                with contextlib.suppress(NoNetwork):
                    ip("link", "delete", name)
            self._outside, self.links = make_veths(
                vm, stem=self._stem, inside=self._inside, wireserver=self._wireserver
            )

    def serve(self, fabric: Fabric, vm: Vm) -> None:
        with self._lock:
            self._offers = offers_for(vm, wireserver=self._wireserver, leases=self._scenario.dhcp)
            serve_leases(self._servers, vm, self._outside, self._offers, fabric.ledger)

    def close(self) -> None:
        with self._lock:
            self._servers.close()

    def change(self, fabric: Fabric) -> None:
        """What the platform does to the network when a customer takes the VM."""
        pool = self._scenario.pool
        if fabric.pool is None or fabric.pool.type == OS_DISK or pool.link == "none":
            return
        process = self._wait_for_leader()
        with self._lock:
            try:
                if fabric.pool.type == SAVABLE:
                    self._exchange(fabric, pool, process)
                else:
                    self._move(fabric, pool)
            except NoNetwork as error:  # the machine has ended in between
                note(fabric, f"the platform cannot change the network: {error}")

    def _wait_for_leader(self) -> int:
        until = time.monotonic() + START_SECS
        while (process := self.leader()) is None and time.monotonic() < until:
            time.sleep(0.05)
        return process or 0

    def _move(self, fabric: Fabric, pool: Pool) -> None:
        """Running: the carrier goes, and comes back in another network with another DHCP server's answers."""
        old, new = network_vm(self._scenario), fabric.vm
        ip("link", "set", self._first, "down")
        note(fabric, "the platform takes the network from the machine: no carrier")
        if gateway_for(old.interfaces[0]) != gateway_for(new.interfaces[0]):
            ip("address", "delete", gateway_for(old.interfaces[0]), "dev", self._first)
            ip("address", "add", gateway_for(new.interfaces[0]), "dev", self._first)
        self._offers.clear()
        self._offers.update(offers_for(new, wireserver=self._wireserver, leases=self._scenario.dhcp))
        time.sleep(pool.down_secs)
        ip("link", "set", self._first, "up")
        note(fabric, "the platform moves the machine to its customer's network: carrier")

    def _exchange(self, fabric: Fabric, pool: Pool, process: int) -> None:
        """Savable: the interface is detached, and another is attached."""
        if "vf" in pool.others:
            inside_network(process, "link", "delete", "vf0")
            note(fabric, "the platform detaches the VF")
            time.sleep(APART_SECS)
        self._servers.close()
        ip("link", "delete", self._first)
        note(fabric, "the platform detaches the network interface")
        time.sleep(pool.down_secs)
        if "docker0" in pool.others:
            inside_network(process, "link", "add", "docker0", "type", "bridge")
            inside_network(process, "link", "set", "docker0", "up")
            note(fabric, "the machine makes a link docker0")
            time.sleep(APART_SECS)
        if "secondary" in pool.others:
            self._attach_secondary(fabric, process)
        nic = fabric.vm.interfaces[0]
        gateway = gateway_for(nic)
        make_veth(inside=ON_ITS_WAY, outside=self._first, mac=nic.mac, gateway=gateway, wireserver=self._wireserver)
        if pool.link_up_secs:
            ip("link", "set", self._first, "down")
        self.serve(fabric, fabric.vm)
        ip("link", "set", ON_ITS_WAY, "netns", str(process), "name", pool.attached_as)
        note(fabric, f"the platform attaches {pool.attached_as} with {nic.mac}")
        if pool.link_up_secs:
            time.sleep(pool.link_up_secs)
            ip("link", "set", self._first, "up")
            note(fabric, f"{pool.attached_as} has a carrier")

    def _attach_secondary(self, fabric: Fabric, process: int) -> None:
        """An interface of the VM that is not its primary one: its lease has no routes, and the platform is silent."""
        ip("link", "add", SECONDARY_OUTSIDE, "type", "veth", "peer", "name", ON_ITS_WAY, "address", SECONDARY_MAC)
        ip("address", "add", "10.9.9.1/24", "dev", SECONDARY_OUTSIDE)
        ip("link", "set", SECONDARY_OUTSIDE, "up")
        ip("route", "replace", "blackhole", f"{SECONDARY_ADDRESS}/32")
        offer = Offer(address=SECONDARY_ADDRESS, gateway="10.9.9.1/24", wireserver=self._wireserver, routes=())
        self._servers.enter_context(Dhcp(SECONDARY_OUTSIDE, {SECONDARY_MAC: offer}, fabric.ledger))
        ip("link", "set", ON_ITS_WAY, "netns", str(process), "name", SECONDARY)
        note(fabric, f"the platform attaches {SECONDARY}, a secondary interface")
        time.sleep(APART_SECS)


def note(fabric: Fabric, text: str) -> None:
    fabric.ledger.add(LinkChange(t=fabric.ledger.now(), text=text))


def inside_network(process: int, *arguments: str) -> None:
    """The ip tool in the network namespace of the machine. A link that is gone already is no problem."""
    subprocess.run(
        ["nsenter", f"--target={process}", "--net", "ip", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip


def namespace_leader(child: int) -> int | None:
    """The first descendant of a process that has another network namespace than ours."""
    ours, waiting = os.readlink("/proc/self/ns/net"), [child]
    while waiting:
        process = waiting.pop(0)
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{process}/ns/net") != ours:
                return process
            for thread in Path(f"/proc/{process}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
    return None
