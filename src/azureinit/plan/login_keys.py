"""Whether sshd takes one of the keys that were given: its algorithms, revocations, files and their modes."""

from __future__ import annotations

from azureinit.plan.access import closed, strict_problem
from azureinit.plan.keyplaces import expanded
from azureinit.plan.login_case import CERTAIN, DOUBT, Obstacle, printable
from azureinit.plan.sshd_match import match_list
from azureinit.pubkey import key_identity, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.plan.login_case import Case
    from azureinit.plan.sshd_match import InForce

DEFAULT_FILES = (".ssh/authorized_keys", ".ssh/authorized_keys2")
DEFAULT_ALGORITHMS = (
    "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,sk-ssh-ed25519@openssh.com,"
    "sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256"
)
# What a key of that kind signs with. No client of our time offers RSA with SHA-1 by default.
SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
KRL = b"SSHKRL\n\0"
LIMITING = ("from=", "expiry-time=", "command=", "cert-authority")  # of a line in a key file


def of_keys(case: Case) -> Iterable[Obstacle]:
    if not case.says("pubkeyauthentication", default=True):
        yield Obstacle(level=CERTAIN, why=f"{case.where('pubkeyauthentication')} refuses keys")
        return
    lines = [key.data.strip() for key in case.metadata.keys]
    left = [line for line in lines if _accepted(line, case)]
    if not left:
        words = "pubkeyacceptedalgorithms", "requiredrsasize"
        named = [case.where(word) for word in words if word in case.values]
        yield Obstacle(level=CERTAIN, why=f"{' and '.join(named) or 'sshd'} takes no key of the kind that was given")
        return
    yield from _of_revocation(case, left)
    yield from _of_files(case)


def _accepted(line: str, case: Case) -> bool:
    identity = key_identity(line)
    kind, blob = identity if identity is not None else ("", "")
    listed = algorithms(case.values.get("pubkeyacceptedalgorithms", ()))
    if not any(match_list(name, listed) == 1 for name in SIGNATURES.get(kind, (kind,))):
        return False
    least = case.word("requiredrsasize", "1024")
    unread = not least.isdecimal() or len(least) > 9  # sshd refuses such a number, and so its configuration
    return kind != "ssh-rsa" or unread or rsa_bits(blob) >= int(least)


def algorithms(values: tuple[InForce, ...]) -> str:
    """The list, with what `+`, `-` and `^` do to sshd's own."""
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


def limits(path: str, case: Case) -> str:
    """The options of the given key in that file that may keep a client out; none where another line has it without."""
    data = next((file.data for file in case.facts.keys_files if file.path == path), None) or b""
    given = {key_identity(key.data.strip()) for key in case.metadata.keys}
    lines = [line.strip() for line in data.decode("utf-8", "replace").split("\n")]
    found = [options_of(line) for line in lines if key_identity(line) in given]
    limited = [options for options in found if any(word in options for word in LIMITING)]
    return printable(limited[0]) if len(limited) == len(found) > 0 else ""


def _of_revocation(case: Case, lines: list[str]) -> Iterable[Obstacle]:
    path = case.word("revokedkeys", "none")
    if path.lower() == "none":
        return
    data = dict(case.facts.access.revoked).get(path) if case.facts.access is not None else None
    where = case.where("revokedkeys")
    if data is None:
        yield Obstacle(level=CERTAIN, why=f"{where} names a file that does not exist, so that sshd refuses every key")
    elif data.startswith(KRL):
        yield Obstacle(level=DOUBT, why=f"{where} names a list that is not read here")
    else:
        revoked = {key_identity(line) for line in data.decode("utf-8", "replace").split("\n")}
        if all(key_identity(line) in revoked for line in lines):
            yield Obstacle(level=CERTAIN, why=f"{where}: the keys that were given are revoked there")


def _of_files(case: Case) -> Iterable[Obstacle]:
    """At least one of the files that count here has the key, and sshd takes it."""
    if case.pending or case.account.uid is None:
        return
    access, ssh = case.facts.access, case.facts.ssh
    assert access is not None
    command = any(
        case.word(word, "none").lower() != "none"
        for word in ("authorizedkeyscommand", "authorizedprincipalscommand", "trustedusercakeys")
    )
    level = DOUBT if command else CERTAIN
    names = case.values["authorizedkeysfile"][0].arguments if "authorizedkeysfile" in case.values else None
    names = names or ssh.authorized_keys_files or DEFAULT_FILES
    if [name.lower() for name in names] == ["none"]:
        yield Obstacle(level=level, why=f"{case.where('authorizedkeysfile')}: sshd reads no key files")
        return
    home = case.account.home
    paths = [expanded(name, case.account.name, home, case.facts) for name in names]
    ways = {way[-1].path: way for way in access.ways if way[-1].path in paths}
    strict = case.says("strictmodes", default=True)
    problems: list[Obstacle] = []
    for path, way in ways.items():
        shut = closed(way, case.account)
        refused = strict_problem(way, case.account) if strict else None
        if shut:
            problems.append(Obstacle(level=level, why=f"sshd cannot read {path}: {shut}"))
        elif refused:
            why = f"StrictModes refuses {path}: {refused[0]}"
            problems.append(Obstacle(level=level if refused[1] else DOUBT, why=why))
        elif limits(path, case):
            problems.append(Obstacle(level=DOUBT, why=f"{path} has the key with options: {limits(path, case)}"))
        else:
            return
    none = Obstacle(level=level, why=f"{case.where('authorizedkeysfile')}: none of these is {case.account.name}'s own")
    yield min(problems, key=lambda one: one.level) if problems else none
