"""Which listeners a run has, on machines of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config
from azureinit.machine import Machine
from azureinit.run.stages import STAGES
from azureinit.telemetry.events import WARN
from azureinit.telemetry.listen import listen
from support.wire import Ticking

UUID = "11111111-2222-4333-8444-55555555abcd"


def odd_machine(directory: Path, dice: str | None) -> Machine:
    place = directory / "kernel/proc/sys/kernel/random/uuid"
    place.parent.mkdir(parents=True)
    if dice is None:
        place.mkdir()
    elif dice:
        place.write_text(dice)
    return Machine(root=str(directory), kernel=str(directory / "kernel"), clock=Ticking(), environ={})


def test_a_run_has_the_number_that_the_kernel_gave_it(tmp_path: Path) -> None:
    heard = listen(odd_machine(tmp_path, f"{UUID}\n"), Config(), write=lambda text: None, ours=True)
    assert heard.events.seed == UUID.replace("-", "")


@pytest.mark.parametrize("dice", [None, "", "zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz", "\x00\x7f"])
def test_a_kernel_without_dice_is_no_reason_not_to_speak(tmp_path: Path, dice: str | None) -> None:
    said: list[str] = []
    heard = listen(odd_machine(tmp_path, dice), Config(), write=said.append, ours=True)
    heard.events.tell(WARN, "one", "x")
    heard.events.flush()
    assert said == ["azure-init: warning: one: x\n"]
    assert len(heard.events.seed) == 32 and int(heard.events.seed, 16)


@pytest.mark.parametrize(
    ("verdict", "to_host", "pool"), [(True, False, True), (False, False, False), (False, True, True)]
)
def test_a_stage_without_a_verdict_writes_to_the_pool_only_if_its_row_says_so(
    tmp_path: Path, verdict: bool, to_host: bool, pool: bool
) -> None:
    machine = odd_machine(tmp_path, UUID)
    heard = listen(machine, Config(), write=lambda text: None, ours=True, verdict=verdict, to_host=to_host)
    assert (heard.kvp is not None) == pool


def test_the_rows_of_stages_that_do() -> None:
    assert [stage.name for stage in STAGES if stage.to_host] == ["disk"]
