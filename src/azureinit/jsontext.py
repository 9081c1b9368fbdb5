"""JSON without the `json` package, whose regular expressions alone would cost every boot a tenth of its time.

The scanner and the quoting are the ones that `json` itself uses. Stricter in one thing: NaN and the infinities, which
JSON does not have, are refused.
"""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SPACE = " \t\n\r"


class _Kinds:
    """What the scanner makes of what it reads."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None  # the last from Python 3.15 on
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")


_scan = make_scanner(_Kinds)  # type: ignore[arg-type]  # anything with these attributes


def loads(text: str) -> Any:
    """Exactly one value; anything else is a ValueError, or a RecursionError where it is nested too deeply."""
    try:
        value, end = _scan(text, len(text) - len(text.lstrip(SPACE)))
    except StopIteration as error:
        raise ValueError(f"no value at character {error.value}") from None
    if text[end:].strip(SPACE):
        raise ValueError(f"something behind the value at character {end}")
    return value


def _refuse(value: object) -> None:
    raise ValueError(f"not JSON: a {type(value).__name__}")


def _encoder(quote: Callable[[str], str]) -> Any:
    # In this order: no search for circles, what becomes of other things, how strings are told, no indentation, what
    # stands between a key and its value and between two items, keys as they come, none passed over, no NaN.
    return make_encoder(None, _refuse, quote, None, ":", ",", False, False, False)


_encode, _encode_all = _encoder(encode_basestring_ascii), _encoder(encode_basestring)


def dumps(value: object, *, ascii_only: bool = True) -> str:
    """On one line, without spaces. Keys are strings."""
    return "".join((_encode if ascii_only else _encode_all)(value, 0))
