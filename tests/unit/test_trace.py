"""The trace file: its content, when it is written, and a file that a killed run left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config, Telemetry
from azureinit.machine import Machine
from azureinit.telemetry.events import DEBUG, WARN, Event, Events
from azureinit.telemetry.trace import MOST_BYTES, MOST_EVENTS, Trace, collector_wanted
from azureinit.version import VERSION
from support.wire import Ticking

SEED = "0af7651916cd43dd8448eb211c80319c"
PATH = "/data/trace.jsonl"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "data").mkdir()
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b007\n")
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.12.0-azure\n")
    return Machine(root=str(tmp_path), kernel=str(tmp_path), environ={}, clock=Ticking())


def traced(machine: Machine, about: dict[str, str] | None = None, *, seed: str = SEED) -> Events:
    about = {} if about is None else about
    return Events(
        clock=machine.clock,
        listeners=(Trace(machine, PATH, seed=seed, about=about),),
        seed=seed,
        about=about,
    )


def lines(machine: Machine, path: str = PATH) -> list[dict[str, Any]]:
    """Every line that holds something; all of them must be whole."""
    text = Path(machine.real(path)).read_text()
    return [json.loads(line) for line in text.split("\n") if line]


def test_every_event_is_a_line_under_the_header_of_its_run(machine: Machine) -> None:
    events = traced(machine, {"vm_id": "c0ffee"})
    with events.step("hostname") as step:
        events.observe("http", method="GET", attempt=1, seconds=0.25, failure="timed out")
        machine.clock.sleep(1.5)
        step.text = "set to web-1"
    events.flush()
    header, start, attempt, finish = lines(machine)
    assert header == {
        "run": SEED,
        "boot": "b007",
        "at": 1_700_001_001.5,
        "kind": "run",
        "agent": VERSION,
        "python": ".".join(map(str, sys.version_info[:3])),
        "kernel": "6.12.0-azure",
        "lost": 0,
        "about": {"vm_id": "c0ffee"},
    }
    assert attempt == {
        "run": SEED,
        "boot": "b007",
        "at": 1_700_001_000.0,
        "kind": "event",
        "name": "http",
        "level": "debug",
        "text": "method=GET attempt=1: timed out",
        "seconds": 0.25,
        "failed": True,
        "id": attempt["id"],
        "parent": start["id"],
        "fields": {"method": "GET", "attempt": "1"},
        "uptime": 1000.0,
    }
    assert (start["kind"], start["seconds"], start["uptime"]) == ("start", None, 1000.0)
    assert (finish["id"], finish["seconds"], finish["uptime"]) == (start["id"], 1.5, 1001.5)
    assert finish["text"] == "set to web-1"


def test_the_file_is_private(machine: Machine) -> None:
    events = traced(machine)
    with events.step("x"):
        pass
    events.flush()
    assert Path(machine.real(PATH)).stat().st_mode & 0o777 == 0o600


def test_what_was_written_is_not_written_again(machine: Machine) -> None:
    events = traced(machine)
    with events.step("x"):
        events.flush()
    events.flush()
    events.flush()
    assert [line["kind"] for line in lines(machine)] == ["run", "start", "finish"]


def test_a_run_introduces_itself_again_when_it_knows_more(machine: Machine) -> None:
    about: dict[str, str] = {}
    events = traced(machine, about)
    with events.step("x"):
        events.flush()
        about["vm_id"] = "c0ffee"
    events.flush()
    assert [line["about"] for line in lines(machine) if line["kind"] == "run"] == [{}, {"vm_id": "c0ffee"}]


def test_a_run_without_a_step_leaves_no_line(machine: Machine) -> None:
    events = traced(machine)
    events.tell(WARN, "config", "unknown key")
    events.flush()
    assert not Path(machine.real(PATH)).exists()


def test_what_happened_before_there_was_a_directory_is_kept(machine: Machine) -> None:
    directory = Path(machine.real("/data"))
    directory.rmdir()
    events = traced(machine)
    with events.step("early"):
        pass
    events.flush()
    assert not directory.exists(), "a trace makes no directory"
    directory.mkdir()
    with events.step("late"):
        pass
    events.flush()
    assert [line["name"] for line in lines(machine)[1:]] == ["early", "early", "late", "late"]


def test_no_more_is_kept_than_there_is_room_for(machine: Machine) -> None:
    events = traced(machine)
    with events.step("first"):
        for number in range(MOST_EVENTS + 5):
            events.tell(DEBUG, "x", str(number))
    events.flush()
    header, *rest = lines(machine)
    assert len(rest) == MOST_EVENTS and header["lost"] == 7
    assert rest[-1]["name"] == "first", "the end is what tells the cause"


def test_a_large_file_is_put_aside_and_both_are_read(machine: Machine) -> None:
    first = traced(machine, seed="1" * 32)
    with first.step("first") as step:
        step.text = "x" * (MOST_BYTES - 2000)
    first.flush()
    second = traced(machine, seed="2" * 32)
    with second.step("second") as step:
        step.text = "y" * 4000
    second.flush()
    assert Path(machine.real(PATH)).stat().st_size < 10_000
    assert Path(machine.real(PATH + ".1")).stat().st_mode & 0o777 == 0o600
    assert [line["run"][0] for line in (*lines(machine, PATH + ".1"), *lines(machine))] == ["1"] * 3 + ["2"] * 3


def test_what_a_killed_run_left_half_written_spoils_only_itself(machine: Machine) -> None:
    Path(machine.real(PATH)).write_bytes(b'{"run":"1","kind":"start"}\n{"run":"1","ki')
    events = traced(machine)
    with events.step("x"):
        pass
    events.flush()
    first, torn, *rest = Path(machine.real(PATH)).read_text().split("\n")
    assert (first, torn) == ('{"run":"1","kind":"start"}', '{"run":"1","ki')
    assert [json.loads(line)["kind"] for line in rest if line] == ["run", "start", "finish"]


def test_text_that_is_no_text_is_written_all_the_same(machine: Machine) -> None:
    events = traced(machine)
    with events.step("x") as step:
        step.text = "a\nb\udcff\0\u2028é"
    events.flush()
    assert lines(machine)[-1]["text"] == "a\nb\udcff\0\u2028é"


@pytest.mark.parametrize("place", ["directory", "link", "parent is a file"])
def test_a_trace_that_cannot_be_written_never_raises(machine: Machine, place: str) -> None:
    path = Path(machine.real(PATH))
    if place == "directory":
        path.mkdir()
    elif place == "link":
        path.symlink_to("nowhere")
    else:
        path.parent.rmdir()
        path.parent.write_text("")
    trace = Trace(machine, PATH, seed=SEED, about={})
    trace(Event(at=0.0, kind="start", level=20, name="x"))
    trace.flush()
    trace.flush()
    assert not path.is_file()


# ---- whether a collector is to be told


@pytest.mark.parametrize(
    ("endpoint", "environ", "wanted"),
    [
        ("", {}, False),
        ("http://c:4318", {}, True),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, True),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ("", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c"}, True),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ("", {"OTEL_TRACES_EXPORTER": "otlp"}, False),
        ("http://c:4318", {"OTEL_SDK_DISABLED": "True"}, False),
        ("http://c:4318", {"OTEL_SDK_DISABLED": "false"}, True),
    ],
)
def test_a_collector_is_wanted_where_one_is_named(endpoint: str, environ: dict[str, str], wanted: bool) -> None:
    assert collector_wanted(Config(telemetry=Telemetry(otlp_endpoint=endpoint)), environ) is wanted
