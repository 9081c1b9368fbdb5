"""Timestamps of records: RFC 3339, with an offset or Z."""

from __future__ import annotations

SHAPE = "dddd-dd-ddTdd:dd:dd"
DIGITS = "0123456789"


def utc(text: str) -> str | None:
    """The same time in UTC with Z and a fraction of 3, 6 or 9 digits; None if it is not a timestamp."""
    from datetime import datetime, timedelta

    clock, rest = text[: len(SHAPE)], text[len(SHAPE) :]
    fraction = ""
    if rest.startswith("."):
        zone = rest[1:].lstrip(DIGITS)
        fraction = rest[1 : len(rest) - len(zone)]
        if not fraction:
            return None
        rest = zone
    if not _has_shape(clock, SHAPE):
        return None
    ahead = 0
    if rest not in ("Z", "z"):
        if rest[:1] not in ("+", "-") or not _has_shape(rest[1:], "dd:dd"):
            return None
        hours, minutes = int(rest[1:3]), int(rest[4:6])
        if hours > 23 or minutes > 59:
            return None
        ahead = (60 * hours + minutes) * (1 if rest[0] == "+" else -1)
    try:
        numbers = (clock[:4], clock[5:7], clock[8:10], clock[11:13], clock[14:16], clock[17:])
        moment = datetime(*map(int, numbers)) - timedelta(minutes=ahead)  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
    fraction = fraction[:9].rstrip("0")
    fraction = fraction.ljust(-(-len(fraction) // 3) * 3, "0")
    return moment.isoformat() + (f".{fraction}Z" if fraction else "Z")


def is_canonical(text: str) -> bool:
    """The form of native diagnostics: Z, and a fraction of 0, 3, 6 or 9 digits."""
    return text.endswith("Z") and "t" not in text and len(text) - len(SHAPE) in (1, 5, 8, 11) and utc(text) is not None


def _has_shape(text: str, shape: str) -> bool:
    if len(text) != len(shape):
        return False
    return all(one in DIGITS if kind == "d" else one == kind or one == kind.lower() for one, kind in zip(text, shape))
