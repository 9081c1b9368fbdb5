"""An estate: many machines behind one set of doors, known by the address they ask from or by a prefix of the path."""

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

from fakeazure.doors import Door, HostPluginDoor, ImdsDoor, WireserverDoor, request_event
from fakeazure.events import Told
from fakeazure.fabric import Address
from fakeazure.faults import OK, Answer, Pace
from fakeazure.http import HttpRequest, Response, json_response
from fakeazure.ledger import Ledger
from fakeazure.machine import Machine
from fakeazure.place import Place
from fakeazure.serve import LOOPBACK, Doors, Outcome, Reception, Service
from fakeazure.spec import Scenario

By = Literal["address", "path", "anyone"]  # anyone: there is but one machine, and whoever asks is that one
KINDS: tuple[type[Door], ...] = (ImdsDoor, WireserverDoor, HostPluginDoor)
PREFIX = re.compile(r"/vm/([^/?]+)(.*)", re.DOTALL)
FIRST = ipaddress.IPv4Address("127.1.0.1")  # all of 127.0.0.0/8 is this computer, so machines need not share
HANDLES = 4  # what a machine may hold open at a time: a connection to each door, and its ledger


class NotDistinct(ValueError):
    """Two machines that could not be told apart."""


class NoRoom(Exception):
    """More machines than this process may hold files and connections for."""


class Stranger:
    """Answers whoever is none of the machines, and keeps a note of it."""

    pace = Pace()

    def __init__(self, kind: type[Door], ledger: Ledger, why: str) -> None:
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


class Estate:
    """
    with Estate(by="path") as estate:
        machines = [estate.add(Scenario(vm=Vm(name=f"web-{n}"))) for n in range(1000)]
        run_my_agents([(machine.imds, machine.wireserver) for machine in machines])
        assert all(machine.judge().ok for machine in machines)
    """

    def __init__(
        self,
        *,
        by: By = "path",
        ledger: Path | None = None,
        directory: Path | None = None,
        places: tuple[Address, Address, Address] = (LOOPBACK, LOOPBACK, LOOPBACK),
    ) -> None:
        """`ledger` is for what comes from nobody known; each machine has one of its own."""
        self.by = by
        self.machines: dict[str, Machine] = {}  # by name, in the order they came
        self.ledger = Ledger(ledger)
        self._place = Place(directory)
        self._known: dict[str, dict[type[Door], Door]] = {}  # by address, or by name and by id
        self._doors = Doors()
        try:
            self.imds, self.wireserver, self.host_plugin = (
                self._doors.open(self._reception(kind), at=at) for kind, at in zip(KINDS, places, strict=True)
            )
        except OSError:
            self._doors.stop()
            raise

    def add(
        self,
        scenario: Scenario,
        *,
        address: str | None = None,
        ledger: Path | None = None,
        eject: bool = False,
        hearing: Callable[[Machine, Told], None] | None = None,
    ) -> Machine:
        """`address`: where it asks from, for an estate by address; a free one of the loopback network if not given."""
        name, number = scenario.vm.name, scenario.vm.id
        marks = {"address": [address or self._free_address()], "path": [*{name, number}], "anyone": [""]}[self.by]
        for mark in (name, *marks):
            if mark in self.machines or mark in self._known:
                whom = f"are known as {mark!r}" if mark else "are too many for an estate of anyone"
                raise NotDistinct(f"two machines {whom}: each needs its own name, id and address")
        keys = self._place
        home = Place(keys() / number)
        machine = Machine(scenario, ledger=ledger, eject=eject, place=home, keys=keys, hearing=hearing)
        machine.address = marks[0] if self.by == "address" else ""
        prefix = f"/vm/{quote(name, safe='')}" if self.by == "path" else ""
        machine.imds, machine.wireserver = self.imds + prefix, self.wireserver + prefix
        machine.host_plugin = self.host_plugin + prefix
        self.machines[name] = machine
        doors = {kind: kind(machine) for kind in KINDS}
        self._known |= dict.fromkeys(marks, doors)
        return machine

    def _free_address(self) -> str:
        address = FIRST + len(self.machines)
        while str(address) in self._known:
            address += 1
        return str(address)

    def start(self) -> Self:
        self._doors.start()
        return self

    def stop(self) -> None:
        self._doors.stop()
        for machine in self.machines.values():
            machine.close()
        self.ledger.close()
        self._place.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _reception(self, kind: type[Door]) -> Reception:
        def receive(address: str, request: HttpRequest) -> tuple[Service, HttpRequest] | None:
            mark = address if self.by == "address" else ""
            if self.by == "path":
                mark, request = unprefixed(request)
            if (doors := self._known.get(mark)) is None:
                return Stranger(kind, self.ledger, self._unknown(mark, address)), request
            return (doors[kind], request) if doors[kind].enabled else None

        return receive

    def _unknown(self, mark: str, address: str) -> str:
        if self.by == "address":
            return f"no machine asks from {address}"
        return f"no machine is called {mark!r}" if mark else "which machine is this? its paths begin with /vm/NAME"


def unprefixed(request: HttpRequest) -> tuple[str, HttpRequest]:
    """Whom a request is about, and what it asks; a request without a prefix is about nobody."""
    if not (found := PREFIX.fullmatch(request.target)):
        return "", request
    rest = found[2] if found[2].startswith("/") else "/" + found[2]
    return unquote(found[1]), replace(request, target=rest)


def make_room(machines: int) -> None:
    """Every connection and every ledger is a file to the kernel, which allows a process only so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 256 + machines * HANDLES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted, hard if hard == resource.RLIM_INFINITY else max(hard, wanted))
        )
    except (ValueError, OSError):  # only root may go beyond the hard limit
        raise NoRoom(
            f"{machines} machines need up to {wanted} open files and connections, and {hard} are allowed: "
            f"raise the limit (ulimit -n {wanted}), or take fewer"
        ) from None
