"""One public key as the platform hands it over: every kind OpenSSH takes, and nothing sshd would stumble over."""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from azureinit.errors import InvalidKey

LONGEST = 16384  # a line sshd of any age reads whole
CERTIFICATE = "-cert-v01@openssh.com"
# How many length-prefixed strings the blob of each kind is made of, its name included.
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
# Names of signatures that sshd also takes as names of the key that makes them.
ALIASES = {
    "rsa-sha2-256": "ssh-rsa",
    "rsa-sha2-512": "ssh-rsa",
    "rsa-sha2-256" + CERTIFICATE: "ssh-rsa" + CERTIFICATE,
    "rsa-sha2-512" + CERTIFICATE: "ssh-rsa" + CERTIFICATE,
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com": "sk-ecdsa-sha2-nistp256@openssh.com",
}
NAMES = frozenset((*PARTS, *CERTIFICATES, *ALIASES))
ED25519_BYTES = 32
SHORTEST_RSA_BITS = 1024
BLANK = " \t"


def parse_key(text: str) -> str:
    """The key as one line of authorized_keys, its end of line included."""
    if len(text) > 2 * LONGEST:
        raise InvalidKey(f"the key is {len(text)} characters long, more than {LONGEST}")
    stripped = text.strip("\ufeff \t\r\n")
    if not stripped:
        raise InvalidKey("the key is empty")
    if stripped.startswith(("---- BEGIN", "-----BEGIN")):
        raise InvalidKey("the key is in a PEM or SSH2 file format", hint="convert it: ssh-keygen -i -f FILE")
    pieces = stripped.split("\r\n")
    if any(piece.partition(" ")[0] in NAMES for piece in pieces[1:]):
        raise InvalidKey("the key holds several keys", hint="give each key on its own")
    # The platform's own tools wrap long keys with CR LF; anything else that breaks a line would forge a second one.
    line = "".join(pieces)
    _check_letters(line)
    name, blob = _find_key(line)
    _check_blob(name, blob)
    return line + "\n"


def key_identity(line: str) -> tuple[str, str] | None:
    """What makes two lines the same key, whatever their options and comments; None for anything else."""
    try:
        name, blob = _find_key(line.strip())
    except InvalidKey:
        return None
    return ALIASES.get(name, name), blob


def _check_letters(line: str) -> None:
    if len(line) > LONGEST:
        raise InvalidKey(f"the key is {len(line)} characters long, more than {LONGEST}")
    for at, letter in enumerate(line):
        if letter in "\r\n":
            raise InvalidKey(f"the key has a line break at character {at + 1}", hint="a key is one line")
        if (letter < " " and letter != "\t") or letter == "\x7f" or "\ud800" <= letter <= "\udfff":
            raise InvalidKey(f"the key has a control character at character {at + 1}")


def _find_key(line: str) -> tuple[str, str]:
    """Its kind and its base64, after options if there are some."""
    if line.startswith("#"):
        raise InvalidKey("the key is a comment")
    rest = line
    if _word(rest) not in NAMES:
        rest = _after_options(line)
        if _word(rest) not in NAMES:
            raise InvalidKey("the key does not name a kind that OpenSSH knows, neither at its start nor after options")
    name = _word(rest)
    blob = _word(rest[len(name) :].lstrip(BLANK))
    if not blob:
        raise InvalidKey(f"the {name} key has nothing after its kind")
    return name, blob


def _word(text: str) -> str:
    end = min((at for at in (text.find(blank) for blank in BLANK) if at >= 0), default=len(text))
    return text[:end]


def _after_options(line: str) -> str:
    """Options end at the first blank outside quotes, as sshd has it."""
    quoted = False
    at = 0
    while at < len(line) and (quoted or line[at] not in BLANK):
        if line.startswith('\\"', at):
            at += 1
        elif line[at] == '"':
            quoted = not quoted
        at += 1
    if quoted:
        raise InvalidKey("the key's options have a quote that never ends")
    return line[at:].lstrip(BLANK)


def _check_blob(name: str, blob: str) -> None:
    try:
        data = a2b_base64(blob.encode("ascii"))
    except (Error, UnicodeEncodeError):
        data = b""
    # Decoding skips what it does not know; only what comes back the same was base64.
    if not data or b2a_base64(data, newline=False) != blob.encode("utf-8"):
        raise InvalidKey(f"the {name} key is not whole: what follows its kind is not base64")
    kind = ALIASES.get(name, name)
    parts = _parts(data, most=PARTS.get(kind, 1))
    if not parts or parts[0] != kind.encode():
        raise InvalidKey(f"the {name} key says inside that it is of another kind")
    if kind not in PARTS:
        return  # a certificate: its inside is for sshd to judge
    if len(parts) != PARTS[kind] or sum(4 + len(part) for part in parts) != len(data):
        raise InvalidKey(f"the {name} key is not whole: its inside is cut off or too long")
    if kind == "ssh-ed25519" and len(parts[1]) != ED25519_BYTES:
        raise InvalidKey(f"the {name} key is not whole: it is {len(parts[1])} bytes and not {ED25519_BYTES}")
    if kind == "ssh-rsa" and int.from_bytes(parts[2], "big").bit_length() < SHORTEST_RSA_BITS:
        raise InvalidKey(f"the {name} key has fewer than {SHORTEST_RSA_BITS} bits, which sshd refuses")


def _parts(data: bytes, *, most: int) -> list[bytes]:
    """The length-prefixed strings at its start, as far as they are whole."""
    parts: list[bytes] = []
    at = 0
    while at + 4 <= len(data) and len(parts) < most:
        length = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + length > len(data):
            break
        parts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return parts
