"""Changes of the metadata while the machine runs: after a number of requests, after Ready, or on command."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fakeazure.platform.events import MetadataChanged
from fakeazure.platform.imds_document import overlay
from fakeazure.platform.vm import Change, Imds

if TYPE_CHECKING:
    from fakeazure.platform.machine import Machine


class NoSuchChange(LookupError):
    """The scenario has no change of this name; the text lists those it has."""


class ImdsChanges:
    """The changes of one machine's metadata. Each of the scenario's happens once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._left = list(machine.metadata.changes)
        self._requests = 0
        self._lock = threading.RLock()

    def count_request(self) -> None:
        """After an answer to /metadata/instance."""
        with self._lock:
            self._requests += 1
            for change in [one for one in self._left if 0 < one.after_requests <= self._requests]:
                self.make(change, why=f"after {counted(self._requests)}")

    def ready(self) -> None:
        with self._lock:
            for change in [one for one in self._left if one.after_ready]:
                self.make(change, why="after Ready")

    def call(self, name: str) -> None:
        """The change of this name, now; also one that happened before."""
        known = [one for one in self._machine.metadata.changes if one.name]
        change = next((one for one in known if one.name == name), None)
        if change is None:
            names = ", ".join(one.name for one in known) or "none"
            raise NoSuchChange(f"the scenario has no change {name!r} in [[imds.changes]]; its named changes: {names}")
        self.make(change, why="on command")

    def make(self, change: Change, *, why: str = "on command") -> None:
        machine = self._machine
        with self._lock:
            self._left = [one for one in self._left if one is not change]
            machine.metadata = changed(machine.metadata, change)
            text = f"the metadata change{f' ({change.name})' if change.name else ''}, {why}"
            machine.ledger.add(MetadataChanged(t=machine.ledger.now(), text=text))


def changed(imds: Imds, change: Change) -> Imds:
    merged: dict[str, Any] = {}
    for one in (imds.set, json.loads(imds.set_json or "{}"), change.set, json.loads(change.set_json or "{}")):
        overlay(merged, one)
    return replace(
        imds,
        set=merged,
        set_json="",
        remove=(*imds.remove, *change.remove),
        listed=imds.listed if change.listed is None else change.listed,
        secondary=imds.secondary if change.secondary is None else change.secondary,
    )


def counted(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests} requests"
