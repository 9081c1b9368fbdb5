"""A machine from a pool under QEMU: the platform moves it to another network, or exchanges its network card."""

from __future__ import annotations

import time
from pathlib import Path

from fakeazure.machines.login import prove_pool_login
from fakeazure.machines.network import NoNetwork, ip
from fakeazure.machines.pool_machine import network_vm, note
from fakeazure.machines.qemu import network_card
from fakeazure.machines.qemu_process import QemuProcess
from fakeazure.machines.qmp import MonitorLost
from fakeazure.platform.addresses import WIRESERVER, gateway_for
from fakeazure.platform.dhcp import Offer, offers_for
from fakeazure.platform.fabric import Fabric
from fakeazure.platform.pool import OS_DISK, SAVABLE
from fakeazure.platform.scenario import Scenario

UNPLUG_SECS = 120.0  # an emulated machine is slow
CARD = "nic0"


class Reuse:
    """What happens to one running guest when a customer takes it."""

    def __init__(
        self,
        fabric: Fabric,
        guest: QemuProcess,
        scenario: Scenario,
        *,
        offers: dict[str, Offer],
        tap: str,
        pool_key: Path | None,
    ) -> None:
        self._fabric, self._guest, self._scenario = fabric, guest, scenario
        self._offers, self._tap, self._pool_key = offers, tap, pool_key

    def try_login(self, directory: Path) -> None:
        pool = self._fabric.pool
        if pool:
            address = pool.network_vm.primary.address
            prove_pool_login(self._fabric, address=address, private_key=self._pool_key, directory=directory)

    def carry_out(self) -> None:
        pool = self._fabric.pool
        if pool is None:
            return
        self.try_login(self._fabric.directory)
        if pool.settings.link == "none":
            return
        try:
            if pool.type == OS_DISK:
                self._change_network()  # the VM is shut down, and starts in its customer's network
            elif pool.type == SAVABLE:
                self._exchange()
            else:
                self._move()
        except (MonitorLost, NoNetwork) as error:  # the machine has ended in between
            note(self._fabric, f"the platform cannot change the network: {error}")

    def _move(self) -> None:
        self._guest.set_carrier(CARD, up=False)
        note(self._fabric, "the platform takes the network from the machine: no carrier")
        self._change_network()
        time.sleep(self._scenario.pool.down_secs)
        self._guest.set_carrier(CARD, up=True)
        note(self._fabric, "the platform moves the machine to its customer's network: carrier")

    def _exchange(self) -> None:
        if not self._guest.unplug(CARD, seconds=UNPLUG_SECS):
            note(self._fabric, "the machine does not let its network card go")
            return
        note(self._fabric, "the platform detaches the network interface")
        self._change_network()
        time.sleep(self._scenario.pool.down_secs)
        self._guest.plug(network_card(self._fabric.vm, 0))
        note(self._fabric, f"the platform attaches a network card with {self._fabric.vm.interfaces[0].mac}")

    def _change_network(self) -> None:
        """Another subnet and another DHCP server's answers, behind the same tap device."""
        old, new = network_vm(self._scenario).interfaces[0], self._fabric.vm.interfaces[0]
        if gateway_for(old) != gateway_for(new):
            ip("address", "delete", gateway_for(old), "dev", self._tap)
            ip("address", "add", gateway_for(new), "dev", self._tap)
        wireserver = self._scenario.wireserver.address or WIRESERVER
        self._offers.clear()
        self._offers.update(offers_for(self._fabric.vm, wireserver=wireserver, leases=self._scenario.dhcp))
