"""gzip, base64 and quoted-printable. gzip output is bounded while it is made, so a small input cannot fill memory."""

from __future__ import annotations

from azureinit.userdata.formats import GZIP, is_mime, sniff
from azureinit.userdata.values import OPAQUE

LEAST_BASE64 = 16  # characters; a shorter text is never taken for base64
MOST_MEMBERS = 1000
WITH_HEADER = 31  # zlib: the window's size, and a gzip header
FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


class Undecodable(Exception):
    """Why the content cannot be decoded."""


class TooLarge(Undecodable):
    pass


def parse_gzip(content: bytes, *, limit: int) -> bytes:
    """All members, one after the other. Zero bytes may follow them, as in GNU gzip."""
    import zlib

    made: list[bytes] = []
    left, room = content, limit
    for _member in range(MOST_MEMBERS):
        inflate = zlib.decompressobj(WITH_HEADER)
        try:
            data = inflate.decompress(left, room + 1)
        except zlib.error:
            raise Undecodable("the data are damaged") from None
        room -= len(data)
        if room < 0:
            raise TooLarge("the decompressed data are too large")
        if not inflate.eof:
            raise Undecodable("the data end too early")
        made.append(data)
        left = inflate.unused_data.lstrip(b"\0")
        if not left:
            return b"".join(made)
        if not left.startswith(GZIP):
            break
    if not left.startswith(GZIP):
        raise Undecodable("other data follow the compressed data")
    raise Undecodable(f"there are more than {MOST_MEMBERS} compressed members")


def parse_base64(content: bytes) -> bytes:
    """By the rules of a MIME body: white space and other characters between are skipped."""
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(content)
    except Error:
        raise Undecodable("the base64 text is damaged") from None


def whole_base64(content: bytes) -> bytes | None:
    """What a document is that consists of base64 only; None if it does not, or if the result is no known document."""
    packed = b"".join(content.split()).translate(FROM_URL_SAFE)
    if len(packed) < LEAST_BASE64 or not ALPHABET.issuperset(packed):
        return None
    packed += b"=" * (-len(packed) % 4)  # some programs leave the padding out
    try:
        data = parse_base64(packed)
    except Undecodable:
        return None
    known = data.startswith(GZIP) or is_mime(data) or sniff(data) != OPAQUE
    return data if known else None


def parse_quoted_printable(content: bytes) -> bytes:
    from binascii import a2b_qp

    return a2b_qp(content)
