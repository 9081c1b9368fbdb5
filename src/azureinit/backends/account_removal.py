"""Removing an account: by userdel, or by the lines of the account files."""

from __future__ import annotations

from azureinit.backends.account import why_no_files, why_no_tool
from azureinit.plan.actions import Declined, EditLine, Locked, Remove, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.facts.accounts import Accounts, Passwd
    from azureinit.facts.host import Host


def userdel(user: Passwd, home: str | None, *, host: Host, accounts: Accounts) -> Way | Declined:
    """`home`: the directory that is removed too."""
    why = why_no_tool("userdel", host)
    if not why and _shares_group(user, accounts):
        why = "it would remove a group that has other members"
    if why:
        return Declined(backend="userdel", why=why)
    # Forced: deprovisioning is mostly run in a session of that very user.
    argv = ("userdel", "--force", *(("--remove",) if home else ()), "--", user.name)
    return Way(backend="userdel", actions=(Run(argv=argv),))


def files(user: Passwd, home: str | None, *, host: Host, accounts: Accounts) -> Way | Declined:
    why = why_no_files(host=host, accounts=accounts)
    if why:
        return Declined(backend="files", why=why)
    removed = (Remove(path=home, whole=True),) if home else ()
    return Way(backend="files", actions=(*removed, Locked(edits=tuple(_edits(user, accounts)))))


def _edits(user: Passwd, accounts: Accounts) -> Iterator[EditLine]:
    name = user.name
    for group in accounts.groups:
        if name in group.members:
            yield EditLine(path="/etc/group", key=group.name, member=name, gone=True)
            if accounts.has_gshadow(group.name):
                yield EditLine(path="/etc/gshadow", key=group.name, member=name, gone=True)
    own = accounts.group(name)
    if own and own.gid == user.gid and not _shares_group(user, accounts):
        yield EditLine(path="/etc/group", key=name, gone=True)
        if accounts.has_gshadow(name):
            yield EditLine(path="/etc/gshadow", key=name, gone=True)
    for path, taken in (("/etc/subuid", accounts.subuid), ("/etc/subgid", accounts.subgid)):
        if any(ids.name == name for ids in taken or ()):
            yield EditLine(path=path, key=name, gone=True)
    if accounts.shadow_fields(name) is not None:
        yield EditLine(path="/etc/shadow", key=name, gone=True)
    yield EditLine(path="/etc/passwd", key=name, gone=True)


def _shares_group(user: Passwd, accounts: Accounts) -> bool:
    """Whether the group of the user's name has other members."""
    own = accounts.group(user.name)
    if own is None:
        return False
    others = (other for other in accounts.users if other != user)
    return any(other.gid == own.gid for other in others) or bool(set(own.members) - {user.name})


REMOVE = (userdel, files)
