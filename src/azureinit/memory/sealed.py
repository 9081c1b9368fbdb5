"""A record of ours in the data directory: a JSON object on one line, with a checksum of itself as its last value.

A disk that flips a bit, or a power cut that loses a block, can leave valid JSON that says something else: another user
name, another step that was done. Such a record counts as absent. One without a checksum is an earlier version's.
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
    """None for everything that is not such a record, whole and unchanged."""
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
