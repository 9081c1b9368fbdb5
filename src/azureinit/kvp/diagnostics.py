"""Diagnostics as records: a key of eleven fields between bars, and a payload split into as many records as needed.

DIAG|agent|vm_id|kind|name|event_id|timestamp|encoding|result|duration|chunk_index
"""

from __future__ import annotations

from azureinit.kvp.records import SAFE, KvpInvalid
from azureinit.machine import rfc3339
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.kvp.records import Pair

FORMAT = "DIAG"
KINDS = ("start", "finish", "event")
RESULTS = ("success", "fail")
ENCODINGS = ("none", "zlib+b64", "gz+b64")
MAX_AGENT, MAX_NAME, MAX_CHUNKS = 32, 64, 1023
MAX_DECODED = 1 << 26  # bytes; limit of a decompressed payload
ZLIB, GZIP = 15, 31  # window bits, which select zlib's container format


class Undecodable(ValueError):
    """A payload that does not match its encoding."""


class Diagnostic(Record):
    kind: str
    agent: str
    vm_id: str | None  # cloud-init's older records have none
    name: str
    event_id: str  # a start and its finish share it
    timestamp: str
    encoding: str = "none"
    result: str | None = None
    duration: float | None = None  # seconds
    payload: str | bytes = ""


def timestamp(seconds: float) -> str:
    """UTC to the millisecond."""
    return rfc3339(seconds)[: len("2026-01-01T00:00:00.000")] + "Z"


def encode(diagnostic: Diagnostic) -> list[Pair]:
    """KvpInvalid names the field that cannot be written."""
    base = _base(diagnostic)
    chunks = split(_encoded(diagnostic), SAFE.value)
    if len(chunks) > MAX_CHUNKS:
        raise KvpInvalid(f"diagnostic payload needs {len(chunks)} records; at most {MAX_CHUNKS} are allowed")
    pairs = [(f"{base}|{index}", chunk) for index, chunk in enumerate(chunks)]
    longest = len(pairs[-1][0].encode())
    if longest > SAFE.key:
        raise KvpInvalid(f"KVP key length ({longest}) exceeds maximum ({SAFE.key})")
    return pairs


def split(text: str, size: int) -> list[str]:
    """Pieces of at most `size` bytes, split between characters; at least one, possibly empty."""
    data = text.encode()
    pieces = []
    start = 0
    while len(data) - start > size:
        end = start + size
        while data[end] & 0xC0 == 0x80:  # not the first byte of a character
            end -= 1
        pieces.append(data[start:end].decode())
        start = end
    return [*pieces, data[start:].decode()]


def compressed(data: bytes, encoding: str) -> str:
    import binascii
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, ZLIB if encoding == "zlib+b64" else GZIP)
    return binascii.b2a_base64(packer.compress(data) + packer.flush(), newline=False).decode()


def decode_payload(text: str, encoding: str) -> str | bytes:
    if encoding not in ENCODINGS:
        raise Undecodable(f"unknown encoding {encoding}")
    if encoding == "none":
        if "\0" in text:
            raise Undecodable("a NUL in plain text")
        return text
    return decompressed(text, ZLIB if encoding == "zlib+b64" else GZIP)


def decompressed(text: str, window: int | None) -> bytes:
    """Exactly one complete stream. Without window bits, the container is detected."""
    import base64
    import zlib

    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
        if window is None:
            window = GZIP if data.startswith(b"\x1f\x8b") else ZLIB
        stream = zlib.decompressobj(window)
        out = stream.decompress(data, MAX_DECODED)
    except (ValueError, zlib.error) as error:
        raise Undecodable(str(error)) from None
    if not stream.eof or stream.unused_data:
        raise Undecodable("not exactly one compressed stream")
    return out


def is_uuid(text: str) -> bool:
    groups = text.split("-")
    if [len(group) for group in groups] not in ([8, 4, 4, 4, 12], [32]):
        return False
    return all(letter in "0123456789abcdefABCDEF" for letter in "".join(groups))


def _base(diagnostic: Diagnostic) -> str:
    seconds = diagnostic.duration
    if diagnostic.kind not in KINDS:
        raise KvpInvalid(f"diagnostic kind must be one of {', '.join(KINDS)}, not {diagnostic.kind!r}")
    if diagnostic.result not in (None, *RESULTS):
        raise KvpInvalid(f"diagnostic result must be success or fail, not {diagnostic.result!r}")
    if seconds is not None and not 0 <= seconds < 2**64:
        raise KvpInvalid(f"diagnostic duration must be seconds from 0 on, not {seconds}")
    measured = (diagnostic.result is not None, seconds is not None)
    if measured not in {"start": ((False, False),), "finish": ((True, True),)}.get(diagnostic.kind, (measured,)):
        raise KvpInvalid("a start has neither result nor duration, a finish has both")
    for what, limit in (("agent", MAX_AGENT), ("name", MAX_NAME)):
        size = len(_key_field(what, getattr(diagnostic, what)).encode())
        if size > limit:
            raise KvpInvalid(f"diagnostic {what} length ({size}) exceeds maximum ({limit})")
    for what in ("vm_id", "event_id"):
        if not is_uuid(getattr(diagnostic, what) or ""):
            raise KvpInvalid(f"diagnostic {what} must be a UUID, not {getattr(diagnostic, what)!r}")
    fields = (
        FORMAT,
        diagnostic.agent,
        diagnostic.vm_id or "",
        diagnostic.kind,
        diagnostic.name,
        diagnostic.event_id,
        _key_field("timestamp", diagnostic.timestamp),
        diagnostic.encoding,
        diagnostic.result or "",
        "" if seconds is None else f"{seconds:.6f}",
    )
    return "|".join(fields)


def _key_field(what: str, text: str) -> str:
    if not text:
        raise KvpInvalid(f"diagnostic {what} must not be empty")
    if "|" in text:
        raise KvpInvalid(f"diagnostic {what} must not contain '|'")
    if "\0" in text:
        raise KvpInvalid(f"diagnostic {what} must not contain null bytes")
    return _utf8(what, text)


def _encoded(diagnostic: Diagnostic) -> str:
    payload = diagnostic.payload
    if diagnostic.encoding not in ENCODINGS:
        raise KvpInvalid(f"diagnostic encoding must be one of {', '.join(ENCODINGS)}, not {diagnostic.encoding!r}")
    if diagnostic.encoding != "none":
        data = payload if isinstance(payload, bytes) else _utf8("payload", payload).encode()
        return compressed(data, diagnostic.encoding)
    if isinstance(payload, bytes):
        raise KvpInvalid("diagnostic payload of bytes needs an encoding")
    if "\0" in payload:
        raise KvpInvalid("KVP value must not contain null bytes")
    return _utf8("payload", payload)


def _utf8(what: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise KvpInvalid(f"diagnostic {what} must be valid UTF-8") from None
    return text
