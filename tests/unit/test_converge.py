"""Plan, apply, plan again: also while another program changes the same files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.config.model import Config
from azureinit.errors import NotConverged
from azureinit.facts.gather import Facts, read_facts
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Caution, EditLine, Locked, MakeDir, Satisfied, Step, Way, Write
from azureinit.run.converge import converge
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


def test_a_number_that_a_rival_takes_again_and_again_is_chosen_again(tmp_path: Path) -> None:
    """As often as useradd is run beside us, and nothing of ours ever belongs to the rival's number."""
    machine = tree(tmp_path, {"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/home/.keep": ""})
    passwd = tmp_path / "etc/passwd"
    rivals = 0

    def plan(facts: Facts) -> Plan:
        nonlocal rivals
        lines = passwd.read_text().splitlines()
        if any(line.startswith("ada:") for line in lines):
            return (Satisfied(name="user", why="exists"),)
        number = 1000 + len(lines)
        if rivals < 10:
            rivals += 1
            passwd.write_text("".join(f"{line}\n" for line in (*lines, f"r{rivals}:x:{number}:{number}::/:/bin/sh")))
        line = f"ada:x:{number}:{number}::/home/ada:/bin/sh"
        edit = EditLine(path="/etc/passwd", key="ada", line=line, unique=2)
        home = MakeDir(path=f"/home/ada-{number}", mode=0o700)
        return (
            Step(name="user", why="new", ways=(Way(backend="files", actions=(Locked(edits=(edit,), first=(home,)),)),)),
        )

    facts = read_facts(machine, Config())
    events = Events(clock=machine.clock, listeners=())
    converge(machine, Config(), plan, facts=facts, journal=MemoryJournal(), events=events, deadline=float("inf"))
    assert passwd.read_text().count("ada:x:1011:") == 1
    assert [path.name for path in (tmp_path / "home").glob("ada-*")] == ["ada-1011"]


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
    converge(machine, Config(), plan, facts=facts, journal=MemoryJournal(), events=events, deadline=float("inf"))
    assert (tmp_path / PATH[1:]).read_text() == "ours\n"
    return len(planned), warned
