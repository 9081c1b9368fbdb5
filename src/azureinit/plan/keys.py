"""The admin's public keys: added to the files that sshd reads, whose other content stays."""

from __future__ import annotations

from azureinit.errors import KeysFailed
from azureinit.facts.key_files import AdminFiles, KeysFile
from azureinit.facts.ssh import MERGER, READER
from azureinit.plan.account import default_groups
from azureinit.plan.actions import Caution, Declined, MakeDir, Satisfied, Step, Unknown, Way, Write
from azureinit.plan.keyplaces import DEFAULT, KeyOwner, below, home_sharer, inside_home, key_places, others_read, shown
from azureinit.pubkey import key_identity, options_of, parse_key
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.key_files import Directory
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Action, Plan

    class PublicKey(Protocol):
        @property
        def data(self) -> str: ...
        @property
        def path(self) -> str | None: ...


BACKEND = "native"
PIECE = "azure-init"  # in authorized_keys.d
OTHERS_WRITE = 0o022


class Targets(Record):
    """The lines by file, and warnings about requests that cannot be met."""

    lines: dict[str, tuple[str, ...]]
    cautions: tuple[str, ...]


NO_FILES = AdminFiles()


def key_paths(
    *,
    username: str,
    home: str,
    keys: tuple[PublicKey, ...],
    accounts: Accounts,
    ssh: Ssh,
    config: Config,
    admin: AdminFiles = NO_FILES,
) -> tuple[str, ...]:
    """The files that must be read before the keys can be planned. `admin`: the names of the pieces, if any."""
    owner = KeyOwner(username=username, home=below("/", home), accounts=accounts, ssh=ssh, admin=admin)
    wanted = _targets(owner, keys, config).lines
    merged = below(home, DEFAULT)
    pieces = (f"{merged}.d/{name}" for name in admin.key_pieces if merged in wanted)
    others = key_places(owner, groups_of_account(username, accounts, config), config).read
    return tuple(dict.fromkeys((*wanted, *pieces, *others)))


def plan_keys(
    *,
    username: str,
    home: str,
    keys: tuple[PublicKey, ...],
    host: Host,
    accounts: Accounts,
    ssh: Ssh,
    admin: AdminFiles,
    config: Config,
    replacing: bool = False,
) -> Plan:
    """`replacing`: a key that is there with other options gets those of the given one."""
    name = f"ssh keys {username}"
    if not keys:
        return ()
    owner = KeyOwner(username=username, home=below("/", home), accounts=accounts, ssh=ssh, admin=admin)
    targets = _targets(owner, keys, config)
    cautions = tuple(Caution(name=name, why=why) for why in targets.cautions)
    seen = {file.path: file for file in admin.keys_files}
    files = [(seen.get(path) or KeysFile.absent(path, home), lines) for path, lines in targets.lines.items()]
    problems = [file.problem for file, _ in files if file.problem]
    if problems and all(file.hidden for file, _ in files if file.problem):
        return (*cautions, Unknown(name=name, why=problems[0]))
    if problems:
        why = f"{problems[0]}: the keys are not written there"
        step = Step(name=name, why=why, ways=(Declined(backend=BACKEND, why=why),), failure=KeysFailed)
        return (*cautions, step)
    actions: list[Action] = []
    for file, lines in files:
        planned = _plan_file(file, lines, owner, host, replacing=replacing)
        actions += [action for action in planned if action not in actions]
    where = ", ".join(targets.lines)
    if not targets.lines:
        return cautions
    if not actions:
        return (*cautions, Satisfied(name=name, why=f"in {where}"))
    ways: tuple[Way | Declined, ...] = (Way(backend=BACKEND, actions=tuple(actions)),)
    merged = below(home, DEFAULT)
    if ssh.pieces == MERGER and merged in targets.lines:
        from azureinit.plan.pieces import merged_ways

        ways = merged_ways(merged, targets.lines, tuple(actions), username=username, host=host, admin=admin)
    did = f"corrected owners and modes: {where}"
    if any(isinstance(action, Write) for action in actions):
        did = f"authorized {_count(keys)} for {username} in {where}"
    return (*cautions, Step(name=name, why=f"{_count(keys)} -> {where}", did=did, ways=ways, failure=KeysFailed))


def _count(keys: tuple[PublicKey, ...]) -> str:
    return "1 key" if len(keys) == 1 else f"{len(keys)} keys"


# ---- where they go


def _targets(owner: KeyOwner, keys: tuple[PublicKey, ...], config: Config) -> Targets:
    username, home = owner.username, owner.home
    places = key_places(owner, groups_of_account(username, owner.accounts, config), config)
    cautions = list(places.cautions)
    other = home_sharer(owner)
    lines: dict[str, dict[tuple[str, str] | None, str]] = {}
    for key in keys:
        line = parse_key(key.data)
        own = inside_home(key.path, username, home) if key.path and not other else None
        if own is not None and others_read(own, owner):
            cautions.append(f"the key's path {shown(own)} is read for other accounts too: not written")
            own = None
        elif key.path and own is None:
            why = f"is also in the home of {other}" if other else f"is not in {home}"
            used = f"{places.write[0]} is used" if places.write else "it is not used"
            cautions.append(f"the key's path {shown(key.path)} {why}: {used}")
        # A file that sshd does not read would follow the platform's path and lock the admin out: then both get the key.
        read = own is not None and own in places.read and len(places.write) == 1
        for path in (own,) if own and read else (own, *places.write) if own else places.write:
            for place in _places(path, home, owner.ssh.pieces):
                lines.setdefault(place, {}).setdefault(key_identity(line), line)
    if keys and not places.write:
        cautions.append("sshd reads no file that belongs to this user alone: the keys are not written")
    return Targets(
        lines={path: tuple(found.values()) for path, found in lines.items()},
        cautions=tuple(dict.fromkeys(cautions)),
    )


def _places(path: str, home: str, pieces: str | None) -> tuple[str, ...]:
    """The files to write: a piece where keys are merged from pieces, and the merged file where it is one."""
    if pieces is None or path != below(home, DEFAULT):
        return (path,)
    own = f"{path}.d/{PIECE}"
    return (own,) if pieces == READER else (own, path)


def groups_of_account(username: str, accounts: Accounts, config: Config) -> frozenset[str]:
    """The groups that the account is in, or will be in."""
    groups = config.user.groups
    asked = default_groups(username, accounts, config) if groups is None else filter(accounts.group, groups)
    if accounts.user(username) is not None:
        return accounts.groups_of(username) | frozenset(asked)
    policy = accounts.policy
    own = username if policy.user_group or accounts.group(username) else policy.group
    primary = next((group.name for group in accounts.groups if own in (group.name, str(group.gid))), own)
    return frozenset((primary, *asked))


# ---- what is left to do there


def _plan_file(
    file: KeysFile, lines: tuple[str, ...], account: KeyOwner, host: Host, *, replacing: bool
) -> list[Action]:
    """Idempotent: the result is the same, whatever part of it exists already."""
    accounts, username = account.accounts, account.username
    owner, uid = owner_of(file, username, accounts)
    mode = 0o644 if file.home is None else 0o600
    actions = plan_directories(file, username, host=host, accounts=accounts)
    before = file.data if file.data is not None else _from_skeleton(file, username, accounts)
    after = with_keys(before or b"", lines, replacing=replacing)
    right = file.home is None or (_is_mode(file.mode, mode, account.ssh) and is_owner(file.uid, uid, host))
    if file.data is None or after != file.data or not right:
        # An existing file outside the home keeps its mode and owner: the image configured it.
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


def plan_directories(file: KeysFile, username: str, *, host: Host, accounts: Accounts) -> list[Action]:
    """Make the directories above the file, or correct their modes and owners."""
    owner, uid = owner_of(file, username, accounts)
    modes = (
        (directory.path, _directory_mode(directory, own=file.home is not None, uid=uid, host=host))
        for directory in file.directories
    )
    return [
        MakeDir(path=path, mode=mode, owner=owner, beneath=file.beneath) for path, mode in modes if mode is not None
    ]


def owner_of(file: KeysFile, username: str, accounts: Accounts) -> tuple[str | None, int | None]:
    if file.home is None:
        return None, None
    user = accounts.user(username)
    return username, user.uid if user else None


def _is_mode(found: int | None, wanted: int, ssh: Ssh) -> bool:
    """Where a program merges pieces it sets the modes: there it is enough that no one else can write."""
    return found == wanted or (ssh.pieces == MERGER and found is not None and not found & OTHERS_WRITE)


def is_owner(found: int | None, wanted: int | None, host: Host) -> bool:
    """Without privileges owners are neither set nor checked."""
    return not host.privileged or (wanted is not None and found == wanted)


def _directory_mode(directory: Directory, *, own: bool, uid: int | None, host: Host) -> int | None:
    """The mode to set; None to leave it. `.ssh` must have 0700; sshd refuses others that are group-writable."""
    if directory.mode is None:
        return 0o700 if own else 0o755
    if not own:
        return None
    if directory.path.endswith("/.ssh"):
        right, wanted = is_owner(directory.uid, uid, host), 0o700
    else:
        right, wanted = directory.uid == 0 or is_owner(directory.uid, uid, host), directory.mode & ~OTHERS_WRITE
    return None if right and directory.mode == wanted else wanted


def _from_skeleton(file: KeysFile, username: str, accounts: Accounts) -> bytes | None:
    """The file's content in the skeleton, for a home that does not exist yet."""
    if file.home is None or accounts.user(username) is not None:
        return None
    relative = file.path[len(file.home.rstrip("/")) + 1 :]
    return next((entry.data for entry in accounts.skeleton if entry.path == relative), None)


def with_keys(data: bytes, lines: tuple[str, ...], *, replacing: bool = False) -> bytes:
    """The file with every key in it once; what was there stays byte for byte, unless its options are replaced."""
    there = data.decode("utf-8", "surrogateescape").split("\n")
    if replacing:
        given = {key_identity(line): line for line in lines}
        there = [_with_options(line, given.get(key_identity(line))) for line in there]
        data = "\n".join(there).encode("utf-8", "surrogateescape")
    # A cert-authority line authorises certificates, not the key itself.
    present = {key_identity(line) for line in there if "cert-authority" not in options_of(line)}
    missing = [line for line in lines if key_identity(line) not in present]
    if missing and data and not data.endswith(b"\n"):
        data += b"\n"
    return data + "".join(missing).encode("utf-8")


def _with_options(line: str, given: str | None) -> str:
    same = given is None or options_of(given) == options_of(line) or "cert-authority" in options_of(line)
    return line if given is None or same else given.rstrip("\n")
