"""Whether sshd accepts one of the given keys: algorithms, revocations, files and their modes."""

from __future__ import annotations

from azureinit.plan.access import closed, holds_key, strict_problem
from azureinit.plan.keyplaces import expanded
from azureinit.plan.login_attempt import CERTAIN, DOUBT, Obstacle, printable
from azureinit.plan.sshd_match import match_list
from azureinit.pubkey import key_identity, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.plan.login_attempt import LoginAttempt
    from azureinit.plan.sshd_match import InForce

DEFAULT_FILES = (".ssh/authorized_keys", ".ssh/authorized_keys2")
DEFAULT_ALGORITHMS = (
    "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,sk-ssh-ed25519@openssh.com,"
    "sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256"
)
# Signature algorithms by key type. Current clients do not offer RSA with SHA-1 by default.
SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
KRL = b"SSHKRL\n\0"
LIMITING = ("from=", "expiry-time=", "command=", "cert-authority")  # options of a key's line


def of_keys(attempt: LoginAttempt) -> Iterable[Obstacle]:
    if not attempt.says("pubkeyauthentication", default=True):
        yield Obstacle(level=CERTAIN, why=f"{attempt.where('pubkeyauthentication')} refuses keys")
        return
    lines = [key.data.strip() for key in attempt.metadata.keys]
    left = [line for line in lines if _accepted(line, attempt)]
    if not left:
        words = "pubkeyacceptedalgorithms", "requiredrsasize"
        named = [attempt.where(word) for word in words if word in attempt.values]
        yield Obstacle(level=CERTAIN, why=f"{' and '.join(named) or 'sshd'} accepts no key of the given type")
        return
    yield from _of_revocation(attempt, left)
    yield from _of_files(attempt)


def _accepted(line: str, attempt: LoginAttempt) -> bool:
    identity = key_identity(line)
    kind, blob = identity if identity is not None else ("", "")
    listed = algorithms(attempt.values.get("pubkeyacceptedalgorithms", ()))
    if not any(match_list(name, listed) == 1 for name in SIGNATURES.get(kind, (kind,))):
        return False
    least = attempt.word("requiredrsasize", "1024")
    unread = not least.isdecimal() or len(least) > 9  # sshd refuses a configuration with such a number
    return kind != "ssh-rsa" or unread or rsa_bits(blob) >= int(least)


def algorithms(values: tuple[InForce, ...]) -> str:
    """The list, after `+`, `-` or `^` changed sshd's default one."""
    text = values[0].arguments[0] if values else DEFAULT_ALGORITHMS
    if text[:1] in ("+", "^"):
        return f"{DEFAULT_ALGORITHMS},{text[1:]}"
    if text[:1] == "-":
        return ",".join(name for name in DEFAULT_ALGORITHMS.split(",") if match_list(name, text[1:]) != 1)
    return text


def rsa_bits(blob: str) -> int:
    from binascii import a2b_base64

    data = a2b_base64(blob)
    parts = []
    while len(data) >= 4:
        size = int.from_bytes(data[:4], "big")
        parts.append(data[4 : 4 + size])
        data = data[4 + size :]
    return int.from_bytes(parts[2], "big").bit_length() if len(parts) > 2 else 0


def limits(path: str, attempt: LoginAttempt) -> str:
    """Options of the given key in that file that may refuse a client; empty where another line has the key without."""
    data = next((file.data for file in attempt.admin.keys_files if file.path == path), None) or b""
    given = {key_identity(key.data.strip()) for key in attempt.metadata.keys}
    lines = [line.strip() for line in data.decode("utf-8", "replace").split("\n")]
    found = [options_of(line) for line in lines if key_identity(line) in given]
    limited = [options for options in found if any(word in options for word in LIMITING)]
    return printable(limited[0]) if len(limited) == len(found) > 0 else ""


def _of_revocation(attempt: LoginAttempt, lines: list[str]) -> Iterable[Obstacle]:
    path = attempt.word("revokedkeys", "none")
    if path.lower() == "none":
        return
    data = dict(attempt.access.revoked).get(path)
    where = attempt.where("revokedkeys")
    if data is None:
        yield Obstacle(level=CERTAIN, why=f"{where} names a file that does not exist: sshd refuses every key")
    elif data.startswith(KRL):
        yield Obstacle(level=DOUBT, why=f"{where} names a binary revocation list, which azure-init does not read")
    else:
        revoked = {key_identity(line) for line in data.decode("utf-8", "replace").split("\n")}
        if all(key_identity(line) in revoked for line in lines):
            yield Obstacle(level=CERTAIN, why=f"{where}: the given keys are revoked")


def _of_files(attempt: LoginAttempt) -> Iterable[Obstacle]:
    """No obstacle if at least one of the files in force has the key and sshd accepts it."""
    if attempt.pending or attempt.account.uid is None:
        return
    command = any(
        attempt.word(word, "none").lower() != "none"
        for word in ("authorizedkeyscommand", "authorizedprincipalscommand", "trustedusercakeys")
    )
    level = DOUBT if command else CERTAIN
    names = attempt.values["authorizedkeysfile"][0].arguments if "authorizedkeysfile" in attempt.values else None
    names = names or attempt.ssh.authorized_keys_files or DEFAULT_FILES
    if [name.lower() for name in names] == ["none"]:
        yield Obstacle(level=level, why=f"{attempt.where('authorizedkeysfile')}: sshd reads no key files")
        return
    if not holds_key(attempt.metadata, attempt.admin):
        yield Obstacle(level=level, why=f"no file of the keys of {attempt.account.name} has a key that was given")
        return
    home = attempt.account.home
    paths = [expanded(name, username=attempt.account.name, home=home, accounts=attempt.accounts) for name in names]
    ways = {way[-1].path: way for way in attempt.access.ways if way[-1].path in paths}
    strict = attempt.says("strictmodes", default=True)
    problems: list[Obstacle] = []
    for path, way in ways.items():
        shut = closed(way, attempt.account)
        refused = strict_problem(way, attempt.account) if strict else None
        if shut:
            problems.append(Obstacle(level=level, why=f"sshd cannot read {path}: {shut}"))
        elif refused:
            why = f"StrictModes refuses {path}: {refused[0]}"
            problems.append(Obstacle(level=level if refused[1] else DOUBT, why=why))
        elif limits(path, attempt):
            problems.append(Obstacle(level=DOUBT, why=f"{path} has the key with options: {limits(path, attempt)}"))
        else:
            return
    none = Obstacle(
        level=level,
        why=f"{attempt.where('authorizedkeysfile')}: none of these files belongs to {attempt.account.name} alone",
    )
    yield min(problems, key=lambda one: one.level) if problems else none
