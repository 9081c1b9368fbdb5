"""cloud-init's records as diagnostics. The value is JSON, the key has five to seven fields:

CLOUD_INIT|incarnation|type|name[|vm_id]|event_id[|index]
"""

from __future__ import annotations

import json

from azureinit.kvp.diagnostics import Diagnostic, Undecodable, decompressed, is_uuid
from azureinit.kvp.moments import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "CLOUD_INIT"
RESULTS = {"SUCCESS": "success", "WARN": "warn", "FAIL": "fail"}
MESSAGE = ',"msg":"'  # comes last in every value


class CloudInitMalformed(ValueError):
    """A record that cloud-init would not have written."""


def split_key(key: str) -> tuple[str, str | None]:
    """The key that a record's pieces share, and the piece's index if there are several."""
    fields = key.split("|")
    if len(fields) == 7 or (len(fields) == 6 and not is_uuid(fields[5])):
        base, _, index = key.rpartition("|")
    else:
        base, index = key, None
    _key_parts(base)
    return base, index


def parse_single(base: str, value: str) -> Diagnostic:
    told = _object(value)
    if "msg_i" in told:
        raise CloudInitMalformed("a numbered piece without a number in its key")
    return _diagnostic(base, told, _text(told, "msg"))


def parse_pieces(base: str, values: list[str]) -> Diagnostic:
    """Join pieces in order. Messages were cut after JSON escaping, so they are joined before unescaping."""
    first: dict[str, Any] = {}
    message = ""
    for index, value in enumerate(values):
        before, found, piece = value.rpartition(MESSAGE)
        if not found or not piece.endswith('"}'):
            raise CloudInitMalformed("no message at the end")
        told = _object(before + "}")
        number = told.pop("msg_i", None)
        if number != index or isinstance(number, bool) or (index and told != first):
            raise CloudInitMalformed("pieces that do not belong together")
        first = told
        message += piece[: -len('"}')]
    whole = _json(f'"{message}"')
    if not isinstance(whole, str):
        raise CloudInitMalformed("the message is not text")
    return _diagnostic(base, first, whole)


def _diagnostic(base: str, told: dict[str, Any], message: str) -> Diagnostic:
    kind, name, vm_id, event_id = _key_parts(base)
    if told.get("name") != name or told.get("type") != kind:
        raise CloudInitMalformed("a value that is another key's")
    if any("\ud800" <= letter <= "\udfff" for letter in message):
        raise CloudInitMalformed("half a character")
    payload, encoding = _payload(message, must_be_packed=kind == "compressed")
    measured = kind == "finish"
    if kind == "start" and ("result" in told or "duration" in told):
        raise CloudInitMalformed("a start with a result")
    if measured and told.get("result") not in tuple(RESULTS):
        raise CloudInitMalformed("a result that is neither success, warning nor failure")
    return Diagnostic(
        kind=kind if kind in ("start", "finish") else "event",
        agent=PREFIX,
        vm_id=vm_id,
        name=name,
        event_id=event_id,
        timestamp=_utc(_text(told, "ts")),
        encoding=encoding,
        result=RESULTS[told["result"]] if measured else None,
        duration=_seconds(told.get("duration")) if measured else None,
        payload=payload,
    )


def _key_parts(base: str) -> tuple[str, str, str | None, str]:
    fields = base.split("|")
    if len(fields) not in (5, 6) or not all(fields) or "\0" in base:
        raise CloudInitMalformed("a key of another shape")
    incarnation, kind, name, event_id = fields[1], fields[2], fields[3], fields[-1]
    vm_id = fields[4] if len(fields) == 6 else None
    if not (incarnation.isascii() and incarnation.isdigit()) or not is_uuid(event_id) or not is_uuid(vm_id or event_id):
        raise CloudInitMalformed("the incarnation or an id is invalid")
    return kind, name, vm_id, event_id


def _payload(message: str, *, must_be_packed: bool) -> tuple[str | bytes, str]:
    try:
        envelope = _json(message)
    except CloudInitMalformed:
        envelope = None
    packed = isinstance(envelope, dict) and "encoding" in envelope and "data" in envelope
    if not packed and not must_be_packed:
        return message, "none"
    if not isinstance(envelope, dict):
        raise CloudInitMalformed("no envelope")
    encoding, data = _text(envelope, "encoding"), _text(envelope, "data")
    if encoding != "gz+b64":
        raise Undecodable(f"unknown encoding {encoding}")
    # cloud-init declares gzip but writes zlib, with wrapped lines: detect the format from the stream.
    return decompressed("".join(data.split()), None), encoding


def _utc(text: str) -> str:
    moment = utc(text)
    if moment is None:
        raise CloudInitMalformed("the time is invalid")
    return moment


def _seconds(number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < 2**64 / 1e6:
        raise CloudInitMalformed("the duration is invalid")
    return round(number, 6)


def _object(text: str) -> dict[str, Any]:
    told = _json(text)
    if not isinstance(told, dict):
        raise CloudInitMalformed("no JSON object")
    return told


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CloudInitMalformed("no JSON") from None


def _text(told: dict[str, Any], key: str) -> str:
    value = told.get(key)
    if not isinstance(value, str):
        raise CloudInitMalformed(f"no {key}")
    return value
