"""A search for secrets in bytes: plain, in part, and in any usual encoding."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from functools import cache

WINDOW = 12  # so much of a secret is a leak; half a password is still one
DEEPEST = 3  # containers inside containers
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
HEX = re.compile(rb"(?:[0-9a-fA-F]{2}[:\\x ]{0,2}){12,}")
PACKED = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")


@cache
def windows(secret: bytes) -> frozenset[bytes]:
    """Every part of it that would be a leak."""
    return frozenset(secret[start : start + WINDOW] for start in range(len(secret) - WINDOW + 1))


def sung(data: bytes, secrets: dict[str, bytes], *, depth: int = DEEPEST) -> set[str]:
    """The names of the secrets that lie in the data, plain or in a container."""
    found = {name for name, secret in secrets.items() if any(part in data for part in windows(secret))}
    if depth:
        for inner in {one for one in unpacked(data) if len(one) >= WINDOW}:
            found |= sung(inner, secrets, depth=depth - 1)
    return found


def unpacked(data: bytes) -> Iterator[bytes]:
    """What the data would be if it, or a part of it, were encoded."""
    if b"\0" in data:
        yield data.replace(b"\0", b"")  # UTF-16, both kinds, and what is padded to a length
    if b"%" in data:
        yield re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), data)
    if b"\\" in data or b"&" in data:
        yield re.sub(rb"\\u00([0-9a-fA-F]{2})|\\", lambda found: bytes.fromhex((found[1] or b"").decode()), data)
        yield data.replace(b"&lt;", b"<").replace(b"&gt;", b">").replace(b"&amp;", b"&")
    for found in HEX.finditer(data):
        yield bytes.fromhex(re.sub(rb"[^0-9a-fA-F]", b"", found[0]).decode())
    for text in (data, data.replace(b"\r", b"").replace(b"\n", b"")):  # also where lines were wrapped
        for found in BASE64.finditer(text):
            plain = found[0].translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
            for shift in range(4):  # it may begin in the middle of what looks like base64
                part = plain[shift:]
                yield base64.b64decode(part[: len(part) // 4 * 4])
    for found in PACKED.finditer(data):
        try:
            packed = data[found.start() :]
            yield zlib.decompressobj(47).decompress(packed, 1 << 24)  # 47: gzip or zlib, as it says itself
        except zlib.error:
            pass
