"""A record in the data directory: a JSON object on one line, whose last value is a checksum of the others.

A flipped bit, or a block that a power cut loses, can leave valid JSON with another meaning: another user name, another
step that was done. Such a record counts as absent. A record without a checksum was written by an earlier version.
"""

from __future__ import annotations

from binascii import crc32

from azureinit.jsontext import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CHECKSUM = "crc32"


def seal(values: Mapping[str, object]) -> bytes:
    return dumps({**values, CHECKSUM: _checksum(values)}).encode()


def unseal(data: bytes) -> dict[str, Any] | None:
    """None for anything but such a record, complete and unchanged."""
    try:
        values = loads(data.decode())
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    sealed, checksum = CHECKSUM in values, values.pop(CHECKSUM, None)
    return None if sealed and checksum != _checksum(values) else values


def _checksum(values: Mapping[str, object]) -> int:
    try:
        return crc32(dumps(values).encode())
    except (ValueError, RecursionError):  # a number like 1e999, which is read as infinite
        return -1
