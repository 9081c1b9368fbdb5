"""The stages of customData on a tree: marks, failures and interrupted modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.errors import CustomDataFailed
from azureinit.memory.modules import DOCUMENT, once_path, read_marks
from azureinit.modules.request import Request
from azureinit.plan.actions import Declined, Run, Satisfied, Step, Way, Write
from azureinit.run.carry import Carrier, Progress, read_result
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import ALWAYS, INSTANCE, NETWORK, ONCE, Module, no_facts
from azureinit.run.userdata import ADMIN_CHECK, CONFIG_IDLE
from azureinit.telemetry.events import WARN, Event
from support.module_runs import request_of
from support.userdata_worlds import MISTAKEN, VM, Tree, World
from support.wire import Server, answer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(answer(200)) as health:
        yield World(tmp_path, health)


def step(name: str, *actions: Any, declined: str = "") -> Step:
    way: Way | Declined = (
        Declined(backend="native", why=declined) if declined else Way(backend="native", actions=actions)
    )
    return Step(name=name, why="asked", ways=(way,), failure=CustomDataFailed)


def writes(name: str) -> Step:
    return step(f"write {name} (line 2)", Write(path=f"/{name}", data=b"x"))


def row(
    name: str, *steps: Step, frequency: str = INSTANCE, planner: Callable[..., Any] | None = None, **more: Any
) -> Module:
    def plan(_request: Request, _facts: object) -> tuple[Any, ...]:
        return steps or (Satisfied(name=name, why="nothing"),)

    return Module(
        name=name,
        stage=NETWORK,
        frequency=frequency,
        asked=lambda _request: True,
        facts=no_facts,
        planner=planner or plan,
        **more,
    )


def test_a_module_that_fails_is_recorded_and_the_next_one_runs(world: World) -> None:
    broken = row("broken", step("broken (line 3)", declined="no tool"))
    carrier = world.carry(broken, row("good", writes("good")))
    assert (world.root / "good").exists()
    (failure,) = carrier.failures
    assert (failure.module, failure.step, failure.boot) == ("broken", "broken (line 3)", "boot-1")
    assert world.marks().finished == {"good"} and set(world.marks().failures) == {"broken"}
    assert world.errors() == ["network stage: broken (line 3): native: declined: no tool"]
    (world.root / "good").unlink()
    world.boot()
    assert not world.carry(broken, row("good", writes("good"))).failures, "neither is tried again"
    assert not (world.root / "good").exists()


def test_the_exit_status_is_recorded(world: World) -> None:
    failing = row("runcmd", step("runcmd (line 4)", Run(argv=("/bin/sh", "-c", "exit 7"))))
    (failure,) = world.carry(failing).failures
    assert failure.errors[0][2] == "exit status: 7" and "exit status: 7" in failure.text


class Buffer:
    """A listener that makes a file when it writes what it has."""

    def __init__(self, place: Path, *, broken: bool = False) -> None:
        self.place, self.broken, self.flushes = place, broken, 0

    def __call__(self, event: Event) -> None:
        pass

    def flush(self) -> None:
        self.flushes += 1
        if self.broken:
            raise ValueError("no room")
        self.place.write_text("")


def waits_for(place: Path) -> Step:
    """A program that ends well only if the file appears while it runs."""
    script = 'for _ in $(seq 200); do [ ! -e "$0" ] || exit 0; sleep 0.1; done; exit 7'
    return step("wait (line 2)", Run(argv=("/bin/sh", "-c", script, str(place))))


def test_listeners_write_while_the_first_program_runs(world: World, tmp_path: Path) -> None:
    buffer = Buffer(tmp_path / "written")
    world.listeners = (buffer,)
    again = step("again (line 3)", Run(argv=("/bin/true",)))
    assert not world.carry(row("one", waits_for(buffer.place), again), row("two", again)).failures
    assert buffer.flushes == 1 and world.marks().finished == {"one", "two"}


def test_nothing_is_written_early_where_no_program_runs(world: World, tmp_path: Path) -> None:
    buffer = Buffer(tmp_path / "written")
    world.listeners = (buffer,)
    assert not world.carry(row("one", writes("one"))).failures and buffer.flushes == 0


def test_a_listener_that_cannot_write_does_not_end_the_program(world: World, tmp_path: Path) -> None:
    buffer = Buffer(tmp_path / "written", broken=True)
    world.listeners = (buffer,)
    made = world.root / "made"
    program = step("program (line 2)", Run(argv=("/bin/sh", "-c", 'sleep 0.1; : >"$0"', str(made))))
    assert not world.carry(row("one", program)).failures
    assert buffer.flushes == 1 and made.exists() and world.marks().finished == {"one"}


def test_what_is_for_every_boot_runs_again_also_after_a_failure(world: World) -> None:
    always = row("bootcmd", step("bootcmd (line 2)", declined="no"), frequency=ALWAYS)
    assert len(world.carry(always).failures) == 1
    world.boot()
    assert len(world.carry(always).failures) == 1
    assert not world.carry(row("bootcmd", writes("again"), frequency=ALWAYS)).failures
    assert (world.root / "again").exists() and not world.marks().failures


def test_a_module_is_marked_as_started_before_its_steps_and_as_finished_after_them(world: World) -> None:
    seen: list[tuple[tuple[str, ...], set[str]]] = []

    def plan(_request: Request, _facts: object) -> tuple[Any, ...]:
        seen.append((world.marks().interrupted, world.marks().finished))
        return (writes("one"),)

    world.carry(row("one", planner=plan))
    assert seen == [(("one",), set())] and world.marks().finished == {"one"}


def test_an_interrupted_module_is_told_and_runs_again(world: World) -> None:
    world.marks().record_started("one", stage=NETWORK)
    world.boot()
    world.carry(row("one", writes("one")))
    assert (world.root / "one").exists() and world.marks().finished == {"one"}
    told = [event.text for event in world.heard if event.level == WARN]
    assert told == ["one was interrupted, and runs again (attempt 2 of 3)"]


def test_an_interrupted_module_fails_where_that_is_configured(world: World) -> None:
    world.settings(interrupted="fail")
    world.marks().record_started("one", stage=NETWORK)
    world.boot()
    (failure,) = world.carry(row("one", writes("one"))).failures
    assert 'userdata.interrupted is "fail"' in failure.text and not (world.root / "one").exists()


def test_three_boots_try_an_interrupted_module(world: World) -> None:
    for _boot in range(3):
        world.marks().record_started("one", stage=NETWORK)
        world.boot()
    (failure,) = world.carry(row("one", writes("one"))).failures
    assert "interrupted in 3 boots" in failure.text and not (world.root / "one").exists()
    world.boot()
    assert not world.carry(row("one", writes("one"))).failures, "told once"


def test_what_runs_once_is_marked_for_the_machine(world: World) -> None:
    world.carry(row("scripts_per_once", writes("one"), frequency=ONCE))
    assert world.marks().finished == set()
    assert read_marks(world.machine, once_path(VM)).finished == {"scripts_per_once"}
    (world.root / "one").unlink()
    world.machine.remove(VM.path("modules"))
    world.carry(row("scripts_per_once", writes("one"), frequency=ONCE))
    assert not (world.root / "one").exists()


def test_a_veto_stops_the_whole_document(world: World) -> None:
    world.carry(
        row("admin_check", step("admin_check", declined="would lock out ada"), veto=True), row("b", writes("b"))
    )
    assert not (world.root / "b").exists()
    assert "would lock out ada" in world.marks().failures[DOCUMENT].text
    assert world.stage("config") == 0 and world.stage("final") == 0


def test_steps_that_stand_apart_are_all_tried_and_all_their_failures_kept(world: World) -> None:
    steps = (step("a (line 1)", declined="x"), writes("b"), step("c (line 3)", declined="y"))
    (failure,) = world.carry(row("scripts", *steps, apart=True)).failures
    assert (world.root / "b").exists()
    assert "a (line 1)" in failure.text and "c (line 3)" in failure.text


def test_a_plan_that_is_stale_is_made_again(world: World) -> None:
    tries: list[int] = []

    def plan(_request: Request, _facts: object) -> tuple[Any, ...]:
        tries.append(1)
        if len(tries) == 1:
            (world.root / "f").write_text("new")
            return (step("f", Write(path="/f", data=b"x", was=b"old")),)
        return (writes("done"),)

    assert not world.carry(row("one", planner=plan)).failures
    assert (world.root / "done").exists() and len(tries) == 2
    always_stale = row("two", step("f", Write(path="/f", data=b"x", was=b"old")))
    (failure,) = world.carry(always_stale).failures
    assert "changed while provisioning" in failure.text


def test_what_a_stale_plan_has_changed_is_on_the_disk_before_the_mark(world: World) -> None:
    plans = [(writes("kept"), step("f", Write(path="/f", data=b"x", was=b"old"))), (Satisfied(name="f", why="done"),)]
    (world.root / "f").write_text("new")
    assert not world.carry(row("one", planner=lambda _request, _facts: plans.pop(0))).failures
    assert (world.root / "kept").exists() and "one" in world.marks().finished
    left = world.machine.unsynced
    assert str(world.root) not in left.directories, "its directory was synced"


def test_a_defect_of_a_planner_is_a_failure_of_its_module_only(world: World) -> None:
    def plan(_request: Request, _facts: object) -> tuple[Any, ...]:
        raise KeyError("x")

    carrier = world.carry(row("one", planner=plan), row("two", writes("two")))
    assert "KeyError" in carrier.failures[0].text and (world.root / "two").exists()


def test_the_result_shows_the_step_that_is_done_now(world: World) -> None:
    seen: list[dict[str, Any]] = []

    class Watching(Tree):
        def run(self, *_words: Any, **_options: Any) -> Any:
            seen.append(read_result(self))
            return super().run(("true",), timeout=5)

    world.machine = Watching(root=str(world.root), kernel=str(world.kernel), environ={})
    context = world.context()
    progress = Progress(world.machine, NETWORK)
    context.events.listeners = (*context.events.listeners, progress)
    until = world.machine.clock.monotonic() + 60
    carrier = Carrier(context, NETWORK, world.marks(), world.marks(), progress, until=until)
    run = step("runcmd (line 4)", Run(argv=("true",), progress="/run/progress"))
    carrier.carry((row("runcmd", run),), request_of("{}"))
    progress.end(carrier.failures)
    during, after = seen[0]["stages"][NETWORK], read_result(world.machine)["stages"][NETWORK]
    assert during == {
        "state": "running", "module": "runcmd", "step": "runcmd (line 4)", "progress": "/run/progress",
        "started": progress.started, "finished": None,
    }  # fmt: skip
    assert after["finished"] >= after["started"] == progress.started
    assert (after["state"], after["failures"], after["cautions"]) == ("done", [], [])


# ---- the stages


def test_a_mistake_stops_everything_in_every_stage_and_every_boot(world: World) -> None:
    world.saves(MISTAKEN)
    assert [world.stage(name) for name in ("network", "config", "final")] == [1, 0, 0]
    (told,) = world.errors()
    assert "line 4, column 3" in told
    world.boot()
    assert [world.stage(name) for name in ("network", "config", "final")] == [0, 0, 0]
    found = read_result(world.machine)
    assert found["state"] == "failed" and "line 4" in found["stages"]["network"]["failures"][0]["message"]


def test_a_stage_without_work_reads_no_document(world: World) -> None:
    world.saves(MISTAKEN)
    world.marks().record_asked({"network": {}, "config": {}, "final": {}})
    assert world.stage("config") == 0 and world.errors() == []


def test_a_stage_that_is_started_again_still_shows_what_failed(world: World) -> None:
    world.saves(b"#cloud-config\nwrite_files: [{path: /etc/passwd/x, content: A}]\n")
    assert world.stage("network") == 1 and world.stage("network") == 0
    row = read_result(world.machine)["stages"]["network"]
    assert row["state"] == "failed" and row["failures"][0]["module"] == "write_files"


INCLUDED = "#cloud-config\nwrite_files: [{path: /etc/a, content: A}]\n"
UNREAD = {
    "plain": b"#cloud-config\nwrite_files: [{path: /etc/a, content: A}]\nruncmd: [ls]\n",
    "template": b"## template: jinja\n#cloud-config\nwrite_files: [{path: /etc/{{ 'a' }}, content: A}]\n",
    "include": b"#include\n",
}


@pytest.mark.parametrize("name", UNREAD)
def test_after_a_network_stage_that_was_killed_before_it_read_the_document_the_next_boot_goes_on(
    world: World, name: str
) -> None:
    """The later stages neither carry it out nor refuse it for ever."""
    at = f"HTTP/1.1 200 OK\r\nContent-Length: {len(INCLUDED)}\r\nConnection: close\r\n\r\n{INCLUDED}"
    with Server(at.encode()) as server:
        world.settings(allow_http=True)
        world.saves(UNREAD[name] + (f"{server.url}/x\n".encode() if name == "include" else b""))
        assert [world.stage("config"), world.stage("final")] == [1, 1]
        assert "did not end, and has not checked the document" in world.errors()[-1]
        assert not world.marks().failures and not world.marks().finished
        assert read_result(world.machine)["state"] == "failed"
        world.boot()
        assert [world.stage(one) for one in ("network", "config", "final")] == [0, 0, 0]
    assert (world.root / "etc/a").exists() and "write_files" in world.marks().finished


def test_a_document_that_was_not_checked_for_the_admin_is_carried_out_by_no_stage(world: World) -> None:
    world.saves(b"#cloud-config\nusers: [default]\nwrite_files: [{path: /etc/a, content: A, defer: true}]\n")
    marks = world.marks()
    marks.record_asked({"network": {ADMIN_CHECK: INSTANCE}, "config": {}, "final": {"write_files_deferred": INSTANCE}})
    marks.record_started(ADMIN_CHECK, stage="network")
    assert world.stage("final") == 1 and not (world.root / "etc/a").exists()
    assert ADMIN_CHECK in {row.name for row in modules_of(NETWORK) if row.veto}


@pytest.mark.parametrize("begun", [True, False])
def test_a_stage_that_was_killed_counts_as_failed_for_the_later_ones(world: World, begun: bool) -> None:
    world.settings(after_failure="stop")
    world.saves(b"#cloud-config\nwrite_files: [{path: /etc/a, content: A, defer: true}]\n")
    marks = world.marks()
    marks.record_asked({"network": {"mounts": INSTANCE}, "config": {}, "final": {"write_files_deferred": INSTANCE}})
    if begun:
        marks.record_started("mounts", stage="network")
    assert world.stage("final") == 0 and not (world.root / "etc/a").exists()
    marks.record_finished("mounts")
    assert world.stage("final") == 0 and (world.root / "etc/a").exists()


def test_after_a_failure_the_later_stages_are_left_out_where_that_is_configured(world: World) -> None:
    world.settings(after_failure="stop")
    world.saves(b"#cloud-config\n{}\n")
    world.carry(row("broken", step("broken", declined="x")))
    assert world.stage("config") == 0
    assert any("an earlier stage failed" in event.text for event in world.heard)
    world.boot()
    world.heard.clear()
    world.stage("config")
    assert not any("an earlier stage failed" in event.text for event in world.heard), "that was another boot"


@pytest.mark.parametrize("off", [{"enabled": False}])
def test_nothing_runs_where_it_is_switched_off(world: World, off: dict[str, Any]) -> None:
    world.settings(**off)
    world.saves(MISTAKEN)
    assert world.stage("network") == 0 and world.errors() == []


# ---- the config stage is left out


@pytest.mark.parametrize(
    ("document", "settings", "left_out"),
    [
        (b"#cloud-config\nruncmd: ['true']\n", {}, True),
        (b"#cloud-config\ntimezone: Etc/UTC\n", {}, False),
        (MISTAKEN, {}, True),
        (b"#cloud-config\nruncmd: ['true']\n", {"cloud_init_compat": True}, False),
        (b"#cloud-config\nruncmd: ['true']\n", {"refresh": True}, False),
    ],
)
def test_a_file_tells_systemd_that_the_config_stage_has_nothing_to_do(
    world: World, document: bytes, settings: dict[str, Any], left_out: bool
) -> None:
    world.settings(**settings)
    world.saves(document)
    world.stage("network")
    assert (world.machine.stat(CONFIG_IDLE) is not None) == left_out
    unit = Path(__file__).parents[2] / "systemd/azure-init-userdata-config.service"
    assert f"ConditionPathExists=!{CONFIG_IDLE}\n" in unit.read_text()
