"""DER parsing for public keys: from a certificate to a line in OpenSSH's format."""

from __future__ import annotations

from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

INTEGER, BITS, SEQUENCE, VERSION = 0x02, 0x03, 0x30, 0xA0
RSA = bytes.fromhex("2a864886f70d010101")
EC = bytes.fromhex("2a8648ce3d0201")
ED25519 = bytes.fromhex("2b6570")
# Its name in OpenSSH, and the length of an uncompressed point.
CURVES = {
    bytes.fromhex("2a8648ce3d030107"): ("nistp256", 65),
    bytes.fromhex("2b81040022"): ("nistp384", 97),
    bytes.fromhex("2b81040023"): ("nistp521", 133),
}
UNCOMPRESSED = 4
ED25519_BYTES = 32
SPKI_AT = 5  # after serial number, signature, issuer, validity and subject


class _NotDer(Exception):
    pass


def certificate_key(certificate: bytes) -> bytes | None:
    """The certificate's SubjectPublicKeyInfo; None if it is not a certificate."""
    try:
        signed = _inside(_inside(certificate, SEQUENCE), SEQUENCE, rest=True)
        fields = [(tag, whole) for tag, _, whole in _values(signed)]
    except _NotDer:
        return None
    if fields and fields[0][0] == VERSION:  # a version 1 certificate has no version field
        del fields[0]
    return fields[SPKI_AT][1] if len(fields) > SPKI_AT and fields[SPKI_AT][0] == SEQUENCE else None


def openssh_key(spki: bytes) -> str | None:
    """The key in OpenSSH's format; None for unsupported key types."""
    try:
        algorithm, key = _values(_inside(spki, SEQUENCE))
        (_, kind, _), *parameters = _values(algorithm[1])
        if key[0] != BITS or key[1][:1] != b"\0":
            return None
        parts = _parts(kind, parameters[0][1] if parameters else b"", key[1][1:])
    except (_NotDer, ValueError):
        return None
    if parts is None:
        return None
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"{parts[0].decode()} {b2a_base64(blob, newline=False).decode()}"


def _parts(kind: bytes, parameter: bytes, key: bytes) -> tuple[bytes, ...] | None:
    if kind == RSA:
        modulus, exponent = _values(_inside(key, SEQUENCE))
        numbers = (exponent, modulus)
        if any(tag != INTEGER or not number or number[0] >= 0x80 for tag, number, _ in numbers):
            return None
        return b"ssh-rsa", exponent[1], modulus[1]  # DER and OpenSSH encode integers alike
    if kind == EC and parameter in CURVES:
        curve, length = CURVES[parameter]
        if len(key) == length and key[0] == UNCOMPRESSED:
            return b"ecdsa-sha2-" + curve.encode(), curve.encode(), key
    if kind == ED25519 and len(key) == ED25519_BYTES:
        return b"ssh-ed25519", key
    return None


def _inside(data: bytes, wanted: int, *, rest: bool = False) -> bytes:
    """The content of the first value. Data may follow it only with `rest`."""
    for tag, content, whole in _values(data):
        if tag == wanted and (rest or len(whole) == len(data)):
            return content
        break
    raise _NotDer


def _values(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, content and complete encoding of each value."""
    at = 0
    while at < len(data):
        head = data[at + 1 : at + 2]
        size = head[0] & 0x7F if head and head[0] > 0x7F else 0
        start = at + 2 + size
        length = int.from_bytes(data[at + 2 : start], "big") if size else head[0] if head else 0
        if not head or size > 4 or head[0] == 0x80 or start + length > len(data):
            raise _NotDer
        yield data[at], data[start : start + length], data[at : start + length]
        at = start + length
