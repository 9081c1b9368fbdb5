"""Keys of package sources: from the armoured text to the bytes that apt reads. No gpg is needed for that."""

from __future__ import annotations

from binascii import Error, a2b_base64

BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
CRC_START, CRC_POLYNOMIAL = 0xB704CE, 0x1864CFB


class NoKey(Exception):
    """Why a text is no public key."""


def dearmoured(text: str) -> bytes:
    """The keys of all armoured blocks in the text."""
    found = b""
    lines = [line.strip() for line in text.splitlines()]
    while BEGIN in lines:
        after = lines[lines.index(BEGIN) + 1 :]
        if END not in after:
            raise NoKey("it has no END line")
        block, lines = after[: after.index(END)], after[after.index(END) + 1 :]
        found += _block(block)
    if not found:
        raise NoKey("it is no armoured OpenPGP public key")
    return found


def _block(lines: list[str]) -> bytes:
    """Headers such as `Comment: x` end with an empty line."""
    if "" in lines and all(": " in line or line.endswith(":") for line in lines[: lines.index("")]):
        lines = lines[lines.index("") + 1 :]
    body = [line for line in lines if line and not line.startswith("=")]
    sums = [line[1:] for line in lines if line.startswith("=")]
    try:
        data = a2b_base64("".join(body))
        expected = [a2b_base64(one) for one in sums]
    except Error:
        raise NoKey("it is not base64") from None
    if not data:
        raise NoKey("it is empty")
    if expected and expected[-1] != _crc24(data):
        raise NoKey("its checksum is wrong: it was changed or cut off when it was copied")
    return data


def _crc24(data: bytes) -> bytes:
    crc = CRC_START
    for byte in data:
        crc ^= byte << 16
        for _bit in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= CRC_POLYNOMIAL
    return (crc & 0xFFFFFF).to_bytes(3, "big")
