"""The admin's keys, in the files sshd reads them from: added to what is there, nothing else changed."""

from __future__ import annotations

from azureinit.errors import KeysFailed
from azureinit.facts.ssh import MERGER, READER, KeysFile
from azureinit.plan.actions import Caution, Declined, MakeDir, Satisfied, Step, Way, Write
from azureinit.pubkey import key_identity, parse_key
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.facts.ssh import Directory
    from azureinit.plan.actions import Action, Plan

    class PublicKey(Protocol):
        @property
        def data(self) -> str: ...
        @property
        def path(self) -> str | None: ...


BACKEND = "native"
DEFAULT = ".ssh/authorized_keys"
PIECE = "azure-init"  # in authorized_keys.d
LONGEST_PATH = 4096
OTHERS_WRITE = 0o022


class Targets(Record):
    """Which lines go into which file, and what was asked for that cannot be."""

    lines: dict[str, tuple[str, ...]]
    cautions: tuple[str, ...]


def key_paths(
    *, username: str, home: str, keys: tuple[PublicKey, ...], facts: Facts, config: Config
) -> tuple[str, ...]:
    """The files that must be looked at before the keys can be planned."""
    wanted = _targets(username, home, keys, facts, config).lines
    merged = _below(home, DEFAULT)
    return tuple(dict.fromkeys((*wanted, *(f"{merged}.d/{name}" for name in facts.key_pieces if merged in wanted))))


def plan_keys(*, username: str, home: str, keys: tuple[PublicKey, ...], facts: Facts, config: Config) -> Plan:
    name = f"ssh keys {username}"
    if not keys:
        return ()
    targets = _targets(username, home, keys, facts, config)
    cautions = tuple(Caution(name=name, why=why) for why in targets.cautions)
    seen = {file.path: file for file in facts.keys_files}
    files = [(seen.get(path) or KeysFile.absent(path, home), lines) for path, lines in targets.lines.items()]
    problems = [file.problem for file, _ in files if file.problem]
    if problems:
        why = f"{problems[0]}: keys are not written through it"
        step = Step(name=name, why=why, ways=(Declined(backend=BACKEND, why=why),), failure=KeysFailed)
        return (*cautions, step)
    actions: list[Action] = []
    for file, lines in files:
        actions += [action for action in _plan_file(file, lines, username, facts) if action not in actions]
    where = ", ".join(targets.lines)
    if not actions:
        return (*cautions, Satisfied(name=name, why=f"in {where}"))
    ways: tuple[Way | Declined, ...] = (Way(backend=BACKEND, actions=tuple(actions)),)
    merged = _below(home, DEFAULT)
    if facts.ssh.pieces == MERGER and merged in targets.lines:
        from azureinit.plan.pieces import merged_ways

        ways = merged_ways(merged, targets.lines, tuple(actions), username=username, facts=facts)
    return (*cautions, Step(name=name, why=f"{_count(keys)} -> {where}", ways=ways, failure=KeysFailed))


def _count(keys: tuple[PublicKey, ...]) -> str:
    return "1 key" if len(keys) == 1 else f"{len(keys)} keys"


# ---- where they go


def _targets(username: str, home: str, keys: tuple[PublicKey, ...], facts: Facts, config: Config) -> Targets:
    home = _below("/", home)
    read, cautions = _read_by_sshd(username, home, facts, config)
    lines: dict[str, dict[tuple[str, str] | None, str]] = {}
    for key in keys:
        line = parse_key(key.data)
        own = inside_home(key.path, username, home) if key.path else None
        if key.path and own is None:
            cautions.append(f"the key's path {shown(key.path)} is not in {home}: {read[0]} is used")
        # A file sshd does not read would honour the path and lock the admin out: then it goes to both.
        for path in (own or read[0],) if own is None or own in read else (own, read[0]):
            for place in _places(path, home, facts):
                lines.setdefault(place, {}).setdefault(key_identity(line), line)
    return Targets(
        lines={path: tuple(found.values()) for path, found in lines.items()},
        cautions=tuple(dict.fromkeys(cautions)),
    )


def _places(path: str, home: str, facts: Facts) -> tuple[str, ...]:
    """Where a list of keys is made of pieces, ours is one of them; where it is a file, that one follows."""
    if facts.ssh.pieces is None or path != _below(home, DEFAULT):
        return (path,)
    own = f"{path}.d/{PIECE}"
    return (own,) if facts.ssh.pieces == READER else (own, path)


def _read_by_sshd(username: str, home: str, facts: Facts, config: Config) -> tuple[list[str], list[str]]:
    """The files sshd looks into, at least one, and what to be told about them."""
    cautions: list[str] = []
    paths = []
    for pattern in facts.ssh.authorized_keys_files or ():
        path = _expanded(pattern, username, home, facts)
        if path is None:
            cautions.append(f"sshd's AuthorizedKeysFile {shown(pattern)} cannot be worked out: not used")
        else:
            paths.append(path)
    if facts.ssh.authorized_keys_files == ():
        cautions.append("sshd reads no key files (AuthorizedKeysFile none)")
    if not paths:
        configured = config.ssh.authorized_keys_path
        paths.append(_expanded(configured, username, home, facts) or _below(home, DEFAULT))
    return paths, cautions


def _expanded(pattern: str, username: str, home: str, facts: Facts) -> str | None:
    user = facts.accounts.user(username)
    tokens = {"h": home, "u": username, "%": "%", "U": str(user.uid) if user else None}
    text = ""
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "%":
            at += 1
            value = tokens.get(pattern[at : at + 1])
            if value is None:
                return None
            text += value
        else:
            text += letter
        at += 1
    path = _below(home, text)
    return path if _is_plain(path) else None


def _below(home: str, path: str) -> str:
    """As sshd has it: absolute, or relative to the home."""
    parts = [part for part in (path if path.startswith("/") else f"{home}/{path}").split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)


def inside_home(path: str, username: str, home: str) -> str | None:
    """Where the platform's own path lies in the home; it takes every home to be in /home."""
    if not _is_plain(path) or path.endswith("/"):
        return None
    if path.startswith("$HOME/"):  # which to WALinuxAgent is where all homes are
        rest = path[len("$HOME/") :]
        path = rest[len(username) + 1 :] if rest.startswith(f"{username}/") else rest
    absolute = _below(home, path)
    for base in (home.rstrip("/"), f"/home/{username}"):
        if absolute.startswith(f"{base}/"):
            return home.rstrip("/") + absolute[len(base) :]
    return None


def _is_plain(path: str) -> bool:
    letters = path.isprintable() and path.isascii()
    return 0 < len(path) <= LONGEST_PATH and letters and ".." not in path.split("/")


def shown(text: str) -> str:
    return ascii(text[:100])[1:-1]


# ---- what is left to do there


def _plan_file(file: KeysFile, lines: tuple[str, ...], username: str, facts: Facts) -> list[Action]:
    """Every action ends in the same file, however much of it was already there."""
    owner, uid = owner_of(file, username, facts)
    mode = 0o644 if file.home is None else 0o600
    actions = plan_directories(file, username, facts)
    before = file.data if file.data is not None else _from_skeleton(file, username, facts)
    after = with_keys(before or b"", lines)
    right = file.home is None or (_is_mode(file.mode, mode, facts) and is_owner(file.uid, uid, facts))
    if file.data is None or after != file.data or not right:
        # A file of the system's that is there keeps its mode and owner: it was made by someone who knew.
        keep = file.home is None and file.data is not None
        write = Write(
            path=file.path,
            data=after,
            mode=None if keep else mode,
            owner=owner,
            beneath=file.beneath,
            was=file.data,
        )
        actions.append(write)
    return actions


def plan_directories(file: KeysFile, username: str, facts: Facts) -> list[Action]:
    """On the way to it, made or put right."""
    owner, uid = owner_of(file, username, facts)
    modes = (
        (directory.path, _directory_mode(directory, own=file.home is not None, uid=uid, facts=facts))
        for directory in file.directories
    )
    return [
        MakeDir(path=path, mode=mode, owner=owner, beneath=file.beneath) for path, mode in modes if mode is not None
    ]


def owner_of(file: KeysFile, username: str, facts: Facts) -> tuple[str | None, int | None]:
    if file.home is None:
        return None, None
    user = facts.accounts.user(username)
    return username, user.uid if user else None


def _is_mode(found: int | None, wanted: int, facts: Facts) -> bool:
    """A merger makes them in its own way: there it is enough that nobody else can write."""
    return found == wanted or (facts.ssh.pieces == MERGER and found is not None and not found & OTHERS_WRITE)


def is_owner(found: int | None, wanted: int | None, facts: Facts) -> bool:
    """Without privileges owners are neither set nor asked for."""
    return not facts.privileged or (wanted is not None and found == wanted)


def _directory_mode(directory: Directory, *, own: bool, uid: int | None, facts: Facts) -> int | None:
    """What to make it; None to leave it. Only `.ssh` has one right mode; sshd trusts none that others can write."""
    if directory.mode is None:
        return 0o700 if own else 0o755
    if not own:
        return None
    if directory.path.endswith("/.ssh"):
        right, wanted = is_owner(directory.uid, uid, facts), 0o700
    else:
        right, wanted = directory.uid == 0 or is_owner(directory.uid, uid, facts), directory.mode & ~OTHERS_WRITE
    return None if right and directory.mode == wanted else wanted


def _from_skeleton(file: KeysFile, username: str, facts: Facts) -> bytes | None:
    """What a home that is yet to be made will have there."""
    if file.home is None or facts.accounts.user(username) is not None:
        return None
    relative = file.path[len(file.home.rstrip("/")) + 1 :]
    return next((entry.data for entry in facts.accounts.skeleton if entry.path == relative), None)


def with_keys(data: bytes, lines: tuple[str, ...]) -> bytes:
    """The file with every key in it once; what was there stays byte for byte."""
    present = {key_identity(line) for line in data.decode("utf-8", "surrogateescape").split("\n")}
    missing = [line for line in lines if key_identity(line) not in present]
    if missing and data and not data.endswith(b"\n"):
        data += b"\n"
    return data + "".join(missing).encode("utf-8")
