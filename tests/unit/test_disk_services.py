"""The units around temporary disks, as links and files show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, Disk
from azureinit.facts.disk_services import THEIRS, await_udev, is_started, read_other_service
from azureinit.machine import Machine
from azureinit.plan.actions import Run, Satisfied, Step, Way
from azureinit.plan.units import plan_disk_service
from azureinit.run.maintenance import DISK_UNIT, MAINTENANCE, RUN_UNIT, START, Situation

ETC, USR = "etc/systemd/system", "usr/lib/systemd/system"


def make(tree: Path, *names: str) -> None:
    for name in names:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def link(tree: Path, name: str, target: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).symlink_to(target)


def other(tree: Path) -> str:
    return read_other_service(Machine(root=str(tree)), DISK_UNIT)


# ---- azure-vm-utils' own service


def test_it_is_not_there_or_not_enabled(tmp_path: Path) -> None:
    assert other(tmp_path) == ""
    make(tmp_path, f"{USR}/{THEIRS}")
    assert other(tmp_path) == ""


@pytest.mark.parametrize("wants", [f"{ETC}/multi-user.target.wants", f"{ETC}/sysinit.target.wants"])
def test_enabled_it_sets_up_the_disks_itself(tmp_path: Path, wants: str) -> None:
    make(tmp_path, f"{USR}/{THEIRS}")
    link(tmp_path, f"{wants}/{THEIRS}", f"/{USR}/{THEIRS}")
    assert other(tmp_path) == f"/{wants}/{THEIRS}"


@pytest.mark.parametrize("target", [DISK_UNIT, f"/{USR}/{DISK_UNIT}", "/dev/null"])
def test_a_link_to_our_unit_and_a_mask_are_not_its_service(tmp_path: Path, target: str) -> None:
    link(tmp_path, f"{ETC}/{THEIRS}", target)
    link(tmp_path, f"{ETC}/multi-user.target.wants/{THEIRS}", f"/{USR}/{THEIRS}")
    assert other(tmp_path) == ""


# ---- who starts ours


def started(tree: Path) -> bool | None:
    return is_started(Machine(root=str(tree)), DISK_UNIT, by=RUN_UNIT)


def test_without_systemd_nothing_is_started(tmp_path: Path) -> None:
    assert started(tmp_path) is None


@pytest.mark.parametrize("sign", [f"{USR}/{RUN_UNIT}.wants/{DISK_UNIT}", f"{ETC}/{RUN_UNIT}.wants/{DISK_UNIT}"])
def test_the_runs_unit_wants_it(tmp_path: Path, sign: str) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert started(tmp_path) is False
    link(tmp_path, sign, f"../{DISK_UNIT}")
    assert started(tmp_path) is True


def test_it_has_run(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    link(tmp_path, f"run/systemd/units/invocation:{DISK_UNIT}", "0123456789abcdef")
    assert started(tmp_path) is True


def test_the_run_queues_it_at_its_start_and_does_not_wait() -> None:
    """After Ready would be too late: WALinuxAgent's start job is then running."""
    (job,) = (job for job in MAINTENANCE if job.name == "temporary disks")
    assert job.when == START and not job.on_tree
    assert [bool(job.wanted(Config(disk=Disk(setup=setup)))) for setup in ("off", "auto")] == [False, True]
    (step,) = plan_disk_service(unit=DISK_UNIT, started=False, masked=False)
    assert isinstance(step, Step)
    (way,) = step.ways
    assert isinstance(way, Way)
    (action,) = way.actions
    assert isinstance(action, Run) and action.argv == ("systemctl", "--no-block", "start", DISK_UNIT)
    (item,) = plan_disk_service(unit=DISK_UNIT, started=True, masked=False)
    assert isinstance(item, Satisfied)


@pytest.mark.parametrize("directory", [ETC, "run/systemd/system"])
def test_a_masked_unit_is_not_started(tmp_path: Path, directory: str) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (job,) = (job for job in MAINTENANCE if job.name == "temporary disks")
    at = Situation(machine=Machine(root=str(tmp_path)), config=Config(disk=Disk(setup="auto")))
    (before,) = job.planner(at, job.facts(at))
    assert isinstance(before, Step)
    link(tmp_path, f"{directory}/{DISK_UNIT}", "/dev/null")
    (item,) = job.planner(at, job.facts(at))
    assert isinstance(item, Satisfied) and item.why == f"not set up: {DISK_UNIT} is masked"


def test_udev_is_awaited_only_if_it_has_something_to_do(tmp_path: Path) -> None:
    """No process is started here: the floor forbids it."""
    assert await_udev(Machine(root=str(tmp_path), search=()), timeout=1) == ""
    make(tmp_path, "run/udev/queue")
    assert await_udev(Machine(root=str(tmp_path), search=()), timeout=1) == ""
