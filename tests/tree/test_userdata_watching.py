"""What is told of the commands of customData: each as it begins, long work, and the last lines of one that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.backends.shell import Place, commands_script, run_commands
from azureinit.config.filters import Filter
from azureinit.config.model import Config
from azureinit.errors import CustomDataFailed
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.modules import read_marks
from azureinit.plan.actions import Run, Step, Way
from azureinit.run.carry import Carrier, Progress, read_result
from azureinit.run.modules import FINAL, INSTANCE, Module, no_facts
from azureinit.run.state import Context
from azureinit.run.watching import Watch, since
from azureinit.telemetry.console import ConsoleListener
from azureinit.telemetry.events import INFO, OUTPUT, WARN, Event, Events
from azureinit.telemetry.kvp import KvpLayer
from support.module_runs import request_of

VM = Instance(data_dir="/var/lib/azure-init", vm_id="c0ffee00-1111-2222-3333-444444444444")
EVERYTHING = Filter(level=0, targets={})


class Stage:
    """A stage on this machine's own shell; its files are in a directory of the test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("root/run", f"root{VM.data_dir}", "pools"):
            (place / name).mkdir(parents=True)
        self.machine = Machine(root=str(place / "root"), environ={})
        self.heard: list[Event] = []
        (place / "root/console").touch()
        (place / "pools/.kvp_pool_1").touch()
        self.kvp = KvpLayer(Machine(), str(place / "pools"), chosen=EVERYTHING, about={"vm_id": VM.vm_id})
        console = ConsoleListener(self.machine, path="/console")
        events = Events(clock=self.machine.clock, listeners=(self.heard.append, console, self.kvp))
        self.context = Context(machine=self.machine, config=Config(), events=events, started=0.0)
        self.progress = Progress(self.machine, FINAL)
        marks = read_marks(self.machine, VM.path("modules"))
        until = self.machine.clock.monotonic() + 60
        self.carrier = Carrier(self.context, FINAL, marks, marks, self.progress, until=until)
        events.listeners = (*events.listeners, self.progress, self.carrier.watch)

    def run(self, *commands: str, ignore: bool = False) -> None:
        items = tuple((f"runcmd item {n} (line {n + 2})", text) for n, text in enumerate(commands, 1))
        inside = f"{VM.data_dir}/d"
        place = Place(directory=inside, output=f"{inside}/runcmd.log", env=(), timeout=20.0)
        real = str(self.place / "root") + inside  # the shell does not know of the root
        script = commands_script(items, progress=f"{real}/progress", ignore=ignore)
        way = run_commands(script, f"{inside}/runcmd", place=place, progress=f"{inside}/progress", keep=b"runcmd 1\n")
        run = way.actions[-1]
        assert isinstance(run, Run)
        way = Way(
            backend="sh", actions=(*way.actions[:-1], Run(**{**run.as_dict(), "argv": ("/bin/sh", f"{real}/runcmd")}))
        )
        step = Step(name="runcmd (line 2)", why="asked", ways=(way,), failure=CustomDataFailed)
        row = Module(
            name="scripts_user",
            stage=FINAL,
            frequency=INSTANCE,
            asked=lambda _request: True,
            facts=no_facts,
            planner=lambda _request, _facts: (step,),
        )
        self.carrier.carry((row,), request_of("{}"))
        self.carrier.watch.end()
        self.progress.end(self.carrier.failures)

    def told(self, level: int) -> list[str]:
        return [event.text for event in self.heard if event.kind == "event" and event.level == level]

    def console(self) -> str:
        return (self.place / "root/console").read_text()

    def pool(self) -> str:
        self.kvp.flush()
        return "".join(path.read_bytes().decode("utf-8", "replace") for path in (self.place / "pools").iterdir())


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.carrier.watch.end()


def test_each_command_is_told_as_it_begins(stage: Stage) -> None:
    stage.run("true", "sleep 1.5", "true")
    items = [text for text in stage.told(INFO) if "begins" in text]
    assert items == [f"runcmd item {n} (line {n + 2}) begins" for n in (1, 2, 3)]
    assert not stage.carrier.failures


def test_a_failure_that_is_ignored_is_told(stage: Stage) -> None:
    stage.run("(exit 3)", "true", ignore=True)
    assert stage.told(WARN) == ["runcmd item 1 (line 3): exit status 3, ignored"]


def test_the_last_lines_of_a_failure_are_shown_to_people_and_not_to_the_host(stage: Stage) -> None:
    stage.run("seq 100", "echo canary-out; echo canary-err >&2; (exit 4)")
    (failure,) = stage.carrier.failures
    assert "item 2 (line 4)" in failure.text and "exit status: 4" in failure.text and "canary" not in failure.text
    lines = [event.text for event in stage.heard if event.name == OUTPUT]
    assert len(lines) == 20 and lines[-2:] == ["canary-out", "canary-err"] and lines[0] == "83"
    assert "azure-init: | canary-err\n" in stage.console()
    (told,) = read_result(stage.machine)["stages"][FINAL]["failures"]
    assert told["output"].endswith("canary-out\ncanary-err")
    assert read_result(stage.machine)["stages"][FINAL]["cautions"] == []
    assert "item 2 (line 4)" in stage.pool() and "canary" not in stage.pool()
    assert "canary" not in (stage.machine.read(VM.path("modules")) or b"").decode()


def test_only_the_output_of_this_run_is_shown(stage: Stage) -> None:
    log = f"{VM.data_dir}/d/runcmd.log"
    stage.machine.make_dirs(f"{VM.data_dir}/d", mode=0o700)
    stage.machine.write(log, b"of an earlier boot\n")
    stage.run("echo now; false")
    assert [event.text for event in stage.heard if event.name == OUTPUT] == ["now"]


def test_a_module_that_takes_long_is_told_now_and_then(stage: Stage) -> None:
    class Later:
        at = 0.0

        def monotonic(self) -> float:
            return self.at

        def now(self) -> float:
            return self.at

    clock: Any = Later()
    stage.machine.clock = clock
    stage.context.events.clock = clock
    watch = Watch(stage.context, FINAL)
    watch.begin("package_update_upgrade_install", ())
    watch.end()
    said = []
    for second in range(100):
        clock.at = float(second)
        watch.look()
        said += [second] * len([event for event in stage.heard if event.name == "waiting"])
        stage.heard.clear()
    assert said == [10, 40, 70]
    assert "customData final: package_update_upgrade_install has been running for 40 s\n" in stage.console()


def test_what_was_added_to_a_file() -> None:
    assert since(b"ab", b"abc") == b"c" and since(b"ab", b"x") == b"x"
