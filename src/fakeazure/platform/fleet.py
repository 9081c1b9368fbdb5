"""A fleet: many machines behind one HTTP server, told apart by client address or by a prefix of the path."""

from __future__ import annotations

import ipaddress
import re
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote, unquote

from fakeazure.platform.addresses import LOOPBACK, Endpoints
from fakeazure.platform.events import Told
from fakeazure.platform.faults import OK, Answer, Pace
from fakeazure.platform.http import HttpRequest, Response, json_response
from fakeazure.platform.http_server import HttpServer, Outcome, Router, Service
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.machine import Machine
from fakeazure.platform.scenario import Scenario
from fakeazure.platform.services import (
    HostPluginService,
    ImdsService,
    MachineService,
    WireserverService,
    request_event,
)
from fakeazure.platform.work_directory import WorkDirectory

By = Literal["address", "path", "anyone"]  # anyone: one machine, to which every request belongs
KINDS: tuple[type[MachineService], ...] = (ImdsService, WireserverService, HostPluginService)
PREFIX = re.compile(r"/vm/([^/?]+)(.*)", re.DOTALL)
FIRST = ipaddress.IPv4Address("127.1.0.1")  # all of 127.0.0.0/8 is loopback, so each machine can have an address
HANDLES = 4  # open files of one machine at most: a connection to each of three services, and its ledger


class NotDistinct(ValueError):
    """Two machines with the same name, id or address."""


class TooManyMachines(Exception):
    """The limit of open files does not allow so many machines."""


class UnknownClient:
    """Answers 404 to a request that belongs to no machine, and records it in the fleet's ledger."""

    pace = Pace()

    def __init__(self, kind: type[MachineService], ledger: Ledger, why: str) -> None:
        self.name, self.server, self.now = kind.name, kind.server, ledger.now
        self._ledger, self._why = ledger, why

    def scripted(self, request: HttpRequest) -> tuple[Answer | None, bool]:
        return OK, False

    def slow(self, request: HttpRequest) -> bool:
        return False

    def answer(self, request: HttpRequest) -> Response:
        return json_response(404, {"error": f"fakeazure: {self._why}"})

    def note(self, request: HttpRequest, outcome: Outcome) -> None:
        event = request_event(self.name, request, outcome, now=self.now())
        self._ledger.add(replace(event, note=self._why))


class Fleet:
    """
    with Fleet(by="path") as fleet:
        machines = [fleet.add(Scenario(vm=Vm(name=f"web-{n}"))) for n in range(1000)]
        run_my_agents([(machine.imds, machine.wireserver) for machine in machines])
        assert all(machine.judge().ok for machine in machines)
    """

    def __init__(
        self,
        *,
        by: By = "path",
        ledger: Path | None = None,
        directory: Path | None = None,
        listen_at: Endpoints = LOOPBACK,
    ) -> None:
        """`ledger`: for requests that belong to no machine. Each machine has a ledger of its own."""
        self.by = by
        self.machines: dict[str, Machine] = {}  # by name, in the order of `add`
        self.ledger = Ledger(ledger)
        self._work = WorkDirectory(directory)
        # By address, or by name and by id.
        self._services: dict[str, dict[type[MachineService], MachineService]] = {}
        self._server = HttpServer()
        try:
            self.imds, self.wireserver, self.host_plugin = (
                self._server.listen(self._router(kind), at=at) for kind, at in zip(KINDS, listen_at, strict=True)
            )
        except OSError:
            self._server.stop()
            raise

    def add(
        self,
        scenario: Scenario,
        *,
        address: str | None = None,
        ledger: Path | None = None,
        eject: bool = False,
        on_told: Callable[[Machine, Told], None] | None = None,
    ) -> Machine:
        """`address`: the machine's client address, in a fleet by address; default: a free loopback address."""
        name, number = scenario.vm.name, scenario.vm.id
        labels = {"address": [address or self._free_address()], "path": [*{name, number}], "anyone": [""]}[self.by]
        for label in (name, *labels):
            if label in self.machines or label in self._services:
                problem = f"two machines are known as {label!r}" if label else "a fleet by 'anyone' holds one machine"
                raise NotDistinct(f"{problem}: each machine needs its own name, id and address")
        work = WorkDirectory(self._work() / number)
        machine = Machine(scenario, ledger=ledger, eject=eject, work=work, keys=self._work, on_told=on_told)
        machine.address = labels[0] if self.by == "address" else ""
        prefix = f"/vm/{quote(name, safe='')}" if self.by == "path" else ""
        machine.imds, machine.wireserver = self.imds + prefix, self.wireserver + prefix
        machine.host_plugin = self.host_plugin + prefix
        self.machines[name] = machine
        services = {kind: kind(machine) for kind in KINDS}
        self._services |= dict.fromkeys(labels, services)
        return machine

    def _free_address(self) -> str:
        address = FIRST + len(self.machines)
        while str(address) in self._services:
            address += 1
        return str(address)

    def start(self) -> Self:
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop()
        for machine in self.machines.values():
            machine.close()
        self.ledger.close()
        self._work.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _router(self, kind: type[MachineService]) -> Router:
        def route(address: str, request: HttpRequest) -> tuple[Service, HttpRequest] | None:
            label = address if self.by == "address" else ""
            if self.by == "path":
                label, request = unprefixed(request)
            if (services := self._services.get(label)) is None:
                return UnknownClient(kind, self.ledger, self._why_unknown(label, address)), request
            return (services[kind], request) if services[kind].enabled else None

        return route

    def _why_unknown(self, label: str, address: str) -> str:
        if self.by == "address":
            return f"no machine has the address {address}"
        return (
            f"no machine has the name {label!r}" if label else "the path names no machine: it must begin with /vm/NAME"
        )


def unprefixed(request: HttpRequest) -> tuple[str, HttpRequest]:
    """The machine's name or id from the `/vm/NAME` prefix, and the request without it; '': there is no prefix."""
    if not (found := PREFIX.fullmatch(request.target)):
        return "", request
    rest = found[2] if found[2].startswith("/") else "/" + found[2]
    return unquote(found[1]), replace(request, target=rest)


def raise_file_limit(machines: int) -> None:
    """Allows the connections and ledgers of so many machines, which all count as open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 256 + machines * HANDLES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted, hard if hard == resource.RLIM_INFINITY else max(hard, wanted))
        )
    except (ValueError, OSError):  # only root may go beyond the hard limit
        raise TooManyMachines(
            f"{machines} machines need up to {wanted} open files and connections, and {hard} are allowed: "
            f"raise the limit (ulimit -n {wanted}), or use fewer machines"
        ) from None
