"""The files that sshd reads a user's keys from, and which of them belong to that user alone.

A key in a file that several accounts share would give access to all of them: such a file is never written.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.key_files import AdminFiles, KeysFile
    from azureinit.facts.ssh import Ssh
    from azureinit.facts.sshd_config import Block, Directive

DEFAULT = ".ssh/authorized_keys"
KEYWORD = "authorizedkeysfile"
LONGEST_PATH = 4096
OTHERS_READ, OTHERS_ENTER = 0o004, 0o001


class KeyOwner(Record):
    """The account whose keys are to be placed, and the facts that decide where. `home` is normalised."""

    username: str
    home: str
    accounts: Accounts
    ssh: Ssh
    admin: AdminFiles


class Pattern(Record):
    """An AuthorizedKeysFile argument, tokens unexpanded. `literal`: a Match line names this very user for it."""

    text: str
    literal: bool = False


class Places(Record):
    """`write`: one file for each list of files that may count; `read`: all files of this user alone."""

    write: tuple[str, ...]
    read: tuple[str, ...]
    cautions: tuple[str, ...]


def key_places(owner: KeyOwner, groups: frozenset[str], config: Config) -> Places:
    write: list[str] = []
    read: list[str] = []
    cautions: list[str] = []
    for patterns in _lists(owner, groups, config):
        own = _own(patterns, owner, cautions)
        read += own
        write += _first_that_serves(own, owner, cautions)
    if owner.ssh.authorized_keys_files == ():
        cautions.append("sshd reads no key files (AuthorizedKeysFile none)")
    if not write:
        write = _fallback(owner, config, cautions)
    return Places(
        write=tuple(dict.fromkeys(write)), read=tuple(dict.fromkeys(read)), cautions=tuple(dict.fromkeys(cautions))
    )


def _fallback(owner: KeyOwner, config: Config, cautions: list[str]) -> list[str]:
    """Where sshd was not asked, or reads no file of this user alone."""
    if config.ssh.authorized_keys_path != DEFAULT:
        own = _own((Pattern(text=config.ssh.authorized_keys_path),), owner, cautions)
        if own:
            return own
    path = below(owner.home, DEFAULT)
    return [] if home_sharer(owner) or others_read(path, owner) else [path]


def _lists(owner: KeyOwner, groups: frozenset[str], config: Config) -> list[tuple[Pattern, ...]]:
    """Every list of files that sshd may read for this user; more than one where Match lines decide."""
    ssh = owner.ssh
    names = ssh.authorized_keys_files
    general = tuple(Pattern(text=text) for text in ((config.ssh.authorized_keys_path,) if names is None else names))
    matched = any(said.keyword == KEYWORD and said.block is not None for said in ssh.directives)
    if not matched or not config.ssh.query_sshd_config:
        return [general]
    from azureinit.plan.sshd_match import clients, in_force

    lists = []
    for client in clients(ssh.directives, user=owner.username, groups=groups):
        found = in_force(ssh.directives, client).get(KEYWORD, ())
        said = found[0].directive if found else None
        lists.append(general if said is None or said.block is None else _of_line(said, owner.username))
    return list(dict.fromkeys(lists))


def _of_line(said: Directive, username: str) -> tuple[Pattern, ...]:
    if [word.lower() for word in said.arguments] == ["none"]:
        return ()
    literal = _names_alone(said.block, username)
    return tuple(Pattern(text=word, literal=literal) for word in said.arguments)


def _names_alone(block: Block | None, username: str) -> bool:
    """Whether the Match line counts for no other user."""
    while block is not None:
        words = [word.partition("=") for word in block.criteria]
        for at, (name, equals, value) in enumerate(words):
            named = value if equals else "".join(words[at + 1]) if at + 1 < len(words) else ""
            if name.lower() == "user" and named == username and not set(named) & set("*?!,"):
                return True
        block = block.outer
    return False


def _own(patterns: Sequence[Pattern], owner: KeyOwner, cautions: list[str]) -> list[str]:
    """The paths of the patterns that belong to this user alone."""
    paths = []
    for pattern in patterns:
        path = _expanded(pattern.text, owner)
        if path is None and not is_plain(owner.home):
            continue  # the home's own problem is reported elsewhere
        if path is None:
            cautions.append(f"AuthorizedKeysFile {shown(pattern.text)} has an unknown token: not used")
            continue
        why = _why_shared(pattern, path, owner)
        if why:
            cautions.append(f"AuthorizedKeysFile {shown(pattern.text)} {why}: not written")
        else:
            paths.append(path)
    return paths


def _why_shared(pattern: Pattern, path: str, owner: KeyOwner) -> str:
    """Why a key in that file would give access to another account, or lie in another's home; else empty."""
    another = owner_of_home(path, owner)
    if another:
        return f"is {path}, in the home of {another}"
    tokens = _tokens(pattern.text)
    own = pattern.literal or "u" in tokens or "U" in tokens
    if not own and "h" not in tokens and pattern.text.startswith("/"):
        return "is the same file for every account"
    other = home_sharer(owner)
    if not own and other:
        return f"is in {owner.home}, which is also the home of {other}"
    return "is read for other accounts too" if others_read(path, owner) else ""


def others_read(path: str, owner: KeyOwner) -> bool:
    """Whether a line that counts for other accounts names this very file."""
    ssh = owner.ssh
    words = list(ssh.authorized_keys_files or (DEFAULT, f"{DEFAULT}2"))
    for said in ssh.directives:
        if said.keyword == KEYWORD and not _names_alone(said.block, owner.username):
            words += said.arguments
    shared = bool(home_sharer(owner))
    for word in words:
        tokens = _tokens(word)
        same = shared if "h" in tokens or not word.startswith("/") else True
        if same and "u" not in tokens and "U" not in tokens and _expanded(word, owner) == path:
            return True
    return False


def home_sharer(owner: KeyOwner) -> str:
    """The name of another account with the same home and another uid; else empty."""
    accounts, username = owner.accounts, owner.username
    own = accounts.user(username)
    others = (
        user.name
        for user in (*accounts.users, *accounts.vendor_users)
        if user.name != username and (own is None or user.uid != own.uid) and below("/", user.home or "/") == owner.home
    )
    return next(others, "")


def owner_of_home(path: str, owner: KeyOwner) -> str:
    """The account whose home the path lies in, if it is another one; else empty. `/` is no account's home."""
    accounts, username = owner.accounts, owner.username
    own = accounts.user(username)
    if owner.home != "/" and path.startswith(f"{owner.home}/"):
        return ""
    for user in (*accounts.users, *accounts.vendor_users):
        other = below("/", user.home or "/")
        same = user.name == username or (own is not None and user.uid == own.uid)
        if other != "/" and not same and path.startswith(f"{other}/"):
            return user.name
    return ""


def _tokens(pattern: str) -> list[str]:
    pieces = pattern.replace("%%", "").split("%")[1:]
    return [piece[:1] for piece in pieces]


def _first_that_serves(paths: list[str], owner: KeyOwner, cautions: list[str]) -> list[str]:
    """The first file that can be written and that sshd can read as this user; else the first, with its problem."""
    seen = {file.path: file for file in owner.admin.keys_files}
    user = owner.accounts.user(owner.username)
    for path in paths:
        why = _why_useless(seen.get(path), user.uid if user else None)
        if not why:
            return [path]
        if path != paths[-1]:
            cautions.append(f"{path} cannot be used ({why}): using the next of sshd's key files")
    return paths[:1]


def _why_useless(file: KeysFile | None, uid: int | None) -> str:
    if file is None:
        return ""
    if file.problem:
        return file.problem
    if file.home is not None:
        return ""  # modes and owners below the home are corrected
    for directory in file.directories:
        if directory.mode is not None and not directory.mode & OTHERS_ENTER and directory.uid != uid:
            return f"the user may not enter {directory.path}"
    if file.mode is not None and not file.mode & OTHERS_READ and file.uid != uid:
        return "the user may not read it"
    return ""


def _expanded(pattern: str, owner: KeyOwner) -> str | None:
    return expanded(pattern, username=owner.username, home=owner.home, accounts=owner.accounts)


def expanded(pattern: str, *, username: str, home: str, accounts: Accounts) -> str | None:
    """The path of an AuthorizedKeysFile pattern; None where it has a token that is not known here."""
    user = accounts.user(username)
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
    path = below(home, text)
    return path if is_plain(path) else None


def below(home: str, path: str) -> str:
    """An absolute path: sshd takes others relative to the home."""
    parts = [part for part in (path if path.startswith("/") else f"{home}/{path}").split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)


def inside_home(path: str, username: str, home: str) -> str | None:
    """The platform's path within the home; None where it is outside. The platform expects every home in /home."""
    if not is_plain(path) or path.endswith("/"):
        return None
    if path.startswith("$HOME/"):  # to WALinuxAgent the directory of all homes
        rest = path[len("$HOME/") :]
        path = rest[len(username) + 1 :] if rest.startswith(f"{username}/") else rest
    absolute = below(home, path)
    for base in (home.rstrip("/"), f"/home/{username}"):
        if absolute.startswith(f"{base}/"):
            return home.rstrip("/") + absolute[len(base) :]
    return None


def is_plain(path: str) -> bool:
    letters = path.isprintable() and path.isascii()
    return 0 < len(path) <= LONGEST_PATH and letters and ".." not in path.split("/")


def shown(text: str) -> str:
    return ascii(text[:100])[1:-1]
