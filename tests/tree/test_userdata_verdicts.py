"""The verdict that waits for a stage of customData: from the stage, the deadline, or the unit of a stage that died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Readiness
from azureinit.errors import LocalError, LockTimeout
from azureinit.facts.gather import read_facts
from azureinit.machine.clock import Clock
from azureinit.memory.instance import is_marked
from azureinit.memory.journal import MemoryJournal
from azureinit.memory.pending import AWAITS, FAILURE, READY, TOLD, VERDICT
from azureinit.record import replace
from azureinit.run import provision
from azureinit.run.carry import LOCK, Progress, read_result
from azureinit.run.channels import open_channels
from azureinit.run.modules import INSTANCE
from azureinit.run.readiness import _await_network_stage, hand_over
from azureinit.run.state import Asked, Identity, Memory, Settled
from azureinit.run.userdata import Work
from support.userdata_worlds import MISTAKEN, VM, Tree, World
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


class Busy(Tree):
    """A tree on which a stage of customData is still running."""

    def hold(self, path: str, *, timeout: float, note: bytes = b"") -> bytes:
        if path == LOCK:
            raise LockTimeout("another one has it")
        return b""


@pytest.mark.parametrize(
    ("pending", "state", "alive", "reports"),
    [
        (TOLD, None, False, False),
        (READY, None, False, False),
        (AWAITS, None, False, False),
        (AWAITS, "done", True, False),
        (AWAITS, "failed", True, False),
        (AWAITS, "interrupted", False, False),
        (AWAITS, "running", False, True),
        # Killed after its modules, before the verdict.
        (AWAITS, "done", False, True),
        (AWAITS, "failed", False, True),
    ],
)
def test_a_unit_that_failed_is_reported_only_if_it_died_with_the_verdict(
    world: World, pending: str, state: str | None, alive: bool, reports: bool
) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", pending)
    if state is not None:
        Progress(world.machine, "final").write(state=state)
    if alive:
        world.machine = Busy(root=str(world.root), kernel=str(world.kernel), environ={})
    assert world.stage("failed") == 0
    assert len(world.told()) == reports
    assert world.pending() == (TOLD if reports else pending)


@pytest.mark.parametrize("state", ["done", ""], ids=["at its end", "at its beginning"])
def test_a_stage_that_died_before_its_verdict_is_reported_while_the_next_one_runs(world: World, state: str) -> None:
    """systemd names the unit that failed."""
    at(world, "config")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    if state:
        Progress(world.machine, "config").write(state=state)
    environ = {"MONITOR_UNIT": "azure-init-userdata-config.service"}
    world.machine = Busy(root=str(world.root), kernel=str(world.kernel), environ=environ)
    assert world.stage("failed") == 0
    assert [told["state"] for told in world.told()] == ["NotReady"] and world.pending() == TOLD


def noted(world: World, verdict: str) -> None:
    """As the process that reports it does on a machine that is no tree."""
    world.machine.make_dirs(VERDICT.rpartition("/")[0], mode=0o700)
    world.machine.write(VERDICT, verdict.encode())


def systemctl(world: World, tmp_path: Path) -> Path:
    """A stand-in that writes down what it is asked for."""
    tool, asked = tmp_path / "tools/systemctl", tmp_path / "asked"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$*" >>{asked}\n')
    tool.chmod(0o755)
    world.machine.search = (str(tool.parent),)
    return asked


@pytest.mark.parametrize("stage", ["deadline", "failed"])
def test_a_ready_that_is_on_its_way_is_not_contradicted_but_sent_again(
    world: World, tmp_path: Path, stage: str
) -> None:
    """The stage was killed while it reported Ready: the platform may have accepted that."""
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    Progress(world.machine, "final").write(state="done")
    noted(world, READY)
    asked = systemctl(world, tmp_path)
    assert world.stage(stage) == 0
    assert world.told() == [] and world.pending() == READY
    assert "azure-init-resend.service" in asked.read_text()
    assert world.stage("resend") == 0 and [told["state"] for told in world.told()] == ["Ready"]
    assert is_marked(world.machine, VM) and world.pending() == ""


def test_at_access_a_run_that_died_while_it_reported_ready_is_followed_by_the_unit_that_sends_it_again(
    world: World, tmp_path: Path
) -> None:
    world.saves(b"#cloud-config\n{}\n")
    noted(world, READY)
    asked = systemctl(world, tmp_path)
    assert world.stage("failed") == 0
    assert world.told() == [] and world.pending() == READY and "azure-init-resend.service" in asked.read_text()


@pytest.mark.parametrize("verdict", ["failure", "failure, not delivered", "ready, not delivered"])
def test_after_any_other_verdict_the_failed_unit_adds_nothing(world: World, verdict: str) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    Progress(world.machine, "final").write(state="running")
    noted(world, verdict)
    assert world.stage("failed") == 0 and world.told() == [] and world.pending() == AWAITS


class Full(Tree):
    """A data directory in which nothing can be written any more."""

    def hold(self, path: str, *, timeout: float, note: bytes = b"") -> bytes:
        if path.startswith(VM.data_dir):
            raise LocalError(f"cannot open {path}: Read-only file system")
        return b""

    def write(self, path: str, data: bytes, **more: Any) -> None:
        self._refuse(path)
        super().write(path, data, **more)

    def appender(self, path: str, **more: Any) -> Any:
        self._refuse(path)
        return super().appender(path, **more)

    def remove(self, path: str) -> bool:
        self._refuse(path)
        return super().remove(path)

    def _refuse(self, path: str) -> None:
        if path.startswith(VM.data_dir):
            raise LocalError(f"cannot write {path}: Read-only file system")


@pytest.mark.parametrize("stage", ["final", "deadline"])
def test_a_data_directory_that_cannot_be_written_any_more_does_not_keep_the_verdict_back(
    world: World, stage: str
) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\nruncmd: [make it what it is for]\n", AWAITS)
    world.machine = Full(root=str(world.root), kernel=str(world.kernel), environ={})
    world.stage(stage)
    (told,) = world.told()
    assert told["state"] == "NotReady" and "failed to run customData" in told["details"]["description"]
    noted(world, FAILURE)
    world.stage("deadline")
    world.stage("final")
    assert len(world.told()) == 1, "one verdict in this boot, although it cannot be recorded for the next"


def test_the_cause_of_a_network_stage_that_could_not_write_its_marks_is_told_by_the_last_one(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\nwrite_files: [{path: /etc/a, content: A}]\n", AWAITS)
    world.machine = Full(root=str(world.root), kernel=str(world.kernel), environ={})
    assert [world.stage(name) for name in ("network", "final")] == [1, 1]
    (told,) = world.told()
    assert "did not end" in told["details"]["description"] and "Read-only" in told["details"]["description"]


def test_a_run_that_cannot_record_that_a_stage_has_the_verdict_fails_itself(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n")
    world.machine = Full(root=str(world.root), kernel=str(world.kernel), environ={})
    context = world.context()
    identity = Identity(vm_id=VM.vm_id, instance=VM)
    facts = read_facts(world.machine, world.config, ())
    asked = Asked(identity=identity, memory=Memory(journal=MemoryJournal()), facts=facts)
    with pytest.raises(LocalError, match="Read-only"):
        hand_over(context, open_channels(context), Settled(asked=asked, facts=facts, served=True, awaits=True))


def test_a_stage_that_ends_after_an_undelivered_failure_of_the_deadline_reports_its_own_verdict(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", FAILURE)
    assert [world.stage(name) for name in ("deadline", "network")] == [0, 0]
    assert world.told() == [], "the deadline does not report twice"
    assert world.stage("final") == 0
    assert [told["state"] for told in world.told()] == ["Ready"] and is_marked(world.machine, VM)


def test_a_verdict_whose_record_customdata_has_removed_is_reported(world: World) -> None:
    """As `azure-init deprovision` in runcmd does."""
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    assert world.stage("network") == 0
    context = world.context()
    work = Work(context, Identity(vm_id=VM.vm_id, instance=VM), VM, "final")
    assert work.run() == 0
    world.machine.remove(VM.path("pending"))
    work.deliver()
    assert [told["state"] for told in world.told()] == ["Ready"]


def test_a_crash_right_after_the_failure_was_accepted_leaves_the_record_of_that(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(world, "final")
    world.saves(MISTAKEN, AWAITS)
    world.stage("network")

    def die(*_given: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("azureinit.run.deliver.notify", die)
    with pytest.raises(KeyboardInterrupt):
        world.stage("final")
    monkeypatch.undo()
    assert len(world.told()) == 1 and world.pending() == TOLD
    world.boot()
    assert provision(world.context()) == 0 and world.stage("final") == 0 and len(world.told()) == 1


def test_the_deadline_names_what_was_interrupted(world: World) -> None:
    at(world, "final")
    world.saves(b"#cloud-config\n{}\n", AWAITS)
    progress = Progress(world.machine, "final")
    progress.module = "scripts_user"
    progress.write(step="runcmd (line 3)")
    progress.interrupt()
    assert world.stage("deadline") == 0
    (told,) = world.told()
    assert "the final stage was interrupted at runcmd (line 3)" in told["details"]["description"]


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
