"""A parser for the common subset of TOML: tables, strings, numbers, booleans and lists.

It returns None for anything else and for any error; then tomllib decides. tomllib costs a fifth of a boot to load and
is missing before Python 3.11. A test checks that both parsers agree wherever this one answers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
BLANK = " \t"
LONGEST_NUMBER = 16
MOST_LINES = 64  # of one list


class _NotPlainError(Exception):
    pass


class _UnfinishedError(_NotPlainError):
    """A list that continues on the next line."""


def parse_plain(text: str) -> dict[str, Any] | None:
    document: dict[str, Any] = {}
    table = document
    lines = iter(text.split("\n"))
    try:
        for line in lines:
            content = line.strip(BLANK)
            if not content.isprintable():  # control characters and other rare text: left to tomllib
                return None
            if not content or content.startswith("#"):
                continue
            if content.startswith("["):
                name, closed, rest = content[1:].partition("]")
                if not closed:
                    return None
                table = {}
                _put(document, name.strip(BLANK), table)
            else:
                key, _, rest = content.partition("=")
                value, rest = _finished(rest.lstrip(BLANK), lines)
                _put(table, key.rstrip(BLANK), value)
            rest = rest.lstrip(BLANK)
            if rest and not rest.startswith("#"):
                return None
    except (_NotPlainError, RecursionError):
        return None
    return document


def _finished(text: str, lines: Iterator[str]) -> tuple[Any, str]:
    """The value, with the following lines of a multi-line list."""
    for _line in range(MOST_LINES):
        try:
            return _value(text)
        except _UnfinishedError:
            more = next(lines, "#").strip(BLANK)
            if "#" in more or not more.isprintable():
                raise
            text = f"{text} {more}"
    raise _NotPlainError


def _put(table: dict[str, Any], key: str, value: object) -> None:
    if not key or not BARE.issuperset(key) or key in table:
        raise _NotPlainError
    table[key] = value


def _value(text: str) -> tuple[Any, str]:
    """The value at the start of a text, and the rest."""
    quote = text[:1]
    if quote in ('"', "'"):
        content, closed, rest = text[1:].partition(quote)
        if not closed or rest.startswith(quote) or (quote == '"' and "\\" in content):
            raise _NotPlainError
        return content, rest
    if quote == "[":
        return _list(text[1:].lstrip(BLANK))
    end = next((at for at, letter in enumerate(text) if letter in ",]# \t"), len(text))
    return _word(text[:end]), text[end:]


def _list(text: str) -> tuple[list[Any], str]:
    values: list[Any] = []
    while not text.startswith("]"):
        if not text:
            raise _UnfinishedError
        value, text = _value(text)
        values.append(value)
        text = text.lstrip(BLANK)
        if text.startswith(","):
            text = text[1:].lstrip(BLANK)
        elif not text.startswith("]"):
            raise _NotPlainError if text else _UnfinishedError
    return values, text[1:]


def _word(word: str) -> bool | int | float:
    if word in ("true", "false"):
        return word == "true"
    digits = word[1:] if word[:1] in ("+", "-") else word
    whole, point, fraction = digits.partition(".")
    numeric = digits.isascii() and whole.isdigit() and (not point or fraction.isdigit())
    if not numeric or len(word) > LONGEST_NUMBER or (whole.startswith("0") and whole != "0"):
        raise _NotPlainError
    return float(word) if point else int(word)
