"""The files and the command that stand in for cloud-init's."""

from __future__ import annotations

from typing import Any

import pytest

from azureinit.cli.cloud_id import answer
from azureinit.cli.cloud_init import exit_status, running_status, status_values
from azureinit.facts.cloud_init_state import LAST_UNIT, RUN_UNIT, TARGET, State, parse_units
from azureinit.jsontext import loads
from azureinit.modules.compat_files import plan_compat_files, status_values as as_status
from azureinit.plan.actions import Link, Remove, Step, Way, Write
from azureinit.record import Secret
from azureinit.userdata.instance_data import cloud_id

FAILURE = {"module": "runcmd", "line": 3, "message": "runcmd item 2 (line 3): exit status: 1", "exit_status": "1"}


def stage(**fields: Any) -> dict[str, Any]:
    return {"state": "done", "started": 100.0, "finished": 101.0, "failures": [], "cautions": [], **fields}


def result(**stages: Any) -> dict[str, Any]:
    return {"state": "done", "stages": stages}


ALL = result(network=stage(), config=stage(), final=stage())


def actions(values: dict[str, Any]) -> tuple[Any, ...]:
    (step,) = plan_compat_files(values, vm_id="id-1", data=Secret(b"#!/bin/sh\n"), finished="12.00 - then", began=90.0)
    assert isinstance(step, Step)
    (way,) = step.ways
    assert isinstance(way, Way)
    return way.actions


def state(values: dict[str, Any], **units: str) -> State:
    names = {"run": RUN_UNIT, "target": TARGET, "last": LAST_UNIT}
    finished = any(isinstance(action, Write) and action.path.endswith("/result.json") for action in actions(values))
    return State(
        stages=as_status(values, began=90.0)["v1"],
        finished=finished,
        units={names[name]: told for name, told in units.items()},
    )


def test_the_end_of_the_last_stage_is_told_in_three_files() -> None:
    written = {action.path: action for action in actions(ALL) if isinstance(action, Write)}
    assert written["/var/lib/cloud/instances/id-1/boot-finished"].data == b"12.00 - then\n"
    data = written["/var/lib/cloud/data/result.json"].data
    assert isinstance(data, bytes) and loads(data.decode())["v1"]["errors"] == []
    assert written["/var/lib/cloud/instances/id-1/user-data.txt"].mode == 0o600
    links = {action.path: action.target for action in actions(ALL) if isinstance(action, Link)}
    assert links["/run/cloud-init/status.json"] == "../../var/lib/cloud/data/status.json"
    assert links["/var/lib/cloud/instance"] == "/var/lib/cloud/instances/id-1"


def test_as_long_as_a_stage_runs_there_is_no_result() -> None:
    early = result(network=stage(finished=None, state="running"))
    removed = {action.path for action in actions(early) if isinstance(action, Remove)}
    assert removed == {
        "/run/cloud-init/result.json",
        "/var/lib/cloud/data/result.json",
        "/var/lib/cloud/instances/id-1/boot-finished",
    }
    assert as_status(early, began=90.0)["v1"]["stage"] == "init"


@pytest.mark.parametrize(
    ("values", "units", "running"),
    [
        (ALL, {"run": "active", "last": "active"}, "done"),
        (ALL, {}, "done"),
        (ALL, {"run": "active", "last": "queued"}, "running"),
        (result(network=stage()), {"run": "active", "target": "queued", "last": "queued"}, "running"),
        (result(network=stage()), {"run": "active", "last": "failed"}, "done"),
        (result(network=stage(finished=None)), {}, "running"),
    ],
)
def test_how_far_it_is(values: dict[str, Any], units: dict[str, str], running: str) -> None:
    assert running_status(state(values, **units)) == running


def test_a_vm_without_customdata_is_done_when_the_run_is() -> None:
    assert running_status(State(stages={}, units={RUN_UNIT: "active"})) == "done"
    assert running_status(State(stages={}, units={RUN_UNIT: "activating"})) == "running"
    assert running_status(State(stages={}, units={RUN_UNIT: "inactive"})) == "not started"
    assert running_status(State(stages={}, disabled="there is a file")) == "disabled"


def test_failures_are_errors_and_warnings_are_recoverable() -> None:
    failed = status_values(state(result(network=stage(), config=stage(), final=stage(failures=[FAILURE]))))
    assert (failed["status"], failed["extended_status"]) == ("error", "error - done")
    assert failed["errors"] == ["runcmd: runcmd item 2 (line 3): exit status: 1"]
    assert exit_status(failed) == 1
    warned = status_values(state(result(network=stage(cautions=["snap: not done"]), config=stage(), final=stage())))
    assert (warned["status"], warned["extended_status"]) == ("done", "degraded done")
    assert warned["recoverable_errors"] == {"WARNING": ["snap: not done"]}
    assert exit_status(warned) == 2
    assert exit_status(status_values(state(ALL))) == 0


def test_a_stage_that_died_is_an_error_and_is_not_waited_for() -> None:
    died = state(result(network=stage(), final=stage(finished=None)), run="active", last="failed")
    values = status_values(died)
    assert (values["status"], values["extended_status"], exit_status(values)) == ("error", "error - done", 1)
    assert values["errors"] == [f"{LAST_UNIT} has not finished its work, and is not running"]


def shown(active: str = "inactive", job: str = "", condition: str = "no 0", file: str = "enabled") -> str:
    holds, moment = condition.split()
    return (
        f"ActiveState={active}\nJob={job}\nConditionResult={holds}\nConditionTimestampMonotonic={moment}\n"
        f"UnitFileState={file}\n"
    )


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (shown("activating"), "activating"),
        (shown(job="12"), "queued"),
        (shown(), "inactive"),
        (shown(condition="no 123"), "left out"),
        (shown(file="disabled"), "left out"),
        (shown(file=""), "left out"),
        (shown(condition="yes 123"), "stopped"),
        (shown("failed", condition="yes 123"), "failed"),
    ],
)
def test_what_systemd_says_of_the_run(run: str, told: str) -> None:
    static = shown(file="static")
    found = parse_units("\n".join((run, static, shown(job="9", file="static"))).encode())
    assert found == {RUN_UNIT: told, TARGET: "inactive", LAST_UNIT: "queued"}


def test_an_unfinished_answer_of_systemd_says_nothing_of_the_others() -> None:
    assert parse_units(b"ActiveState=active\n") == {RUN_UNIT: "active"}


@pytest.mark.parametrize(
    ("standard", "options", "told"),
    [
        ({"cloud_id": "azure-china", "region": "chinaeast2"}, {}, "azure-china"),
        ({"cloud_id": "azure", "region": "westeurope"}, {"long": True}, "azure\twesteurope"),
        ({"cloud_id": "azure", "region": None}, {"long": True}, "azure\tunknown"),
        ({"cloud_name": "azure"}, {}, "azure"),
        ({}, {}, "unknown"),
        ({"region": "x"}, {"as_json": True}, '{\n "cloud_id": "unknown",\n "region": "x"\n}'),
    ],
)
def test_the_platforms_name(standard: dict[str, Any], options: dict[str, bool], told: str) -> None:
    assert answer(standard, **{"as_json": False, "long": False, **options}) == told


def test_a_platform_of_its_own_has_a_file_of_its_own() -> None:
    (step,) = plan_compat_files(ALL, vm_id="id-1", data=None, finished="", began=90.0, cloud=cloud_id("chinaeast2"))
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    written = {action.path: action.data for action in step.ways[0].actions if isinstance(action, Write)}
    assert written["/run/cloud-init/cloud-id-azure-china"] == b"azure-china\n"
