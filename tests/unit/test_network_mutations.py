"""IMDS's document with random faults: no exception, other NICs are configured all the same, and the primary stays."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings, strategies as st

from azureinit.addresses import IMDS, WIRESERVER
from azureinit.facts.nics import read_nics
from azureinit.machine.netlink import Address
from azureinit.plan.actions import Caution, Step
from azureinit.plan.show import as_text
from azureinit.record import replace
from azureinit.run.enact import enact
from azureinit.sources.network_metadata import parse_network
from azureinit.telemetry.events import Events
from support.several_nics import NAMES, A, B, C, Several, commands, entry, network, writes

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # nothing is synced there
FAULTS: tuple[Any, ...] = (
    None, "", 0, -1, [], {}, "x", "10.0.0.1", "10.0.1.1", "10.0.0.4", "10.0.1.4", " 10.0.0.7 ", "fd00::9", "10.0.0.256",
    "33", "24", True, 1.5, "000D3A123457", "00:0D:3A:12:34:58", ["a"], {"ipAddress": []}, "\ud800", "\0", "a\nb",
    10**400, "9" * 5000,
)  # fmt: skip
GATEWAYS = {"10.0.0.1", "10.0.1.1", "10.0.2.1"}


class Kept(Several):
    """Its kernel has what was set, and its systemd-networkd has loaded what was written."""

    def change_addresses(self, index: int, *, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
        kept = [one for one in self.addresses if one.index != index or one.address not in remove]
        new = [
            Address(index=index, family=6 if ":" in one else 4, address=one, prefix=32, scope="global") for one in add
        ]
        self.addresses = (*kept, *new)

    def carry_out(self, document: Any, *, confirmed: bool) -> Any:
        plan = self.plan(document, confirmed=confirmed)
        enact(self, plan, events=Events(clock=self.clock), deadline=1e9)
        for path in writes(plan):
            index = 2 + next(number for number, mac in enumerate((A, B, C)) if mac.replace(":", "") in path)
            self.put_state(index, path)
        return plan


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*place, key))


def spoil(document: Any, chance: random.Random) -> set[int]:
    """Changes the document in up to three places; returns the numbers of the entries that it has changed."""
    touched: set[int] = set()
    for _fault in range(chance.choice((0, 1, 1, 1, 2, 3))):
        place = chance.choice([one for one in places(document) if len(one) >= 2])
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        touched.add(place[1])
        if len(place) > 2 and chance.random() < 0.3:
            del holder[place[-1]]
        else:
            holder[place[-1]] = copy.deepcopy(chance.choice(FAULTS))
    return touched


def check_plan(plan: Any, *, primary: str) -> None:
    as_text(plan, privileged=True)
    assert all("\n" not in item.why and len(item.why) < 600 for item in plan)
    assert {*commands(plan)} <= {"networkctl reload"}
    for path, one in writes(plan).items():
        if primary.replace(":", "") in path:
            assert b"RouteMetric=100\n" in one.data and b"Table=" not in one.data  # type: ignore[operator]


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 1 << 32))
def test_faults_in_a_document_spoil_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    primary = chance.choice((A, B))
    good = network(
        entry(A, "10.0.0.4", *("10.0.0.5", "10.0.0.6")[: chance.randrange(3)]),
        entry(B, "10.0.1.4", *("10.0.1.5",)[: chance.randrange(2)], ipv6=("fd00::4", "fd00::5")[: chance.randrange(3)]),
        entry(C, "10.0.2.4"),
    )
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        machine = Kept(Path(place, "one"), A, B, C, primary=primary)
        index = (A, B).index(primary) + 2
        lease = [replace(machine.routes[index - 2], destination=host, prefix=32) for host in (WIRESERVER, IMDS)]
        machine.routes = (*machine.routes, *lease)
        leased = {one.address for one in machine.addresses}
        for number in range(4):
            document = copy.deepcopy(good)
            touched, answer = spoil(document, chance), parse_network(document)
            confirmed = chance.random() < 0.5 and not answer.warnings
            plan = machine.carry_out(document, confirmed=confirmed)
            check_plan(plan, primary=primary)
            left = machine.plan(document, confirmed=confirmed)
            assert not [item.name for item in left if isinstance(item, Step)], (document, left)
            held = {one.address for one in machine.addresses}
            assert leased <= held and not GATEWAYS & held, document
            if number == 0 and answer.nics:
                check_others(document, plan, touched, primary=primary)
        for _answer in range(3):
            machine.carry_out(good, confirmed=True)
        fresh = Kept(Path(place, "other"), A, B, C, primary=primary)
        fresh.carry_out(good, confirmed=True)
        assert read_nics(machine).files == read_nics(fresh).files, "two good answers repair everything"


def check_others(document: Any, plan: Any, touched: set[int], *, primary: str) -> None:
    """Each entry without a fault is configured, unless another one has its address or MAC address, which is told."""
    told = " ".join(item.why for item in plan if isinstance(item, Caution))
    written = b"".join(one.data for one in writes(plan).values())  # type: ignore[misc]
    for number, mac in enumerate((A, B, C)):
        doubted = f"{NAMES[mac]} stays without" in told or "earlier entry" in told or f"{mac} both have" in told
        doubted = doubted or f"{mac} and " in told
        if number not in touched and mac != primary and not doubted:
            assert f"From=10.0.{number}.4/32\n".encode() in written, (document, told)
