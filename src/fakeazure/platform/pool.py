"""The pool of a pre-provisioned VM: the VM before a customer takes it, and the way out."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from fakeazure.platform.events import Reused
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.vm import Interface, Key, Vm

RUNNING, SAVABLE, OS_DISK = Vm.POOLED
# A valid key without a known private key, and not the one of an ordinary scenario.
POOL_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfsO4sB+UbfFvqYxmbWH4D+egVGdZulpH65fH8x3poG pooladmin@fakeazure"
SETTLED_SECS = 3.0  # after Ready, a VM waits in the pool; it is restarted so much later
RECEIVED_SECS = 0.1  # a VM has its customer's data so long after the request
CUT, OFF = "cut", "off"  # the power fails; the host shuts the VM down


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The VM in the pool, which `vm.pps_type` puts there, and how a customer takes it."""

    id: str = ""  # vmId of the metadata in the pool; empty: the customer's
    name: str = "pool-vm"
    username: str = "pooladmin"
    password: str | None = None
    keys: tuple[Key | str, ...] = (POOL_KEY,)
    address: str = "10.8.0.4"
    mac: str = ""  # empty: Running keeps its interface, Savable has another one in the pool
    after_secs: float = 0.0  # from Ready in the pool until a customer takes the VM
    after_polls: int = 0  # requests for reprovisiondata that are then still answered 404
    on_call: bool = False  # taken only by `Machine.take()` or POST /fakeazure/reuse
    pps_type_after: str = "None"  # ppsType of the metadata after the reuse
    link: str = "auto"  # in container and boot: what happens to the network interface
    down_secs: float = 2.0  # how long it has no carrier, or is detached
    attached_as: str = "eth0"  # Savable, in a container: the name of the interface that is attached
    link_up_secs: float = 0.0  # Savable: how long the attached interface has no carrier
    others: tuple[str, ...] = ()  # Savable: other links that come and go
    restarts: tuple[str, ...] = ()  # when the machine loses its power and starts again

    LINKS = ("auto", "none")  # auto: as Azure does for this type; none: the event is lost
    OTHERS = ("vf", "secondary", "docker0")
    RESTARTS = ("ready", "pool", "moved", "data")


def is_pooled(vm: Vm) -> bool:
    return vm.pps_type in Vm.POOLED


def pool_vm(vm: Vm, pool: Pool) -> Vm:
    """The VM in the pool. It has the customer's hardware, and nothing else of the customer's."""
    customers = vm.interfaces[0].mac
    other = "00:0d:3a:" + hashlib.sha256(f"{vm.id}/pool".encode()).digest()[:3].hex(":")
    mac = pool.mac or (other if vm.pps_type == SAVABLE else customers)
    return Vm(
        id=pool.id or vm.id,
        name=pool.name,
        username=pool.username,
        password=pool.password,
        keys=pool.keys,
        pps_type=vm.pps_type,
        generation=vm.generation,
        location=vm.location,
        nics=(Interface(mac=mac, address=pool.address),),
        disks=vm.disks,
        temporary_disk=vm.temporary_disk,
        temporary_disk_gb=vm.temporary_disk_gb,
    )


class PoolLife:
    """One VM on its way from the pool to its customer. Reports come from the server's thread, calls from any thread."""

    def __init__(self, vm: Vm, pool: Pool, ledger: Ledger) -> None:
        self.settings, self.type = pool, vm.pps_type
        self.pool_vm = pool_vm(vm, pool)
        self.customers_vm = replace(vm, pps_type=pool.pps_type_after if vm.pps_type != OS_DISK else "None")
        self.taken = False  # the customer's data are there
        self.moved = False  # the network is the customer's
        self.restart = ""  # CUT or OFF: the owner of the machine has to restart it
        self.move: Callable[[], None] | None = None  # moves or exchanges the interface; may take seconds
        self._ledger = ledger
        self._lock = threading.RLock()
        self._begun = self._called = False
        self._polls_left: int | None = None
        self._restarts = list(pool.restarts)
        self._after_restart: Callable[[], None] | None = None
        self._timers: list[threading.Timer] = []

    @property
    def vm(self) -> Vm:
        """The VM as the platform describes it now."""
        return self.customers_vm if self.taken else self.pool_vm

    @property
    def network_vm(self) -> Vm:
        """The VM whose network the machine has."""
        return self.customers_vm if self.moved else self.pool_vm

    @property
    def waits(self) -> bool:
        """Whether the VM has reported Ready in the pool, and no customer has it yet."""
        return self._begun and not self.taken

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def ready(self) -> None:
        """The VM has reported Ready in the pool."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
        self._restart_at("ready", self._settle)

    def call(self) -> bool:
        """A customer takes the VM now. False: the VM was taken before."""
        with self._lock:
            if self._called:
                return False
            self._begun = self._called = True
        self._later(0.0, self._move)
        return True

    def restarted(self) -> None:
        self.restart = ""
        then, self._after_restart = self._after_restart, None
        if then:
            then()

    def has_data(self) -> bool:
        """Whether this request for reprovisiondata gets the customer's data."""
        with self._lock:
            if self._polls_left is None or self.type == OS_DISK:
                return False
            if self._polls_left:
                self._polls_left -= 1
                return False
            self._take()
        if "data" in self._restarts:
            self._later(RECEIVED_SECS, lambda: self._restart_at("data", lambda: None))
        return True

    def _settle(self) -> None:
        if "pool" in self._restarts:
            self._later(SETTLED_SECS, lambda: self._restart_at("pool", self._wait))
        else:
            self._wait()

    def _wait(self) -> None:
        """In the pool, until the customer comes."""
        with self._lock:
            if self.settings.on_call or self._called:
                return
            self._called = True
        self._later(self.settings.after_secs, self._move)

    def _move(self) -> None:
        if self.move:
            self.move()
        self.moved = self.settings.link != "none"
        self._restart_at("moved", self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            self._polls_left = self.settings.after_polls
            if self.type == OS_DISK or not self._polls_left:
                self._take()
            if self.type == OS_DISK:
                self.moved = True
                # The host shuts the VM down, and starts it as the customer's.
                self.restart = OFF

    def _take(self) -> None:
        if not self.taken:
            self.taken = True
            self._ledger.add(Reused(t=self._ledger.now(), vm_id=self.customers_vm.id, pps_type=self.type))

    def _restart_at(self, moment: str, then: Callable[[], None]) -> None:
        """Goes on after a restart, if the scenario has one at this moment."""
        with self._lock:
            due = moment in self._restarts
            if due:
                self._restarts.remove(moment)
                self._after_restart, self.restart = then, CUT
        if not due:
            then()

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        """At once if there is nothing to wait for, so that the next request finds it done."""
        if not seconds and not self.move:
            then()
            return
        timer = threading.Timer(seconds, then)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()
