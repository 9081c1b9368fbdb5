"""Plan, apply, look again: somebody else may be at the same thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.apply.journal import Unwritten
from azureinit.config.model import Config
from azureinit.converge import converge
from azureinit.errors import NotConverged
from azureinit.facts.gather import Facts, read_facts
from azureinit.plan.actions import Caution, Satisfied, Step, Way, Write
from azureinit.telemetry.events import WARN, Events
from support.ssh_trees import tree

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan
    from azureinit.telemetry.events import Event

PATH = "/etc/motd"


@pytest.mark.parametrize(("undone", "plans"), [(0, 2), (1, 3), (2, 4)])
def test_what_another_undoes_is_done_again_and_told_once(tmp_path: Path, undone: int, plans: int) -> None:
    assert ran(tmp_path, undone) == (plans, ["odd"])


def test_what_is_undone_for_ever_is_a_failure_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(NotConverged, match=r"greeting \(not ours\)"):
        ran(tmp_path, 9)


def ran(tmp_path: Path, undone: int) -> tuple[int, list[str]]:
    """How often it was planned, and the warnings, where a rival writes the file so many times after us."""
    machine = tree(tmp_path, {PATH: "theirs\n"})
    warned: list[str] = []

    def listen(event: Event) -> None:
        if event.level == WARN:
            warned.append(event.name)

    events = Events(clock=machine.clock, listeners=(listen,))
    planned: list[Facts] = []

    def plan(facts: Facts) -> Plan:
        if 0 < len(planned) <= undone:
            (tmp_path / PATH[1:]).write_text("theirs\n")
        planned.append(facts)
        odd = Caution(name="odd", why="always")
        if machine.read(PATH) == b"ours\n":
            return (odd, Satisfied(name="greeting", why="ours"))
        way = Way(backend="native", actions=(Write(path=PATH, data=b"ours\n"),))
        return (odd, Step(name="greeting", why="not ours", ways=(way,)))

    facts = read_facts(machine, Config())
    converge(machine, Config(), plan, facts=facts, journal=Unwritten(), events=events, deadline=float("inf"))
    assert (tmp_path / PATH[1:]).read_text() == "ours\n"
    return len(planned), warned
