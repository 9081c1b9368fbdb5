"""A pool's records, decoded: diagnostics joined from their pieces, reports, and raw records.

Undecodable records stay raw, each in its place, with a reason. A diagnostic takes the place of its first record.
"""

from __future__ import annotations

from azureinit.kvp.cloudinit import PREFIX as CLOUD_INIT, parse_pieces, parse_single, split_key
from azureinit.kvp.diagnostics import FORMAT, RESULTS, Diagnostic, Undecodable, decode_payload, is_uuid
from azureinit.kvp.moments import is_canonical
from azureinit.kvp.report import REPORT_KEY, encoded, parse_report
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Union

    from azureinit.kvp.records import Pair
    from azureinit.kvp.report import Report

    Entry = Union["Diagnostic", "Report", "Raw"]

UNSUPPORTED, INCOMPLETE, DUPLICATE = "unsupported_version", "incomplete_group", "duplicate_chunk"
UNDECODABLE, MALFORMED = "undecodable", "malformed"


class Raw(Record):
    key: str
    value: str
    error: str | None = None  # one of the reasons above; empty for records in other formats


class Refused(ValueError):
    """Carries the reason."""


def parse_entries(pairs: Iterable[Pair]) -> list[Entry]:
    placed: list[tuple[int, Entry]] = []
    groups: dict[str, list[tuple[int, int, Pair]]] = {}
    for place, (key, value) in enumerate(pairs):
        try:
            base, index = _split(key)
            if index is not None:
                groups.setdefault(base, []).append((_number(index), place, (key, value)))
                continue
            placed.append((place, _single(key, value)))
        except ValueError as error:
            placed.append((place, Raw(key=key, value=value, error=_word(error))))
    for base, group in groups.items():
        try:
            placed.append((min(place for _, place, _ in group), _together(base, group)))
        except ValueError as error:
            placed += [(place, Raw(key=key, value=value, error=_word(error))) for _, place, (key, value) in group]
    return [entry for _, entry in sorted(placed, key=lambda one: one[0])]


def entry_as_json(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Raw):
        told: dict[str, Any] = {"type": "raw", **entry.as_dict()}
        return told if entry.error else {name: value for name, value in told.items() if name != "error"}
    if isinstance(entry, Diagnostic):
        told = {"type": "diagnostic", **entry.as_dict(), "payload": _payload_as_json(entry.payload)}
        return {name: value for name, value in told.items() if value is not None or name == "vm_id"}
    told = {"type": REPORT_KEY, **entry.as_dict()}
    told["supporting"] = [list(pair) for pair in entry.supporting]
    if entry.result == "success":
        del told["reason"]
    return {name: value for name, value in told.items() if value is not None}


def entry_as_text(entry: Entry) -> str:
    """One field for each line, for grep; without escaping."""
    if isinstance(entry, Raw):
        return f"raw key={entry.key} value={entry.value}" + (f" error={entry.error}" if entry.error else "")
    if not isinstance(entry, Diagnostic):
        return f"{REPORT_KEY}={encoded(entry)}"
    told = {name: value for name, value in entry.as_dict().items() if value is not None and name != "payload"}
    if entry.duration is not None:
        told["duration"] = f"{entry.duration:.6f}"
    payload = _payload_as_json(entry.payload)
    told.update({"payload": payload} if isinstance(payload, str) else {"payload_b64": payload["data"]})
    return "diagnostic " + " ".join(f"{name}={value}" for name, value in told.items())


def _split(key: str) -> tuple[str, str | None]:
    format_ = key.split("|", 1)[0]
    if format_ == FORMAT:
        base, bar, index = key.rpartition("|")
        if not bar:
            raise Refused(MALFORMED)
        return base, index
    if format_ == CLOUD_INIT:
        return split_key(key)
    if format_.startswith(FORMAT + "_V"):
        raise Refused(UNSUPPORTED)
    return key, None


def _single(key: str, value: str) -> Entry:
    if key == REPORT_KEY:
        return parse_report(value)
    if key.split("|", 1)[0] == CLOUD_INIT:
        return parse_single(key, value)
    return Raw(key=key, value=value)


def _together(base: str, group: list[tuple[int, int, Pair]]) -> Diagnostic:
    parse: Callable[[str, list[str]], Diagnostic] = parse_pieces if base.startswith(f"{CLOUD_INIT}|") else _native
    if parse is _native:
        _native_fields(base)  # report an invalid key before invalid pieces
    group.sort(key=lambda one: one[0])
    numbers = [number for number, _, _ in group]
    if len(set(numbers)) != len(numbers):
        raise Refused(DUPLICATE)
    if numbers[-1] != len(numbers) - 1:
        raise Refused(INCOMPLETE)
    return parse(base, [value for _, _, (_, value) in group])


def _native(base: str, values: list[str]) -> Diagnostic:
    agent, vm_id, kind, name, event_id, timestamp, encoding, result, duration = _native_fields(base)
    return Diagnostic(
        kind=kind,
        agent=agent,
        vm_id=vm_id,
        name=name,
        event_id=event_id,
        timestamp=timestamp,
        encoding=encoding,
        result=result or None,
        duration=float(duration) if duration else None,
        payload=decode_payload("".join(values), encoding),
    )


def _native_fields(base: str) -> list[str]:
    fields = base.split("|")[1:]
    if len(fields) != 9 or "\0" in base or not all(fields[:7]):
        raise Refused(MALFORMED)
    _, vm_id, kind, _, event_id, timestamp, _, result, duration = fields
    allowed = {
        "start": not result and not duration,
        "finish": bool(result and duration),
        "event": True,
    }
    if not allowed.get(kind) or result not in ("", *RESULTS) or not is_canonical(timestamp):
        raise Refused(MALFORMED)
    if not is_uuid(vm_id) or not is_uuid(event_id) or (duration and not _is_duration(duration)):
        raise Refused(MALFORMED)
    return fields


def _is_duration(text: str) -> bool:
    whole, point, fraction = text.partition(".")
    if not text.isascii() or not whole.isdigit() or len(whole) > 20 or int(whole) >= 2**64:
        return False
    return not point or (fraction.isdigit() and len(fraction) <= 9)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        raise Refused(MALFORMED)
    return int(text)


def _word(error: ValueError) -> str:
    if isinstance(error, Refused):
        return str(error)
    return UNDECODABLE if isinstance(error, Undecodable) else MALFORMED


def _payload_as_json(payload: str | bytes) -> str | dict[str, str]:
    """Bytes are shown as bytes, even if they are valid text."""
    if isinstance(payload, str):
        return payload
    import base64

    return {"type": "bytes", "encoding": "base64", "data": base64.b64encode(payload).decode()}
