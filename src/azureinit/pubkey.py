"""Public keys in OpenSSH's format, checked as strictly as sshd and signature verification do.

sshd parses an ECDSA key in full and skips the line of one whose curve or point is wrong. It takes any 32 bytes as an
Ed25519 key and any number as an RSA exponent, but no signature ever verifies against those that are refused here.
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from azureinit.errors import InvalidKey
from azureinit.record import Record

LONGEST = 16384  # a line length that every version of sshd reads
CERTIFICATE = "-cert-v01@openssh.com"
# The number of length-prefixed strings in the blob of each key type, the type's name included.
PARTS = {
    "ssh-ed25519": 2,
    "ssh-rsa": 3,
    "ssh-dss": 5,
    "ecdsa-sha2-nistp256": 3,
    "ecdsa-sha2-nistp384": 3,
    "ecdsa-sha2-nistp521": 3,
    "sk-ssh-ed25519@openssh.com": 3,
    "sk-ecdsa-sha2-nistp256@openssh.com": 4,
}
CERTIFICATES = tuple(name.partition("@")[0] + CERTIFICATE for name in PARTS)
# Signature algorithms that sshd also accepts as key types.
ALIASES = {
    "rsa-sha2-256": "ssh-rsa",
    "rsa-sha2-512": "ssh-rsa",
    "rsa-sha2-256" + CERTIFICATE: "ssh-rsa" + CERTIFICATE,
    "rsa-sha2-512" + CERTIFICATE: "ssh-rsa" + CERTIFICATE,
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com": "sk-ecdsa-sha2-nistp256@openssh.com",
}
NAMES = frozenset((*PARTS, *CERTIFICATES, *ALIASES))
ED25519_BYTES = 32
ED25519_PRIME = 2**255 - 19
ED25519_D = -121665 * pow(121666, -1, ED25519_PRIME) % ED25519_PRIME
SHORTEST_RSA_BITS, LONGEST_NUMBER_BITS = 1024, 16384
# y^2 = x^3 - 3x + b modulo p: the curve's name inside the key, p, b. SEC 2 and FIPS 186 give the numbers.
CURVES = {
    "ecdsa-sha2-nistp256": (
        b"nistp256",
        2**256 - 2**224 + 2**192 + 2**96 - 1,
        0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    ),
    "ecdsa-sha2-nistp384": (
        b"nistp384",
        2**384 - 2**128 - 2**96 + 2**32 - 1,
        0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
    ),
    "ecdsa-sha2-nistp521": (
        b"nistp521",
        2**521 - 1,
        0x51953EB9618E1C9A1F929A21A0B68540EEA2DA725B99B315F3B8B489918EF109E156193951EC7E937B1652C0BD3BB1BF073573DF883D2C34F1EF451FD46B503F00,
    ),
}
CURVES["sk-ecdsa-sha2-nistp256@openssh.com"] = CURVES["ecdsa-sha2-nistp256"]
UNCOMPRESSED = 4  # the only form of a point that sshd reads
BLANK = " \t"
LONGEST_COMMENT = 60
PADDING, WRAP = "\ufeff \t\r\n", "\r\n"
MOST_KEPT = 64

_usable: dict[str, str] = {}  # the last keys that were found usable, as they were given and as lines


class PublicKey(Record):
    """A key as a source gives it. `path`: the file that the source names for it."""

    data: str
    path: str | None = None


def parse_key(text: str) -> str:
    """The key as one line of authorized_keys, with its line end.

    A run parses the same key a dozen times, and the arithmetic of its curve takes 0.1 ms: the result is kept.
    """
    line = _usable.get(text)
    if line is None:
        line = _parse(text)
        if len(_usable) >= MOST_KEPT:
            _usable.clear()
        _usable[text] = line
    return line


def _parse(text: str) -> str:
    if len(text) > 2 * LONGEST:
        raise InvalidKey(f"the key is {len(text)} characters long, more than {LONGEST}")
    stripped = text.strip(PADDING)
    if not stripped:
        raise InvalidKey("the key is empty")
    if stripped.startswith(("---- BEGIN", "-----BEGIN")):
        raise InvalidKey("the key is in a PEM or SSH2 file format", hint="convert it: ssh-keygen -i -f FILE")
    pieces = stripped.split(WRAP)
    if any(piece.partition(" ")[0] in NAMES for piece in pieces[1:]):
        raise InvalidKey("the key holds several keys", hint="give each key on its own")
    line = one_line(text)
    _check_letters(line)
    name, blob = _find_key(line)
    _check_blob(name, blob)
    return line + "\n"


def one_line(text: str) -> str:
    """The platform's tools wrap long keys with CR LF. Any other line break stays: it could forge a second key."""
    return "".join(text.strip(PADDING).split(WRAP))


def key_name(number: int, text: str) -> str:
    """A name for a key that may be malformed: its number, and its comment if it looks like a key.

    Nothing else of it: it may be a secret that was pasted in its place.
    """
    words = one_line(text)[:LONGEST].split(None, 2)
    if len(words) < 3 or words[0] not in NAMES:
        return f"key {number}"
    comment = "".join(letter if letter.isprintable() else "?" for letter in words[2][:LONGEST_COMMENT])
    return f"key {number} ({comment})"


def key_identity(line: str) -> tuple[str, str] | None:
    """Type and blob, which identify a key regardless of options and comment; None for a malformed line."""
    try:
        name, blob = _find_key(line.strip())
    except InvalidKey:
        return None
    return ALIASES.get(name, name), blob


def options_of(line: str) -> str:
    """The options before the key type."""
    line = line.strip()
    if _word(line) in NAMES:
        return ""
    try:
        return line[: len(line) - len(_after_options(line))].rstrip(BLANK)
    except InvalidKey:
        return ""


def _check_letters(line: str) -> None:
    if len(line) > LONGEST:
        raise InvalidKey(f"the key is {len(line)} characters long, more than {LONGEST}")
    for at, letter in enumerate(line):
        if letter in "\r\n":
            raise InvalidKey(f"the key has a line break at character {at + 1}", hint="a key is one line")
        if (letter < " " and letter != "\t") or letter == "\x7f" or "\ud800" <= letter <= "\udfff":
            raise InvalidKey(f"the key has a control character at character {at + 1}")


def _find_key(line: str) -> tuple[str, str]:
    """Key type and base64, after the options, if any."""
    if line.startswith("#"):
        raise InvalidKey("the key is a comment")
    rest = line
    if _word(rest) not in NAMES:
        rest = _after_options(line)
        if _word(rest) not in NAMES:
            raise InvalidKey("the key has no type that OpenSSH knows, neither at its start nor after options")
    name = _word(rest)
    blob = _word(rest[len(name) :].lstrip(BLANK))
    if not blob:
        raise InvalidKey(f"the {name} key has no data after its type")
    return name, blob


def _word(text: str) -> str:
    end = min((at for at in (text.find(blank) for blank in BLANK) if at >= 0), default=len(text))
    return text[:end]


def _after_options(line: str) -> str:
    """Options end at the first blank outside quotes, as in sshd."""
    quoted = False
    at = 0
    while at < len(line) and (quoted or line[at] not in BLANK):
        if line.startswith('\\"', at):
            at += 1
        elif line[at] == '"':
            quoted = not quoted
        at += 1
    if quoted:
        raise InvalidKey("the key's options have an unclosed quote")
    return line[at:].lstrip(BLANK)


def _check_blob(name: str, blob: str) -> None:
    try:
        data = a2b_base64(blob.encode("ascii"))
    except (Error, UnicodeEncodeError):
        data = b""
    # Decoding skips invalid characters: only text that encodes back to itself was base64.
    if not data or b2a_base64(data, newline=False) != blob.encode("utf-8"):
        raise InvalidKey(f"the {name} key is incomplete: the text after its type is not base64")
    kind = ALIASES.get(name, name)
    parts = _parts(data, most=PARTS.get(kind, 1))
    if not parts or parts[0] != kind.encode():
        raise InvalidKey(f"the {name} key has another key type inside")
    if kind not in PARTS:
        return  # a certificate: sshd checks its content
    if len(parts) != PARTS[kind] or sum(4 + len(part) for part in parts) != len(data):
        raise InvalidKey(f"the {name} key is incomplete or too long")
    if kind in ("ssh-ed25519", "sk-ssh-ed25519@openssh.com"):
        _check_ed25519(name, parts[1])
    elif kind in CURVES:
        _check_ecdsa(name, parts[1], parts[2], *CURVES[kind])
    elif kind == "ssh-rsa":
        _check_rsa(name, parts[1], parts[2])


def _check_ed25519(name: str, key: bytes) -> None:
    """RFC 8032: the y of a point whose x can be computed."""
    if len(key) != ED25519_BYTES:
        raise InvalidKey(f"the {name} key is incomplete: it has {len(key)} bytes and not {ED25519_BYTES}")
    y = int.from_bytes(key, "little") & (1 << 255) - 1
    above, below = y * y - 1, ED25519_D * y * y + 1
    if pow(above * below, (ED25519_PRIME - 1) // 2, ED25519_PRIME) not in (0, 1):
        raise InvalidKey(f"the {name} key is damaged: it is not a point on its curve")


def _check_ecdsa(name: str, curve: bytes, point: bytes, expected: bytes, prime: int, b: int) -> None:
    if curve != expected:
        raise InvalidKey(f"the {name} key names another curve inside")
    size = (prime.bit_length() + 7) // 8
    if len(point) != 1 + 2 * size or point[0] != UNCOMPRESSED:
        raise InvalidKey(f"the {name} key is damaged: its point is not {2 * size} bytes in uncompressed form")
    x, y = int.from_bytes(point[1 : 1 + size], "big"), int.from_bytes(point[1 + size :], "big")
    if max(x, y) >= prime or (y * y - x * x * x + 3 * x - b) % prime:
        raise InvalidKey(f"the {name} key is damaged: its point is not on the curve")
    if min(x, y).bit_length() <= prime.bit_length() // 2:  # sshd's own lower bound
        raise InvalidKey(f"the {name} key has a point that sshd refuses as too small")


def _check_rsa(name: str, exponent: bytes, modulus: bytes) -> None:
    if exponent[:1] >= b"\x80" or modulus[:1] >= b"\x80":
        raise InvalidKey(f"the {name} key is damaged: it has a negative number")
    e, n = int.from_bytes(exponent, "big"), int.from_bytes(modulus, "big")
    if n.bit_length() < SHORTEST_RSA_BITS:
        raise InvalidKey(f"the {name} key has fewer than {SHORTEST_RSA_BITS} bits, which sshd refuses")
    if n.bit_length() > LONGEST_NUMBER_BITS:
        raise InvalidKey(f"the {name} key has more than {LONGEST_NUMBER_BITS} bits, which sshd refuses")
    if not (n & e & 1 and 3 <= e < n):
        raise InvalidKey(f"the {name} key is damaged: its numbers cannot be those of an RSA key")


def _parts(data: bytes, *, most: int) -> list[bytes]:
    """The complete length-prefixed strings at its start."""
    parts: list[bytes] = []
    at = 0
    while at + 4 <= len(data) and len(parts) < most:
        length = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + length > len(data):
            break
        parts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return parts
