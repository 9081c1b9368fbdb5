"""The verdict that waits for a stage of customData: from the stage, the deadline, or the unit of a stage that died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from azureinit.config.model import Readiness
from azureinit.machine.clock import Clock
from azureinit.memory.instance import is_marked
from azureinit.memory.pending import AWAITS, READY, TOLD
from azureinit.record import replace
from azureinit.run import provision
from azureinit.run.carry import Progress, read_result
from azureinit.run.modules import INSTANCE
from azureinit.run.readiness import _await_network_stage
from support.userdata_worlds import MISTAKEN, VM, World
from support.wire import Server, answer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(answer(200)) as health:
        yield World(tmp_path, health)


def at(world: World, stage: str) -> None:
    world.config = replace(world.config, readiness=Readiness(at=stage))


def test_the_stage_that_readiness_names_reports_ready_and_the_machine_is_marked(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    assert [world.stage(name) for name in ("network", "config")] == [0, 0]
    assert world.told() == [] and world.pending() == AWAITS
    assert world.stage("final") == 0
    assert [told["state"] for told in world.told()] == ["Ready"]
    assert is_marked(world.machine, VM) and world.pending() == ""
    assert world.stage("final") == 0 and len(world.told()) == 1, "one verdict"


def test_a_failure_of_any_stage_before_it_is_reported_with_its_module(world: World) -> None:
    at(world, "config")
    world.saves(MISTAKEN, AWAITS)
    assert world.stage("network") == 1 and world.told() == []
    assert world.stage("config") == 0
    (told,) = world.told()
    description = told["details"]["description"]
    assert told["state"] == "NotReady" and "failed to run customData" in description
    assert "line 4" in description and "stage=network" in description
    assert world.pending() == TOLD and not is_marked(world.machine, VM)
    world.boot()
    assert provision(world.context()) == 0 and len(world.told()) == 1, "no later boot adds a verdict"


def test_a_module_that_never_ended_is_a_failure_too(world: World) -> None:
    at(world, "config")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    marks = world.marks()
    marks.record_asked({"network": {"users_groups": INSTANCE}, "config": {}, "final": {}})
    marks.record_started("users_groups", stage="network")
    assert world.stage("config") == 0
    (told,) = world.told()
    assert "module=users_groups" in told["details"]["description"]


def test_the_deadline_reports_what_is_done_now_and_the_stage_adds_nothing(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    progress = Progress(world.machine, "final")
    progress.module = "scripts_user"
    progress.write(step="runcmd (line 3)", progress="/run/azure-init/progress")
    world.machine.write("/run/azure-init/progress", b"item 1 (line 3)\nitem 2 (line 4)\n")
    assert world.stage("deadline") == 0
    (told,) = world.told()
    description = told["details"]["description"]
    assert "item 2 (line 4)" in description and "readiness.deadline_secs (900 s)" in description
    assert world.pending() == TOLD
    assert world.stage("deadline") == 0 and world.stage("network") == 0 and world.stage("final") == 0
    assert len(world.told()) == 1


def test_without_a_pending_verdict_the_deadline_adds_nothing(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n")
    assert world.stage("deadline") == 0 and world.told() == []


@pytest.mark.parametrize(
    ("pending", "stages", "reports"),
    [
        (TOLD, None, False),
        (READY, None, False),
        (AWAITS, None, False),
        (AWAITS, "done", False),
        (AWAITS, "running", True),
    ],
)
def test_a_unit_that_failed_is_reported_only_if_it_died_with_the_verdict(
    world: World, pending: str, stages: str | None, reports: bool
) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", pending)
    if stages is not None:
        Progress(world.machine, "final").write(state=stages)
    assert world.stage("failed") == 0
    assert len(world.told()) == reports
    assert world.pending() == (TOLD if reports else pending)


def test_ready_is_sent_again_without_another_plan_for_the_machine(world: World) -> None:
    """customData may have changed the host name: a plan would set it back."""
    world.saves(b"#cloud-config\n{}\n", READY)
    (world.root / "etc/hostname").write_text("renamed-by-custom-data\n")
    assert world.stage("resend") == 0
    assert [told["state"] for told in world.told()] == ["Ready"]
    assert (world.root / "etc/hostname").read_text() == "renamed-by-custom-data\n"
    assert is_marked(world.machine, VM)


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"source":', b"\xff"])
def test_a_damaged_copy_of_customdata_is_a_failure_and_not_a_machine_that_was_asked_for_nothing(
    world: World, damage: bytes
) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\nruncmd: [make it what it is for]\n", AWAITS)
    (world.root / VM.path("userdata")[1:]).write_bytes(damage)
    assert [world.stage(name) for name in ("network", "config", "final")] == [1, 1, 1]
    assert all("is damaged" in told for told in world.errors())
    (told,) = world.told()
    assert told["state"] == "NotReady" and "is damaged" in told["details"]["description"]
    assert read_result(world.machine)["state"] == "failed"


def test_a_machine_that_cannot_be_read_any_more_is_a_failure_and_not_a_verdict_that_never_comes(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    (world.root / "etc/passwd").unlink()
    (world.root / "etc/passwd").mkdir()
    assert world.stage("network") == 0 and world.told() == []
    assert world.stage("final") == 0
    (told,) = world.told()
    assert told["state"] == "NotReady" and "/etc/passwd" in told["details"]["description"]
    assert world.pending() == TOLD


class Awake(Clock):
    """A clock on which nothing sleeps."""

    def sleep(self, seconds: float) -> None:
        raise AssertionError("something is waited for")


@pytest.mark.parametrize("text", ["power_state: {mode: reboot, condition: false}", "package_reboot_if_required: true"])
def test_where_the_machine_stays_up_no_verdict_is_waited_for(world: World, text: str) -> None:
    world.config = replace(world.config, readiness=Readiness(deadline_secs=1e9))
    world.saves(f"#cloud-config\n{text}\n".encode())
    world.machine.clock = Awake()
    assert [world.stage(name) for name in ("network", "config", "final")] == [0, 0, 0]
    assert "power_state" in world.marks().finished and not is_marked(world.machine, VM)


@pytest.mark.parametrize("status", [0, 5])
def test_a_network_stage_that_cannot_be_waited_for_is_a_doubt(world: World, tmp_path: Path, status: int) -> None:
    systemctl = tmp_path / "tools/systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(f"#!/bin/sh\necho no such unit >&2; exit {status}\n")
    systemctl.chmod(0o755)
    world.machine.search = (str(systemctl.parent),)
    doubt = _await_network_stage(world.context())
    assert doubt == "" if not status else "sshd may not run" in doubt and "no such unit" in doubt


def test_a_shutdown_that_is_impossible_fails_before_the_verdict(world: World) -> None:
    at(world, "final")
    world.saves(b'#cloud-config\npower_state: {mode: halt, message: "a\\0b"}\n', AWAITS)
    assert [world.stage(name) for name in ("network", "config", "final")] == [0, 0, 1]
    (told,) = world.told()
    assert told["state"] == "NotReady" and "module=power_state" in told["details"]["description"]
