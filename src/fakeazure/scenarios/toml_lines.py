"""The line of each key in a TOML text, for error messages; tomllib does not keep it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


def key_lines(text: str) -> dict[Path, int]:
    """Path of each key and table -> its first line. Items of an array are numbered from 0."""
    lines: dict[Path, int] = {}
    table: Path = ()
    for number, statement in statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = opened(parsed, lines)
            lines.setdefault(table, number)
        else:
            for path in key_paths(parsed):
                lines.setdefault((*table, *path), number)
    return lines


def statements(text: str) -> Iterator[tuple[int, str]]:
    """A statement: the fewest lines that parse on their own, as a value may span several."""
    pending, start = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        if not pending:
            start = number
        pending += line + "\n"
        try:
            tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        if pending.strip() and not pending.lstrip().startswith("#"):
            yield start, pending
        pending = ""


def opened(parsed: dict[str, Any], seen: dict[Path, int]) -> Path:
    """The path of a `[table]` or of the next `[[table]]` of its array."""
    path: Path = ()
    value: Any = parsed
    while value:
        if isinstance(value, list):
            path = (*path, next(n for n in range(len(seen) + 1) if (*path, n) not in seen))
            value = value[0]
        else:
            (key,) = value
            path = latest((*path, key), seen) if value[key] and isinstance(value[key], dict) else (*path, key)
            value = value[key]
    return path


def latest(path: Path, seen: dict[Path, int]) -> Path:
    """`[faults.x]` under `[[faults]]` belongs to the last of them."""
    count = sum(1 for other in seen if other[:-1] == path and isinstance(other[-1], int))
    return (*path, count - 1) if count else path


def key_paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from key_paths(inner, (*path, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from key_paths(inner, (*path, n))


def line_of(path: Path, lines: dict[Path, int]) -> int:
    """The line of the key, else of the first key below it, else of the nearest table around it."""
    while path:
        if path in lines:
            return lines[path]
        if inner := [line for other, line in lines.items() if other[: len(path)] == path]:
            return min(inner)
        path = path[:-1]
    return 1
