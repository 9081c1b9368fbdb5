"""A pool's records: 512 bytes of key and 2,048 of value, UTF-8, padded with NULs; and their limits."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Pair = tuple[str, str]

KEY_SIZE, VALUE_SIZE = 512, 2048
RECORD_SIZE = KEY_SIZE + VALUE_SIZE
MAX_KEYS = 1024


class KvpInvalid(ValueError):
    """A key or value that must not be written."""


class KvpUnreadable(ValueError):
    """Data that are not complete records in UTF-8."""


class Limits(Record):
    """Limits in bytes, inclusive."""

    key: int
    value: int


SAFE = Limits(key=254, value=1022)  # what every reader on the host accepts
UNSAFE = Limits(key=KEY_SIZE, value=VALUE_SIZE)  # what a record can hold


def parse_records(data: bytes) -> list[Pair]:
    """Every record in order; NULs at the end of a field are padding, others belong to it."""
    check_size(len(data))
    pairs = []
    for start in range(0, len(data), RECORD_SIZE):
        record = data[start : start + RECORD_SIZE]
        try:
            key, value = (field.rstrip(b"\0").decode() for field in (record[:KEY_SIZE], record[KEY_SIZE:]))
        except UnicodeDecodeError as error:
            raise KvpUnreadable(f"record {start // RECORD_SIZE} is not valid UTF-8: {error.reason}") from None
        pairs.append((key, value))
    return pairs


def parse_leniently(data: bytes) -> list[Pair]:
    """For display: incomplete records and bytes after the first NUL are skipped."""
    pairs = []
    for start in range(0, len(data) - RECORD_SIZE + 1, RECORD_SIZE):
        record = data[start : start + RECORD_SIZE]
        key, value = (field.partition(b"\0")[0] for field in (record[:KEY_SIZE], record[KEY_SIZE:]))
        pairs.append((key.decode("utf-8", "replace"), value.decode("utf-8", "replace")))
    return pairs


def check_size(size: int) -> None:
    if size % RECORD_SIZE:
        raise KvpUnreadable(f"file size ({size}) is not a multiple of record size ({RECORD_SIZE})")


def key_field(key: str, *, limit: int | None = None) -> bytes:
    """The padded field of a record. Without a limit, for comparison: no record holds a key that is too long."""
    if not key:
        raise KvpInvalid("KVP key must not be empty")
    if "\0" in key:
        raise KvpInvalid("KVP key must not contain null bytes")
    return _field(key, "key", limit, KEY_SIZE)


def record(key: str, value: str, limits: Limits) -> bytes:
    field = key_field(key, limit=limits.key)
    if "\0" in value:
        raise KvpInvalid("KVP value must not contain null bytes")
    return field + _field(value, "value", limits.value, VALUE_SIZE)


def records(pairs: Iterable[Pair], limits: Limits) -> list[bytes]:
    return [record(key, value, limits) for key, value in pairs]


def check_key_count(count: int) -> None:
    if count > MAX_KEYS:
        raise KvpInvalid(f"KVP unique key count exceeded maximum ({MAX_KEYS})")


def plain_text(text: str) -> str:
    """The text with NULs and undecodable bytes replaced, so that a value can hold it."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


def _field(text: str, what: str, limit: int | None, size: int) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise KvpInvalid(f"KVP {what} must be valid UTF-8") from None
    if limit is not None and len(data) > limit:
        raise KvpInvalid(f"KVP {what} length ({len(data)}) exceeds maximum ({limit})")
    return data.ljust(size, b"\0")
