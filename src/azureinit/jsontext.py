"""JSON without the `json` package, whose regular expressions alone would cost every boot a tenth of its time.

The scanner and the quoting are the ones that `json` itself uses. Stricter in one thing: NaN and the infinities, which
JSON does not have, are refused.
"""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
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


def dumps(value: object, *, ascii_only: bool = True) -> str:
    """On one line, without spaces. Keys are strings."""
    quote = encode_basestring_ascii if ascii_only else encode_basestring
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        pairs = (f"{quote(key)}:{dumps(item, ascii_only=ascii_only)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dumps(item, ascii_only=ascii_only) for item in value) + "]"
    if isinstance(value, int) or (isinstance(value, float) and value - value == 0):
        return repr(value)
    raise ValueError(f"not JSON: {value!r}" if isinstance(value, float) else f"not JSON: a {type(value).__name__}")
