"""A user's key pairs: planned and applied on a tree."""

from __future__ import annotations

from typing import Any

from azureinit.apply.executor import apply_plan
from azureinit.errors import KeysFailed
from azureinit.facts.key_files import read_pair_files
from azureinit.machine import Machine
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Step, Way
from azureinit.plan.keypairs import pair_paths, plan_key_pairs
from azureinit.record import Secret, replace
from azureinit.sources.metadata import KeyPair
from azureinit.telemetry.events import Events
from support.facts import altered, parts
from support.ssh_trees import facts_of

PRIVATE = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
PUBLIC = "ssh-rsa AAAA"
THUMBPRINT = "AB" * 20
ID = "/home/ada/.ssh/id_rsa"


def given(path: str | None = ID, **changes: Any) -> KeyPair:
    made = KeyPair(thumbprint=THUMBPRINT, path=path, public_key=PUBLIC, private_key=Secret(PRIVATE))
    return replace(made, **changes)


def plan(machine: Machine, *pairs: KeyPair, home: str = "/home/ada", **changes: Any) -> tuple[Any, ...]:
    facts = facts_of(machine, **changes)
    paths = pair_paths(username="ada", home=home, pairs=pairs)
    facts = altered(facts, pair_files=read_pair_files(machine, home=home, paths=paths))
    return plan_key_pairs(username="ada", home=home, pairs=pairs, **parts(facts, "host", "accounts", "admin"))


def actions(plan: tuple[Any, ...]) -> tuple[Any, ...]:
    (step,) = (item for item in plan if isinstance(item, Step))
    assert step.failure is KeysFailed
    (way,) = step.ways
    assert isinstance(way, Way), way
    return way.actions


def apply(machine: Machine, plan: tuple[Any, ...]) -> None:
    events = Events(clock=machine.clock)
    apply_plan(machine, plan, journal=MemoryJournal(), events=events, deadline=float("inf"))
