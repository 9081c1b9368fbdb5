"""Days in a pool, with a clock that is turned forward: no verdict, few lines, and no time that runs out."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeazure import Fabric, Vm
from fakeazure.platform.pool import Pool
from support.pool_clock import DAY, HOUR, LOG, wait_in_pool
from support.pooled import PATH


@pytest.mark.parametrize("jump", [0.0, 8 * HOUR, -8 * HOUR])
def test_a_day_in_the_pool_leaves_twenty_lines_and_no_verdict(tmp_path: Path, jump: float) -> None:
    """P32, P33: the wall clock jumps at noon, as after a resume. A request every ten minutes, to be done in time."""
    with Fabric(vm=Vm(pps_type="Running"), pool=Pool(on_call=True)) as fabric:
        days = wait_in_pool(tmp_path, fabric.imds, seconds=26 * HOUR, slow=600.0, jump_at=DAY / 2, jump=jump)
        asked = [one for one in fabric.ledger.requests if one.target.startswith(PATH)]
        assert fabric.ledger.told == () and len(asked) == 26 * 6 - 1
    (day,) = days
    assert 0 < day.lines <= 20, (tmp_path / LOG.lstrip("/")).read_text()


@pytest.mark.parametrize("answers", [["403*"], [403, 404, 403, "reset", 410, "403*"]], ids=["only", "mixed"])
def test_refusals_for_a_day_are_told_as_rarely(tmp_path: Path, answers: list[int | str]) -> None:
    """P25."""
    faults = [{"path": PATH, "answers": answers}]
    with Fabric(vm=Vm(pps_type="Running"), pool=Pool(on_call=True), faults=faults) as fabric:
        (day,) = wait_in_pool(tmp_path, fabric.imds, seconds=25 * HOUR, slow=300.0)
        times = [one.t for one in fabric.ledger.requests if one.target.startswith(PATH)]
    text = (tmp_path / LOG.lstrip("/")).read_text()
    assert len(times) > 200 and 0 < day.lines <= 20, text
    assert "status 403, IMDS refuses this VM" in text


def test_a_link_that_flaps_while_the_platform_is_silent_does_not_fill_the_log(tmp_path: Path) -> None:
    """For five hours, every five minutes; each time the network's manager is asked to configure the link again."""
    wait_in_pool(tmp_path, "http://127.0.0.1:9", seconds=5 * HOUR, flaps=300.0)
    text = (tmp_path / LOG.lstrip("/")).read_text()
    assert text.count("went down") == 16 and text.count("\n") <= 64, text
    assert 4 <= text.count("cannot be configured again") <= 8, text
