"""The rows of STAGES beside the units that systemd starts, and the options of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.run.dispatch import RUN
from azureinit.run.stages import AWAITED, NOTHING, STAGES, Stage, find_stage

UNITS = Path(__file__).parents[2] / "systemd"


def settings(unit: str, key: str) -> list[str]:
    lines = (UNITS / unit).read_text().splitlines()
    return [value for name, _, value in (line.partition("=") for line in lines) if name == key]


def test_every_unit_has_one_row() -> None:
    again = ["azure-init-disk-late@.service"]  # runs the stage of another unit once more
    assert sorted([*again, *(stage.unit for stage in STAGES)]) == sorted(path.name for path in UNITS.glob("*.service"))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_unit_starts_the_stage_of_its_row(stage: Stage) -> None:
    words = "" if stage.name == "provision" else f" --stage {stage.name}"
    assert settings(stage.unit, "ExecStart") == [f"/usr/bin/azure-init{words}"]


def test_every_stage_beside_the_run_has_a_function() -> None:
    assert set(RUN) == {stage.name for stage in STAGES} - {"provision"}
    assert find_stage("").name == "provision"


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_only_a_stage_that_may_run_before_the_mounts_starts_without_waiting_for_them(stage: Stage) -> None:
    """The run requires the mounts, and the units that follow it are ordered after it."""
    after = {word for value in settings(stage.unit, "After") for word in value.split()}
    others = {row.unit for row in STAGES if not row.before_mounts}
    waits = bool(settings(stage.unit, "RequiresMountsFor")) or bool(after & others)
    assert stage.before_mounts == (not waits)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_with_planners_and_a_verdict_asks_sources_first(stage: Stage) -> None:
    assert bool(stage.sources) == bool(stage.planners())
    assert stage.tells in (NOTHING, AWAITED) or stage.ends_if_done, "a provisioned machine has its verdict"
