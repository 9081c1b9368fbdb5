"""Random disks: none that holds a byte within the bound is ever taken for blank, or is in a step that formats."""

from __future__ import annotations

import random

from azureinit.facts.disk_content import bound, read_content
from support.bounds import SEED
from support.disk_cases import facts, nvme, on_devices, plan
from support.sparse_disks import SIGNED, random_disk

DISKS = 10_000


def within(size: int, offset: int) -> bool:
    return any(start <= offset < start + length for start, length in bound(size))


def test_disks_with_a_byte_within_the_bound_are_never_formatted() -> None:
    """Disks with data only outside the samples look blank: they are counted apart."""
    chance = random.Random(SEED)
    unseen = empty = signed = formatted = 0
    for number in range(DISKS):
        disk, names = random_disk(chance)
        content = read_content(disk, disk.size)
        offsets = list(disk.nonzero())
        seen = any(within(disk.size, offset) for offset in offsets)
        case = f"disk {number} of seed {SEED}: {disk.size} bytes, {names}"
        assert not (content.blank and (seen or names)), case
        assert content.blank or offsets, case
        steps = on_devices(plan(facts(nvme(0, content, size=disk.size))))
        assert not (steps and (seen or names)), case
        assert bool(steps) is content.blank, case
        if len(names) == 1 and len(offsets) > 8:  # nothing but a stray byte may have damaged it
            signed += SIGNED[names[0]][0] in {one.kind for one in content.signatures}
        unseen += bool(content.blank and offsets)
        empty += not offsets
        formatted += bool(steps)
    print(f"{DISKS} random disks: {empty} empty, {unseen} with data only outside the samples, which look blank")
    assert formatted == empty + unseen
    assert empty > 500 and unseen > 100 and signed > 1000
