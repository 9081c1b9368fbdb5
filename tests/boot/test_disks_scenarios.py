"""The situations in which azure-vm-utils' authors try their service by hand, on real devices of one booted guest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.disk_guest import MIB, DiskGuest, booted
from support.disk_rows import ROWS, Row

pytestmark = pytest.mark.newer
# Those with the same disks after each other: connecting disks takes longer than emptying them.
ORDER = sorted(ROWS, key=lambda row: (row.sector, row.size, row.nvme))


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskGuest]:
    with booted(tmp_path_factory.mktemp("guest"), resource=64 * MIB, data=32 * MIB) as running:
        yield running


@pytest.mark.parametrize("row", ORDER, ids=lambda row: row.name)
def test_scenario(guest: DiskGuest, row: Row) -> None:
    seen = guest.scenario(row)
    assert "Traceback" not in seen.told
    assert bool(seen.status) == bool(row.status), seen.told
    for words in row.says:
        assert words in seen.told
    assert seen.mounted == row.mounted, seen.told
    assert bool(seen.changed) == row.changed, seen.told
    assert seen.after.status == 0, seen.after.out + seen.told
