"""The number of inputs that adversary tests try: a bounded sample under CI, all of them with `scripts/test --all`.

AZURE_INIT_TEST_ALL=1      no bound (set by `scripts/test --all`)
AZURE_INIT_TEST_SEED=N     another sample, and other random inputs; a failing test names the seed it used
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

Point = TypeVar("Point")

ALL = os.environ.get("AZURE_INIT_TEST_ALL") == "1"
SEED = int(os.environ.get("AZURE_INIT_TEST_SEED", "20261116"))


def bounded(few: int, many: int) -> int:
    """How many random inputs to try."""
    return many if ALL else few


def sample(points: Sequence[Point], few: int) -> list[Point]:
    """At most `few` of these, always the same for one seed; all of them without a bound."""
    if ALL or len(points) <= few:
        return list(points)
    chosen = sorted(random.Random(SEED).sample(range(len(points)), few))
    return [points[index] for index in chosen]
