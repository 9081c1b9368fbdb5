"""The shipped scenarios that a test plays: all of them with `scripts/test --all`, else a few of each large family."""

from __future__ import annotations

from fakeazure.scenarios.catalogue import names
from support.bounds import sample

FAMILIES = (
    "network-",
    "pre-provisioned-",
)  # of the first letters of their names; each tries one machine with many documents


def played_names(few: int) -> list[str]:
    """At most `few` of each large family, and all others."""
    families = {family: [name for name in names() if name.startswith(family)] for family in FAMILIES}
    chosen = {name for members in families.values() for name in sample(members, few)}
    return [name for name in names() if name in chosen or not name.startswith(FAMILIES)]
