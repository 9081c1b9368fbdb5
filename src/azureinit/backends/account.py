"""Creating an account and adding it to groups: by shadow-utils, or by writing the account files."""

from __future__ import annotations

from azureinit.plan.actions import Declined, EditLine, Link, Locked, MakeDir, Run, Way, Write
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol

    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.facts.policy import SubIds
    from azureinit.plan.actions import Action

    class Create(Protocol):
        def __call__(self, intent: AccountIntent, *, host: Host, accounts: Accounts) -> Way | Declined: ...

    class AddGroups(Protocol):
        def __call__(self, intent: GroupsIntent, *, host: Host, accounts: Accounts) -> Way | Declined: ...


COMMENT = "Azure admin user"
# No password. Not "!": sshd without PAM would refuse keys too.
NO_PASSWORD = "*"


class AccountIntent(Record):
    """An account to create, in these groups. `today` in days, as in /etc/shadow."""

    name: str
    groups: tuple[str, ...]
    today: int


class GroupsIntent(Record):
    """Groups to add to an existing account."""

    name: str
    groups: tuple[str, ...]


class Ids(Record):
    uid: int
    gid: int


# ---- shadow-utils


def useradd(intent: AccountIntent, *, host: Host, accounts: Accounts) -> Way | Declined:
    why = why_no_tool("useradd", host)
    if not why and accounts.user(intent.name):
        why = "it cannot complete an existing account"
    if why:
        return Declined(backend="useradd", why=why)
    home = accounts.home_of(intent.name)
    argv = ["useradd", "--create-home", "--home-dir", home, "--shell", accounts.shell, "--comment", COMMENT]
    argv += ["--password", NO_PASSWORD]
    if accounts.group(intent.name):
        argv += ["--gid", intent.name]  # useradd refuses otherwise
    if intent.groups:
        argv += ["--groups", ",".join(intent.groups)]
    run = Run(argv=(*argv, "--", intent.name))
    # useradd leaves an existing home as it is, whatever its owner.
    left = tuple(make_home(home, owner=intent.name, accounts=accounts)) if accounts.home(home) else ()
    return Way(backend="useradd", actions=(run, *left))


def usermod(intent: GroupsIntent, *, host: Host, accounts: Accounts) -> Way | Declined:  # noqa: ARG001
    why = why_no_tool("usermod", host)
    if why:
        return Declined(backend="useradd", why=why)
    argv = ("usermod", "--append", "--groups", ",".join(intent.groups), "--", intent.name)
    return Way(backend="useradd", actions=(Run(argv=argv),))


def why_no_tool(tool: str, host: Host) -> str:
    if host.rooted:
        return "it works on the running system, not on the one under --root"
    if tool not in host.tools:
        return f"{tool} is not installed"
    return "" if host.privileged else "only root changes accounts"


# ---- the files themselves


def files(intent: AccountIntent, *, host: Host, accounts: Accounts) -> Way | Declined:
    """Home first and passwd last: after an interruption there is no account yet, and the next run does the rest."""
    ids = choose_ids(intent.name, accounts)
    why = why_no_files(host=host, accounts=accounts) or accounts.skeleton_problem
    new = accounts.user(intent.name) is None
    if not why and new and accounts.beside and not host.rooted and "useradd" in host.tools:
        why = f"only useradd can apply {accounts.beside}"
    if not why and _expiry(accounts.policy.expires) is None:
        why = f"EXPIRE={accounts.policy.expires!a} in useradd's defaults is not a date like 2030-12-31"
    if why or isinstance(ids, str):
        return Declined(backend="files", why=why or str(ids))
    actions: list[Action] = []
    if new:
        owner = f"{ids.uid}:{ids.gid}"
        actions += make_home(accounts.home_of(intent.name), owner=owner, accounts=accounts)
        actions += _make_mailbox(intent.name, ids, accounts)
    edits = tuple(_account_lines(intent, ids, accounts))
    return Way(backend="files", actions=(Locked(edits=edits, first=tuple(actions)),))


def files_groups(intent: GroupsIntent, *, host: Host, accounts: Accounts) -> Way | Declined:
    why = why_no_files(host=host, accounts=accounts)
    if why:
        return Declined(backend="files", why=why)
    return Way(backend="files", actions=(Locked(edits=tuple(_memberships(intent, accounts))),))


def why_no_files(*, host: Host, accounts: Accounts) -> str:
    if not host.rooted:
        if not host.privileged:
            return "only root writes the account files"
        if host.selinux:
            return "SELinux is enabled, and its policy lets only shadow-utils write the account files"
        if not accounts.nss_plain:
            return f"{accounts.nss_why}, so that other accounts may exist"
        if accounts.caches:
            return f"{accounts.caches[0]} is running and would not notice the change"
    if accounts.unreadable:
        return f"{accounts.unreadable[0]} cannot be read"
    if accounts.shadow is None:
        return "there is no /etc/shadow"
    return ""


def make_home(home: str, *, owner: str, accounts: Accounts) -> Iterator[Action]:
    """The home with the files of the skeleton. Existing files stay as they are."""
    base, _, _ = home.rpartition("/")
    if base == accounts.policy.home and not accounts.home_base:
        yield MakeDir(path=base, mode=0o755)
    yield MakeDir(path=home, mode=accounts.policy.home_mode, owner=owner, beneath=base or None)
    found = accounts.home(home)
    for entry in accounts.skeleton:
        path = f"{home}/{entry.path}"
        if found and entry.path in found.has:
            continue
        if entry.data is not None:
            yield Write(path=path, data=entry.data, mode=entry.mode, owner=owner, beneath=home)
        elif entry.target is not None:
            yield Link(path=path, target=_retargeted(entry.target, home, accounts), owner=owner, beneath=home)
        else:
            yield MakeDir(path=path, mode=entry.mode, owner=owner, beneath=home)


def _retargeted(target: str, home: str, accounts: Accounts) -> str:
    """A link into the skeleton becomes a link into the home."""
    skeleton = accounts.policy.skeleton
    return home + target[len(skeleton) :] if target.startswith(skeleton + "/") else target


def _make_mailbox(name: str, ids: Ids, accounts: Accounts) -> Iterator[Action]:
    spool = accounts.policy.mail_dir
    if spool is None or accounts.mailboxes is None or name in accounts.mailboxes:
        return
    mail = accounts.group("mail")
    gid, mode = (mail.gid, 0o660) if mail else (ids.gid, 0o600)
    yield Write(path=f"{spool}/{name}", data=b"", mode=mode, owner=f"{ids.uid}:{gid}", beneath=spool)


def _account_lines(intent: AccountIntent, ids: Ids, accounts: Accounts) -> Iterator[EditLine]:
    """Only the missing lines, so that an incomplete account is completed."""
    name, uid = intent.name, ids.uid
    user = accounts.user(name)
    own_group = not any(group.gid == ids.gid or group.name == name for group in accounts.groups)
    if own_group and accounts.gshadow is not None and not accounts.has_gshadow(name):
        yield EditLine(path="/etc/gshadow", key=name, line=f"{name}:!::")
    members = tuple(_memberships(GroupsIntent(name=name, groups=intent.groups), accounts))
    yield from (edit for edit in members if edit.path == "/etc/gshadow")
    yield from (edit for edit in members if edit.path == "/etc/group")
    if own_group:
        password = "!" if accounts.gshadow is None else "x"
        yield EditLine(path="/etc/group", key=name, line=f"{name}:{password}:{ids.gid}:", unique=2)
    yield from _shadow_line(intent, accounts)
    if user is None:
        policy = accounts.policy
        yield from _subids(
            "/etc/subuid", name=name, taken=accounts.subuid, wanted=policy.sub_uids, last=policy.sub_uid_max
        )
        yield from _subids(
            "/etc/subgid", name=name, taken=accounts.subgid, wanted=policy.sub_gids, last=policy.sub_gid_max
        )
        line = f"{name}:x:{uid}:{ids.gid}:{COMMENT}:{accounts.home_of(name)}:{accounts.shell}"
        yield EditLine(path="/etc/passwd", key=name, line=line, unique=2)


def _memberships(intent: GroupsIntent, accounts: Accounts) -> Iterator[EditLine]:
    wanted = set(intent.groups)
    for group in accounts.groups:
        if group.name in wanted:
            yield EditLine(path="/etc/group", key=group.name, member=intent.name)
            if accounts.has_gshadow(group.name):
                yield EditLine(path="/etc/gshadow", key=group.name, member=intent.name)


def _shadow_line(intent: AccountIntent, accounts: Accounts) -> Iterator[EditLine]:
    policy = accounts.policy
    days = (policy.min_days, policy.max_days, policy.warn_days, policy.inactive_days)
    told = ("" if number is None else str(number) for number in days)
    fields = (NO_PASSWORD, day_field(intent.today), *told, _expiry(policy.expires) or "", "")
    if accounts.shadow_fields(intent.name) is None:
        yield EditLine(path="/etc/shadow", key=intent.name, line=":".join((intent.name, *fields)))
    elif accounts.user(intent.name) is None:  # left by a removed account, or by an interrupted run
        yield EditLine(path="/etc/shadow", key=intent.name, fields=tuple(enumerate(fields, 1)))


def day_field(today: int) -> str:
    """Empty for a clock at the epoch: 0 would require a new password at once."""
    return str(today) if today > 0 else ""


def _expiry(date: str) -> str | None:
    """useradd's EXPIRE as a number of days; None for a date only useradd can read."""
    if not date or date == "-1":
        return ""
    if date.isdigit():
        return date
    import datetime

    try:
        return str((datetime.date.fromisoformat(date) - datetime.date(1970, 1, 1)).days)
    except ValueError:
        return None


def _subids(path: str, *, name: str, taken: tuple[SubIds, ...] | None, wanted: SubIds, last: int) -> Iterator[EditLine]:
    """The first free range that is large enough. None without the file: administrators disable ranges that way."""
    if taken is None or wanted.count <= 0 or any(ids.name == name for ids in taken):
        return
    low = wanted.start
    for ids in sorted(taken, key=lambda ids: ids.start):
        if ids.start - low >= wanted.count:
            break
        low = max(low, ids.start + ids.count)
    if low + wanted.count - 1 <= last:
        yield EditLine(path=path, key=name, line=f"{name}:{low}:{wanted.count}", unique=1)


# ---- numbers, as useradd chooses them


def choose_ids(name: str, accounts: Accounts) -> Ids | str:
    """The account's uid and gid, or why none can be had."""
    policy = accounts.policy
    user = accounts.user(name)
    if user:
        return Ids(uid=user.uid, gid=user.gid)
    users, groups = (*accounts.users, *accounts.vendor_users), (*accounts.groups, *accounts.vendor_groups)
    uid = _after_highest((user.uid for user in users), low=policy.uid_min, high=policy.uid_max)
    if uid is None:
        return f"no user number from {policy.uid_min} to {policy.uid_max} is free"
    own = accounts.group(name)
    if own:
        return Ids(uid=uid, gid=own.gid)
    if not policy.user_group:
        default = next((group for group in groups if policy.group in (group.name, str(group.gid))), None)
        return Ids(uid=uid, gid=default.gid) if default else f"the default group {policy.group!a} does not exist"
    taken = {group.gid for group in groups}
    if uid not in taken and policy.gid_min <= uid <= policy.gid_max:
        return Ids(uid=uid, gid=uid)
    gid = _after_highest(taken, low=policy.gid_min, high=policy.gid_max)
    return Ids(uid=uid, gid=gid) if gid is not None else f"no group from {policy.gid_min} to {policy.gid_max} is free"


def _after_highest(taken: Iterable[int], *, low: int, high: int) -> int | None:
    used = {number for number in taken if low <= number <= high}
    following = max(used, default=low - 1) + 1
    if following <= high:
        return following
    return next((number for number in range(low, high + 1) if number not in used), None)


CREATE: dict[str, Create] = {"useradd": useradd, "files": files}
ADD_GROUPS: dict[str, AddGroups] = {"useradd": usermod, "files": files_groups}
