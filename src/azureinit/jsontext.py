"""JSON without the `json` package, whose regular expressions alone would cost every boot a tenth of its time (3 ms).

The scanner and the encoder are the C ones that `json` itself uses, called directly. They are private to CPython: where
they are missing, or fail with anything but an answer, the `json` package does the same work. Both are stricter than
`json` in one thing: NaN and the infinities, which JSON does not have, are refused.
"""

from __future__ import annotations

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


def loads(text: str) -> Any:
    """Exactly one value. Every other text is a ValueError, also one that is nested too deeply."""
    try:
        return _scanned(text) if _scan is not None else plain_loads(text)
    except ValueError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except Exception:  # noqa: BLE001 - Python 3.10's and 3.11's scanner raises SystemError for a text that ends in a string
        return plain_loads(text)


def _scanned(text: str) -> Any:
    try:
        value, end = _scan(text, len(text) - len(text.lstrip(SPACE)))
    except StopIteration as error:
        raise ValueError(f"no value at character {error.value}") from None
    if text[end:].strip(SPACE):
        raise ValueError(f"something behind the value at character {end}")
    return value


def plain_loads(text: str) -> Any:
    """The same by the `json` package."""
    import json

    try:
        return json.loads(text, parse_constant=_Kinds.parse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: object, *, ascii_only: bool = True) -> str:
    """On one line, without spaces. Keys are strings."""
    encode = _encode if ascii_only else _encode_all
    return plain_dumps(value, ascii_only=ascii_only) if encode is None else "".join(encode(value, 0))


def plain_dumps(value: object, *, ascii_only: bool = True) -> str:
    """The same by the `json` package."""
    import json

    separators = (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators, allow_nan=False, default=_refuse)


def _refuse(value: object) -> None:
    raise ValueError(f"not JSON: a {type(value).__name__}")


def _private() -> tuple[Any, Any, Any]:
    """The scanner and the two encoders of CPython; nothing where this Python has none, or others."""
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

        def encoder(quote: Callable[[str], str]) -> Any:
            # In this order: no search for cycles, the function for other values, the one for strings, no indentation,
            # the separators, keys in their order, no key skipped, no NaN.
            return make_encoder(None, _refuse, quote, None, ":", ",", False, False, False)

        return make_scanner(_Kinds), encoder(encode_basestring_ascii), encoder(encode_basestring)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError, ValueError):
        return None, None, None


_scan, _encode, _encode_all = _private()
