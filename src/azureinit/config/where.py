"""Finds the line of a TOML key, for messages and `config show`. Not loaded by a boot without errors.

The standard library's parser returns values without positions. This module scans the same text again as tokens. The
text is known to be valid TOML by then; on other text the worst result is a missing line number.
"""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Key = tuple[str, ...]

TOKEN = re.compile(
    r'(?P<text>"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|[^\s\[\]{}=,.#\"']+)"
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<mark>[\[\]{}=,])",
    re.DOTALL,
)


@lru_cache(maxsize=4)
def key_lines(text: str) -> dict[Key, int]:
    """Every section and key, as a path of one or two names, with its first line."""
    found: dict[Key, int] = {}
    for path, line in _keys(text):
        found.setdefault(path[:1], line)
        found.setdefault(path[:2], line)
    return found


def syntax_line(error: Exception, text: str) -> tuple[str, int | None]:
    """A TOML parser's message without the position, and the position's line."""
    what, mark, place = str(error).rpartition(" (at ")
    if not mark:
        return str(error), None
    if place.startswith("line "):
        return what, int(place[len("line ") :].split(",")[0])
    return what, len(text.splitlines()) or 1


def _keys(text: str) -> Iterator[tuple[Key, int]]:
    line = 1
    table: Key = ()  # the path of the last [header]
    parts: list[str] = []  # of the key being read
    reading = "key"  # or "header", "value", "rest" (of a header's line)
    open_: list[tuple[str, Key]] = []  # open brackets, each with its key
    here: Key = ()

    for token in TOKEN.finditer(text):
        kind, word = token.lastgroup, token.group()
        if kind == "newline":
            line += 1
            if not open_:
                reading, parts = "key", []
        elif kind == "text":
            if reading in ("key", "header"):
                parts.append(word[1:-1] if word[0] in "\"'" else word)
            line += word.count("\n")
        elif kind == "comment":
            continue
        elif reading == "header":
            if word == "]":
                table, reading = tuple(parts), "rest"
                yield table, line
        elif reading == "key" and word == "[" and not open_:
            reading = "header"
        elif reading == "key" and word == "=":
            here = (open_[-1][1] if open_ else table) + tuple(parts)
            reading = "value"
            yield here, line
        elif word in "[{":
            open_.append((word, here))
            reading, parts = ("value" if word == "[" else "key"), []
        elif word in "]}" and open_:
            _, here = open_.pop()
            reading = "value"
        elif word == "," and open_:
            inside, here = open_[-1]
            reading, parts = ("value" if inside == "[" else "key"), []
