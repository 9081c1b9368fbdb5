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
    """An account to create, in these groups. `today` in days, as in /etc/shadow. The defaults are those of an admin."""

    name: str
    groups: tuple[str, ...]
    today: int
    comment: str = COMMENT
    password: str = NO_PASSWORD  # of /etc/shadow, and no secret: it admits no login
    home: str = ""  # empty: by the policy
    # An existing directory that is not this account's own: neither its owner nor its content is changed.
    home_stays: bool = False
    parents: tuple[str, ...] = ()  # directories above the home that do not exist
    make_home: bool = True
    shell: str | None = None  # None: the one that the image configures
    uid: int | None = None
    group: str = ""  # the primary group; empty: by the policy
    user_group: bool = True  # False: never a group of its own
    system: bool = False
    log_init: bool = True
    expires: str = ""  # a date such as 2030-12-31
    inactive: str = ""  # days
    selinux_user: str = ""

    def home_of(self, accounts: Accounts) -> str:
        return self.home or accounts.home_of(self.name)

    def shell_of(self, accounts: Accounts) -> str:
        return accounts.shell if self.shell is None else self.shell


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
    home, shell = intent.home_of(accounts), intent.shell_of(accounts)
    argv = ["useradd", "--create-home" if intent.make_home else "--no-create-home", "--home-dir", home]
    argv += ["--shell", shell] if shell else []
    argv += ["--comment", intent.comment, "--password", intent.password]
    if intent.group or accounts.group(intent.name):
        argv += ["--gid", intent.group or intent.name]  # useradd refuses otherwise
    elif not intent.user_group:
        argv.append("--no-user-group")
    if intent.groups:
        argv += ["--groups", ",".join(intent.groups)]
    argv += _more_options(intent)
    run = Run(argv=(*argv, "--", intent.name))
    # useradd leaves an existing home as it is, whatever its owner.
    stays = intent.home_stays or not intent.make_home or not accounts.home(home)
    left = () if stays else tuple(make_home(home, owner=intent.name, accounts=accounts))
    parents = tuple(MakeDir(path=path, mode=0o755) for path in intent.parents)
    return Way(backend="useradd", actions=(*parents, run, *left))


def _more_options(intent: AccountIntent) -> list[str]:
    said = {
        "--uid": "" if intent.uid is None else str(intent.uid),
        "--expiredate": intent.expires,
        "--inactive": intent.inactive,
        "--selinux-user": intent.selinux_user,
    }
    flags = {"--system": intent.system, "--no-log-init": not intent.log_init}
    words = [word for option, value in said.items() if value for word in (option, value)]
    return words + [flag for flag, wanted in flags.items() if wanted]


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
    ids = choose_ids(intent.name, accounts, intent)
    why = why_no_files(host=host, accounts=accounts) or (accounts.skeleton_problem if intent.make_home else "")
    new = accounts.user(intent.name) is None
    if not why and new and accounts.beside and not host.rooted and "useradd" in host.tools:
        why = f"only useradd can apply {accounts.beside}"
    if not why and _expiry(accounts.policy.expires) is None:
        why = f"EXPIRE={accounts.policy.expires!a} in useradd's defaults is not a date like 2030-12-31"
    if not why and _expiry(intent.expires) is None:
        why = f"{intent.expires!a} is not a date like 2030-12-31"
    if not why and intent.selinux_user:
        why = "only useradd maps an account to a user of SELinux"
    if why or isinstance(ids, str):
        return Declined(backend="files", why=why or str(ids))
    actions: list[Action] = []
    if new and intent.make_home and not intent.home_stays:
        owner = f"{ids.uid}:{ids.gid}"
        actions += [MakeDir(path=path, mode=0o755) for path in intent.parents]
        actions += make_home(intent.home_of(accounts), owner=owner, accounts=accounts)
    if new and intent.make_home:
        actions += _make_mailbox(intent.name, ids, accounts)
    return Way(backend="files", actions=(Locked(edits=account_lines(intent, ids, accounts), first=tuple(actions)),))


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


def account_lines(intent: AccountIntent, ids: Ids, accounts: Accounts) -> tuple[EditLine, ...]:
    """Only the missing lines, so that an incomplete account is completed."""
    return tuple(_account_lines(intent, ids, accounts))


def _account_lines(intent: AccountIntent, ids: Ids, accounts: Accounts) -> Iterator[EditLine]:
    name, uid = intent.name, ids.uid
    user = accounts.user(name)
    own_group = not any(group.gid == ids.gid or group.name == name for group in accounts.groups)
    if own_group and accounts.gshadow is not None and not accounts.has_gshadow(name):
        yield EditLine(path="/etc/gshadow", key=name, line=f"{name}:!::")
    yield from _memberships(GroupsIntent(name=name, groups=intent.groups), accounts)
    if own_group:
        password = "!" if accounts.gshadow is None else "x"
        yield EditLine(path="/etc/group", key=name, line=f"{name}:{password}:{ids.gid}:", unique=2)
    yield from _shadow_line(intent, accounts)
    if user is None:
        policy = accounts.policy
        if not intent.system:
            yield from _subids(
                "/etc/subuid", name=name, taken=accounts.subuid, wanted=policy.sub_uids, last=policy.sub_uid_max
            )
            yield from _subids(
                "/etc/subgid", name=name, taken=accounts.subgid, wanted=policy.sub_gids, last=policy.sub_gid_max
            )
        home, shell = intent.home_of(accounts), intent.shell_of(accounts)
        line = f"{name}:x:{uid}:{ids.gid}:{intent.comment}:{home}:{shell}"
        yield EditLine(path="/etc/passwd", key=name, line=line, unique=2)


def _memberships(intent: GroupsIntent, accounts: Accounts) -> Iterator[EditLine]:
    """gshadow first: what is in group after a crash counts as done."""
    wanted = [group.name for group in accounts.groups if group.name in intent.groups]
    hidden = [name for name in wanted if accounts.has_gshadow(name)]
    yield from (EditLine(path="/etc/gshadow", key=name, member=intent.name) for name in hidden)
    yield from (EditLine(path="/etc/group", key=name, member=intent.name) for name in wanted)


def _shadow_line(intent: AccountIntent, accounts: Accounts) -> Iterator[EditLine]:
    policy = accounts.policy
    days = (policy.min_days, policy.max_days, policy.warn_days)
    told = ("" if number is None or intent.system else str(number) for number in days)
    inactive = intent.inactive or ("" if policy.inactive_days is None else str(policy.inactive_days))
    expires = _expiry(intent.expires or policy.expires) or ""
    fields = (intent.password, day_field(intent.today), *told, inactive, expires, "")
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


def choose_ids(name: str, accounts: Accounts, intent: AccountIntent | None = None) -> Ids | str:
    """The account's uid and gid, or why none can be had."""
    policy = accounts.policy
    user = accounts.user(name)
    if user:
        return Ids(uid=user.uid, gid=user.gid)
    users, groups = (*accounts.users, *accounts.vendor_users), (*accounts.groups, *accounts.vendor_groups)
    system = intent is not None and intent.system
    taken = {user.uid for user in users}
    asked = intent.uid if intent is not None else None
    low, high = policy.system_uids if system else (policy.uid_min, policy.uid_max)
    uid = free_id(taken, low=low, high=high, system=system) if asked is None else asked
    if uid is None:
        return f"no user number from {low} to {high} is free"
    if uid in taken:
        return f"user number {uid} is in use"
    primary = intent.group if intent is not None else ""
    own = next((group for group in groups if primary in (group.name, str(group.gid))), None)
    if primary and own is None:
        return f"the group {primary!a} does not exist"
    own = own or accounts.group(name)
    if own:
        return Ids(uid=uid, gid=own.gid)
    if not (policy.user_group or system) or (intent is not None and not intent.user_group):
        default = next((group for group in groups if policy.group in (group.name, str(group.gid))), None)
        return Ids(uid=uid, gid=default.gid) if default else f"the default group {policy.group!a} does not exist"
    gids = {group.gid for group in groups}
    low, high = policy.system_gids if system else (policy.gid_min, policy.gid_max)
    if uid not in gids and low <= uid <= high:
        return Ids(uid=uid, gid=uid)
    gid = free_id(gids, low=low, high=high, system=system)
    return Ids(uid=uid, gid=gid) if gid is not None else f"no group from {low} to {high} is free"


def free_id(taken: Iterable[int], *, low: int, high: int, system: bool = False) -> int | None:
    """Ordinary accounts get the number after the highest, accounts of the system the one below the lowest."""
    used = {number for number in taken if low <= number <= high}
    following = min(used, default=high + 1) - 1 if system else max(used, default=low - 1) + 1
    if low <= following <= high:
        return following
    numbers = range(high, low - 1, -1) if system else range(low, high + 1)
    return next((number for number in numbers if number not in used), None)


CREATE: dict[str, Create] = {"useradd": useradd, "files": files}
ADD_GROUPS: dict[str, AddGroups] = {"useradd": usermod, "files": files_groups}
