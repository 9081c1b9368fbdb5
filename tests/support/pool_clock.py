"""Days in a pool within seconds: the agent's wait with a clock that is turned forward, and real requests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azureinit.config.model import Boot, Config, Imds
from azureinit.machine.link_events import CHANGED, Change
from azureinit.memory.pool import WAITING, Marker
from azureinit.record import replace
from azureinit.run.pool_links import PoolLinks
from azureinit.run.pool_wait import PoolWait
from azureinit.run.state import Context
from azureinit.telemetry.events import Events
from azureinit.telemetry.log import DEFAULT, file_listener
from support.made_up_network import CARD, Networked

DAY, HOUR = 86400.0, 3600.0
LOG = "/var/log/azure-init.log"


@dataclass
class Day:
    requests: int
    cpu: float
    lines: int


class TimeOver(Exception):
    """The wait has taken as long as it was to take."""


class Sleeper(Networked):
    """A machine on which nothing happens; its wall clock jumps after `jump_at` seconds, by `jump`.

    `flaps`: every so many seconds its link goes down and up.
    """

    def __init__(
        self, root: Path, *, seconds: float, jump_at: float = 0.0, jump: float = 0.0, flaps: float = float("inf")
    ) -> None:
        super().__init__(root)
        self.put_card(CARD.name, index=CARD.index, mac=CARD.mac)
        self.flaps, self.flapped = flaps, self.time.at
        self.begun = self.time.at
        self.seconds, self.jump_at, self.jump = seconds, jump_at, jump
        self.days: list[tuple[float, int]] = []
        self.time.now = self._now  # type: ignore[method-assign]

    def _now(self) -> float:
        passed = self.time.at - self.begun
        return 1_700_000_000.0 + passed + (self.jump if self.jump and passed >= self.jump_at else 0.0)

    def watch_links(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> tuple[Change, ...]:
        self.time.at += seconds
        passed = self.time.at - self.begun
        if passed >= DAY * (len(self.days) + 1):
            log = self.place / LOG.lstrip("/")
            self.days.append((sum(os.times()[:2]), log.read_text().count("\n")))
        if passed >= self.seconds:
            raise TimeOver
        if self.time.at < self.flapped + self.flaps:
            return ()
        self.flapped = self.time.at
        return tuple(Change(kind=CHANGED, link=replace(CARD, state=state)) for state in ("down", "up"))


def wait_in_pool(place: Path, endpoint: str, *, seconds: float, slow: float = 60.0, **happens: float) -> list[Day]:
    """What each day cost. TimeOver is the only way out."""
    (place / "var/log").mkdir(parents=True)
    (place / "var/lib/azure-init").mkdir(parents=True)
    machine = Sleeper(place, seconds=seconds, **happens)
    log = file_listener(machine, LOG, chosen=DEFAULT, limit_bytes=1 << 20)
    config = Config(imds=Imds(endpoint=endpoint), boot=Boot(pool_poll_secs=slow))
    events = Events(clock=machine.time, listeners=(log,))
    context = Context(machine=machine, config=config, events=events, started=machine.time.at, booted=machine.time.at)
    before, waiting = (
        (sum(os.times()[:2]), 0),
        PoolWait(context, PoolLinks(context), Marker(state=WAITING, type="Running")),
    )
    try:
        waiting.for_data()
    except TimeOver:
        pass
    found = []
    for cpu, lines in machine.days:
        found.append(Day(requests=round(DAY / slow), cpu=cpu - before[0], lines=lines - before[1]))
        before = (cpu, lines)
    return found
