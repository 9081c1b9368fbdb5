"""Finds the line on which a TOML key stands, for messages and `config show`: never on a boot that goes well.

The parser of the standard library tells values, not places. This reads the same text a second time as a row of
tokens; the text is known to be valid TOML by then, and on any other text the worst is a missing line.
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
    """Every section and every key of one, as a path of one or two names, with the line it first stands on."""
    found: dict[Key, int] = {}
    for path, line in _keys(text):
        found.setdefault(path[:1], line)
        found.setdefault(path[:2], line)
    return found


def syntax_line(error: Exception, text: str) -> tuple[str, int | None]:
    """A TOML parser's complaint without its place, and the place as a line."""
    what, mark, place = str(error).rpartition(" (at ")
    if not mark:
        return str(error), None
    if place.startswith("line "):
        return what, int(place[len("line ") :].split(",")[0])
    return what, len(text.splitlines()) or 1


def _keys(text: str) -> Iterator[tuple[Key, int]]:
    line = 1
    table: Key = ()  # what the last [header] named
    parts: list[str] = []  # of the key being read
    reading = "key"  # or "header", "value", "rest" (of a header's line)
    open_: list[tuple[str, Key]] = []  # the brackets around us, each with the key it is the value of
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
