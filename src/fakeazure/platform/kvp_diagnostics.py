"""azure-init's diagnostics in the key-value pool as sentences, in the current and the former format."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

FIELDS = 11  # DIAG|agent|vm_id|kind|name|event_id|timestamp|encoding|result|duration|chunk
PAYLOAD_LIMIT = 1024 * 1024
DID = {"success": "succeeded", "fail": "failed"}


def group(key: str) -> str | None:
    """The key without the number of its chunk; None: not a diagnostic."""
    parts = key.split("|")
    is_one = len(parts) == FIELDS and parts[0] == "DIAG" and is_number(parts[-1])
    return "|".join(parts[:-1]) if is_one else None


def sentence(key: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The payload, and the sentence."""
    _, agent, _, kind, name, _, _, encoding, result, duration = key.split("|")
    payload, broken = joined(pairs)
    if not broken:
        payload, broken = decoded(payload, encoding)
    took = f" after {duration} s" if duration else ""
    did = {"start": "begins", "finish": f"{DID.get(result, result or 'ended')}{took}"}.get(kind, "")
    heading = f"{agent}: {name}{' ' + did if did else ''}"
    return payload, heading + (f" ({broken})" if broken else f": {payload}" if payload else "")


def joined(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The joined chunks, and a problem, if any."""
    chunks = {int(key.rpartition("|")[2]): value for key, value in pairs}
    missing = next((n for n in range(len(chunks)) if n not in chunks), None)
    whole = "".join(chunks[n] for n in sorted(chunks))
    return whole, "" if missing is None else f"incomplete: its part {missing} is missing"


def decoded(payload: str, encoding: str) -> tuple[str, str]:
    if encoding in ("none", ""):
        return payload, ""
    if encoding not in ("zlib+b64", "gz+b64"):
        return payload, f"unreadable: unknown encoding {encoding}"
    text = inflated(payload)
    return (payload, f"unreadable: no {encoding}") if text is None else (text, "")


def inflated(payload: str) -> str | None:
    """Decompresses zlib or gzip in base64, up to a limit; None: it is neither."""
    try:
        packed = base64.b64decode("".join(payload.split()), validate=True)
        return zlib.decompressobj(wbits=47).decompress(packed, PAYLOAD_LIMIT).decode(errors="replace")
    except (binascii.Error, ValueError, zlib.error):
        return None


def is_old(key: str) -> bool:
    """`azure-init-0.1.1|vm id|LEVEL|span|event id`: the form of the released Rust agent."""
    return key.startswith("azure-init-") and key.count("|") == 4


def old_sentence(key: str, value: str) -> str:
    """An event has a level; the end of a span has only times. A long event is several records with one key, of which
    the host keeps only the last: the end of the text.
    """
    agent, _, level, span, _ = key.split("|")
    if value.startswith("Start: "):
        return f"{agent}: {span} ends ({value})"
    _, marked, event = value.partition(" | Event: ")
    return f"{agent}: {level} {span}: {event if marked else '...' + value}"


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6
