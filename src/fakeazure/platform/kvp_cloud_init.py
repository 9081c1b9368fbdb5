"""cloud-init's records in the key-value pool as sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from fakeazure.platform.kvp_diagnostics import inflated, is_number

# cloud-init splits a long message after escaping, so that a part alone may not be valid JSON.
PIECE = re.compile(r'"msg"\s*:\s*"(?P<piece>.*?)"(?P<rest>(?:\s*,\s*"msg_i"\s*:\s*\d+)?\s*\})\s*$', re.DOTALL)
DID = {"SUCCESS": "succeeded", "FAIL": "failed", "WARN": "ended with warnings"}


def group(key: str) -> str | None:
    """The key without the number of its part; None: not a record of cloud-init."""
    parts = key.split("|")
    if parts[0] != "CLOUD_INIT" or len(parts) < 5:
        return None
    return "|".join(parts[:-1] if len(parts) > 5 and is_number(parts[-1]) else parts)


def sentence(key: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The message, and the sentence."""
    kind, name = key.split("|")[2:4]
    ordered = sorted(pairs, key=lambda pair: number_of(pair[0], key))
    pieces = [parse_piece(value) for _, value in ordered]
    about = pieces[0][0]
    escaped = "".join(piece for _, piece in pieces)
    message = unescaped(escaped)
    did = {"start": " begins", "finish": f" {DID.get(str(about.get('result')), 'ended')}"}.get(kind, "")
    took = f" after {about['duration']} s" if kind == "finish" and about.get("duration") else ""
    heading = f"cloud-init: {name}{did}{took}"
    if message is None or not all(about for about, _ in pieces):
        return escaped, f"{heading} (unreadable)"
    message = unpacked(message) if kind == "compressed" else message
    return message, f"{heading}: {message}" if message else heading


def number_of(key: str, whole: str) -> int:
    rest = key.removeprefix(whole + "|")
    return int(rest) if is_number(rest) else 0


def parse_piece(value: str) -> tuple[dict[str, Any], str]:
    """The event's fields, and its message, still escaped; both empty if the value is invalid."""
    found = PIECE.search(value)
    try:
        about = json.loads(value[: found.start()] + '"msg":""' + found["rest"] if found else value)
    except (ValueError, RecursionError):
        return {}, ""
    return (about if isinstance(about, dict) else {}), found["piece"] if found else ""


def unescaped(text: str) -> str | None:
    try:
        value = json.loads(f'"{text}"', strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def unpacked(message: str) -> str:
    """`{"encoding": "gz+b64", "data": ...}`, which is really zlib; any other message is returned unchanged."""
    try:
        packed = json.loads(message)
    except (ValueError, RecursionError):
        return message
    text = inflated(packed["data"]) if isinstance(packed, dict) and isinstance(packed.get("data"), str) else None
    return message if text is None else text
