"""The situations in which azure-vm-utils' authors try their service by hand, on real devices of one booted guest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from support.bounds import sample
from support.disk_guest import MIB, DiskGuest, Seen, booted
from support.disk_kills import KILLS
from support.disk_rows import ROWS, Row

pytestmark = pytest.mark.newer


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Those with the same disks after each other: connecting disks takes longer than emptying them."""
    return sorted(rows, key=lambda row: (row.sector, row.size, row.nvme))


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskGuest]:
    with booted(tmp_path_factory.mktemp("guest"), resource=40 * MIB, data=32 * MIB) as running:
        yield running


# Refusals take two seconds; what is set up waits for systemd and takes ten. All of them: `scripts/test --all`.
REFUSED = sample([row for row in ROWS if not row.changed], 16)
SET_UP = sample([row for row in ROWS if row.changed], 4)


@pytest.mark.parametrize("row", ordered([*REFUSED, *SET_UP]), ids=lambda row: row.name)
def test_scenario(guest: DiskGuest, row: Row) -> None:
    judge(guest.scenario(row), row)


@pytest.mark.parametrize("row", ordered(sample(KILLS, 2)), ids=lambda row: row.name)
def test_a_run_after_one_that_was_killed(guest: DiskGuest, row: Row) -> None:
    judge(guest.scenario(row), row)


def judge(seen: Seen, row: Row) -> None:
    assert "Traceback" not in seen.told
    assert bool(seen.status) == bool(row.status), seen.told
    assert not row.statuses or seen.statuses == row.statuses, seen.told
    for words in row.says:
        assert words in seen.told
    assert seen.mounted == row.mounted, seen.told
    assert bool(seen.changed) == row.changed, seen.told
    assert len(seen.swaps) == len(row.swaps), seen.told
    assert all(words in swap for words, swap in zip(row.swaps, seen.swaps, strict=True)), seen.swaps
    assert seen.after.status == 0, seen.after.out + seen.told
