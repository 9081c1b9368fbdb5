"""JSON without the `json` package, whose regular expressions cost every boot 3 ms, a tenth of its time.

The scanner and the encoder are the C ones that `json` itself uses, called directly. They are private to CPython. The
`json` package does the same work where they are missing, where they do not give the expected answer to a probe, or
where they raise anything but ValueError. Both ways are stricter than `json` in one thing: NaN and the infinities are
refused.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SPACE = " \t\n\r"
PROBE = '{"a":[1,-2.5,"\\n",true,null]}'


class _Kinds:
    """The settings that the scanner reads: which Python values it makes."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None  # array_hook: Python 3.15 and later
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")


def loads(text: str) -> Any:
    """The one value in the text. Any other text is a ValueError, also one that is nested too deeply."""
    try:
        return _scanned(text) if _scan is not None else plain_loads(text)
    except ValueError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except Exception:  # noqa: BLE001 - the scanner of Python 3.10 and 3.11 raises SystemError for an unclosed string
        return plain_loads(text)


def _scanned(text: str) -> Any:
    try:
        value, end = _scan(text, len(text) - len(text.lstrip(SPACE)))
    except StopIteration as error:
        raise ValueError(f"no value at character {error.value}") from None
    if text[end:].strip(SPACE):
        raise ValueError(f"text after the value at character {end}")
    return value


def plain_loads(text: str) -> Any:
    """`loads` by the `json` package."""
    import json

    try:
        return json.loads(text, parse_constant=_Kinds.parse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: object, *, ascii_only: bool = True) -> str:
    """On one line, without spaces. Keys must be strings."""
    encode = _encode if ascii_only else _encode_all
    if encode is None:
        return plain_dumps(value, ascii_only=ascii_only)
    try:
        return "".join(encode(value, 0))
    except (ValueError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - an encoder with another interface
        return plain_dumps(value, ascii_only=ascii_only)


def plain_dumps(value: object, *, ascii_only: bool = True) -> str:
    """`dumps` by the `json` package."""
    import json

    separators = (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators, allow_nan=False, default=_refuse)


def _refuse(value: object) -> None:
    raise ValueError(f"not JSON: a {type(value).__name__}")


def _private() -> tuple[Any, Any, Any]:
    """CPython's scanner and its two encoders; three times None if any of them is not as expected."""
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

        def encoder(quote: Callable[[str], str]) -> Any:
            # In this order: no search for cycles, the function for other values, the one for strings, no indentation,
            # the separators, keys in their order, no key skipped, no NaN.
            return make_encoder(None, _refuse, quote, None, ":", ",", False, False, False)

        scan = make_scanner(_Kinds)  # type: ignore[arg-type]
        encoders = encoder(encode_basestring_ascii), encoder(encode_basestring)
        value, end = scan(PROBE, 0)
        if end == len(PROBE) and all("".join(encode(value, 0)) == PROBE for encode in encoders):
            return scan, *encoders
    except Exception:  # noqa: BLE001, S110 - a private interface may fail in any way; `json` does the same work
        pass
    return None, None, None


_scan, _encode, _encode_all = _private()
