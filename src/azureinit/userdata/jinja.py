"""The variables of templates, by cloud-init's names, and the text that is rendered. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# jinja2's operators, the longer ones first: a name that contains one cannot follow a dot.
OPERATORS = ("//", "**", "==", "!=", ">=", "<=", *"+-/*%~[](){}<>=.:|,;")


def body_of(template: bytes) -> tuple[str, int]:
    """The text below the template's first line, and how many lines are before it."""
    text = template.decode()
    start = len(text) - len(text.lstrip())
    return text[start:].partition("\n")[2], text.count("\n", 0, start) + 1


def variables(data: Mapping[str, Any], *, aliases: bool = True) -> dict[str, Any]:
    """Instance data as templates see them: the keys of v1 also at the top, and names with hyphens with underscores."""
    made: dict[str, Any] = {}
    for key, value in sorted(data.items()):
        made[key] = variables(value, aliases=aliases) if isinstance(value, dict) else value
        if isinstance(value, dict) and key[:1] == "v" and key[1:].isascii() and key[1:].isdigit():
            made.update(made[key])
        if aliases and alias(key) != key:
            made[alias(key)] = made[key]
    return made


def alias(key: str) -> str:
    for operator in OPERATORS:
        key = key.replace(operator, "_")
    return key
