"""Facts for tests: parts of them as a planner's arguments, and single fields changed."""

from __future__ import annotations

from typing import Any

from azureinit.facts.gather import Facts, Sudoers, Unread
from azureinit.facts.host import Host
from azureinit.facts.hostnames import HostNames
from azureinit.facts.key_files import AdminFiles
from azureinit.record import replace

OF_PARTS: dict[str, Any] = {"host": Host, "names": HostNames, "sudoers": Sudoers, "admin": AdminFiles}


def parts(facts: Facts, *names: str) -> dict[str, Any]:
    """Keyword arguments of a planner."""
    return {name: getattr(facts, name) for name in names}


def altered(facts: Facts, **changes: Any) -> Facts:
    """The facts with other parts, or other fields of host, names, sudoers and admin. An unread admin has no files."""
    if isinstance(facts.admin, Unread):
        facts = replace(facts, admin=AdminFiles())
    for field, value in changes.items():
        part = next((name for name, kind in OF_PARTS.items() if field in kind.fields_), None)
        if part is None:
            facts = replace(facts, **{field: value})
        else:
            facts = replace(facts, **{part: replace(getattr(facts, part), **{field: value})})
    return facts
