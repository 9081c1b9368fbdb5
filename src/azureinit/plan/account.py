"""The admin's account: its existence, groups, home and password."""

from __future__ import annotations

from azureinit.backends.account import (
    ADD_GROUPS,
    CREATE,
    NO_PASSWORD,
    AccountIntent,
    GroupsIntent,
    Ids,
    account_lines,
    choose_ids,
    make_home,
)
from azureinit.backends.password import SET, PasswordIntent
from azureinit.errors import InvalidUsername, PasswordFailed, UserFailed
from azureinit.plan.actions import Caution, Declined, Satisfied, Step, Unknown, Way
from azureinit.plan.names import check_username, listed, quoted
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts, Passwd
    from azureinit.facts.host import Host
    from azureinit.plan.actions import Item, Plan

NOBODY = 65534
ADMIN_GROUPS = ("adm", "sudo", "wheel")


def plan_account(
    *,
    username: str,
    groups: tuple[str, ...] | None,
    password_hash: Secret | None,
    password_done: bool,
    host: Host,
    accounts: Accounts,
    config: Config,
    today: int,
    lock: bool = False,
) -> Plan:
    """`groups` None: the default groups of an admin, for a new account. `lock`: make the password unusable."""
    user = accounts.user(username)
    system = config.user.allow_system_user
    check_username(username, system=system)
    if user is not None:
        _check_no_system_account(user, accounts, allowed=system or username == host.distro.admin)
    _check_no_vendor_account(username, accounts)
    if groups is None:
        groups = default_groups(username, accounts, config)
    wanted, missing = _sorted_groups(username, groups, accounts)
    cautions = tuple(Caution(name=f"groups of {username}", why=_why_skipped(name, accounts)) for name in missing)
    intent = AccountIntent(name=username, groups=wanted, today=today)
    return (
        *_plan_user(intent, user, host=host, accounts=accounts, config=config),
        *cautions,
        _plan_password(
            PasswordIntent(name=username, field=password_hash or Secret(NO_PASSWORD), today=today),
            given=password_hash is not None,
            done=password_done,
            lock=lock,
            host=host,
            accounts=accounts,
            config=config,
        ),
    )


def accounts_with_admin(username: str, *, accounts: Accounts, config: Config, today: int) -> Accounts:
    """The accounts as they are once the admin has been made; unchanged where it exists or cannot be made."""
    if accounts.user(username) is not None:
        return accounts
    from azureinit.plan.accounts_after import accounts_after

    groups = default_groups(username, accounts, config) if config.user.groups is None else config.user.groups
    intent = AccountIntent(name=username, groups=_sorted_groups(username, groups, accounts)[0], today=today)
    ids = choose_ids(username, accounts, intent)
    return accounts_after(accounts, account_lines(intent, ids, accounts)) if isinstance(ids, Ids) else accounts


def _check_no_system_account(user: Passwd, accounts: Accounts, *, allowed: bool) -> None:
    """The account nobody is never an admin: unprivileged services run as it."""
    nobody = user.uid == NOBODY or user.name == "nobody"
    if nobody or (is_system_account(user, accounts) and not allowed):
        hint = "choose an admin user name that the image does not use itself"
        if not nobody:
            hint += ", or set user.allow_system_user"
        raise InvalidUsername(f"user name {quoted(user.name)} belongs to the system (uid {user.uid})", hint=hint)


def _check_no_vendor_account(username: str, accounts: Accounts) -> None:
    """An account in /usr can be neither made nor changed: to every tool it exists, but not in /etc."""
    user = accounts.vendor_user(username)
    if user is not None:
        hint = "choose an admin user name that the image does not use itself"
        told = f"user name {quoted(username)} belongs to the system (uid {user.uid}, among the accounts in /usr)"
        raise InvalidUsername(told, hint=hint)


def _why_skipped(group: str, accounts: Accounts) -> str:
    if any(vendor.name == group for vendor in accounts.vendor_groups):
        return f"group {quoted(group)} is in /usr and not in /etc/group, so that no member can be added; skipped"
    return f"group {quoted(group)} does not exist; skipped"


def is_system_account(user: Passwd, accounts: Accounts) -> bool:
    return user.uid < accounts.policy.uid_min or user.uid == NOBODY


def default_groups(username: str, accounts: Accounts, config: Config) -> tuple[str, ...]:
    """Where no groups are configured: for a new account, or one whose creation was interrupted.

    Without sudo and wheel where user.sudo is none: these groups would grant it.
    """
    user = accounts.user(username)
    if user is not None and not _unfinished(user, accounts):
        return ()
    names = ADMIN_GROUPS[:1] if config.user.sudo == "none" else ADMIN_GROUPS
    return tuple(name for name in names if accounts.group(name))


def _sorted_groups(name: str, groups: tuple[str, ...], accounts: Accounts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that exist, and those that do not. The account's own group is left out: a new account gets it anyway."""
    asked = [group for group in dict.fromkeys(groups) if group != name or accounts.user(name)]
    here = tuple(group for group in asked if accounts.group(group))
    return here, tuple(group for group in asked if group not in here)


def _plan_user(intent: AccountIntent, user: Passwd | None, *, host: Host, accounts: Accounts, config: Config) -> Plan:
    name, backends = intent.name, config.user_provisioners.backends
    unfinished = _unfinished(user, accounts) if user else "does not exist"
    if unfinished:
        ways = tuple(CREATE[backend](intent, host=host, accounts=accounts) for backend in backends)
        did = f"created {name}" if user is None else f"completed the account {name}, which {unfinished}"
        did += f", in {listed(intent.groups)}" if intent.groups else ""
        account: Item = Step(name=f"user {name}", why=unfinished, did=did, ways=ways, failure=UserFailed)
    else:
        account = Satisfied(name=f"user {name}", why="exists")
    if user is None:
        return (account,)
    return (
        account,
        *_plan_home(user, host=host, accounts=accounts),
        *_plan_groups(intent, backends, host=host, accounts=accounts),
    )


def _unfinished(user: Passwd, accounts: Accounts) -> str:
    """What an interrupted useradd left out: it writes passwd first."""
    if accounts.shadow is not None and user.password == Secret("x") and accounts.shadow_fields(user.name) is None:
        return "has no entry in /etc/shadow"
    if accounts.group(user.name) is None and all(group.gid != user.gid for group in accounts.groups):
        return f"has a group ({user.gid}) that does not exist"
    return ""


def _plan_home(user: Passwd, *, host: Host, accounts: Accounts) -> Plan:
    """A home that belongs to a user stays as it is."""
    name = f"home of {user.name}"
    home = accounts.home(user.home)
    if is_system_account(user, accounts) and user.name != host.distro.admin:
        return (Satisfied(name=name, why=f"a system account's home stays as it is: {user.home}"),)
    other = next((one.name for one in accounts.users if _is_same_home(one, user)), None)
    if other is not None:
        return (Satisfied(name=name, why=f"is {user.home}, which is also the home of {other}: stays as it is"),)
    if home is not None and not (home.uid == 0 and home.empty and user.uid and host.privileged):
        return (Satisfied(name=name, why=f"is {user.home}"),)
    way: Way | Declined
    if not host.privileged and not host.rooted:
        way = Declined(backend="native", why="only root makes homes")
    else:
        way = Way(
            backend="native", actions=tuple(make_home(user.home, owner=f"{user.uid}:{user.gid}", accounts=accounts))
        )
    why = f"{user.home} does not exist" if home is None else f"{user.home} is empty and belongs to root"
    did = f"made {user.home}, the home of {user.name}"
    return (Step(name=name, why=why, did=did, ways=(way,), failure=UserFailed),)


def _is_same_home(one: Passwd, user: Passwd) -> bool:
    return one.uid != user.uid and (one.home.rstrip("/") or "/") == (user.home.rstrip("/") or "/")


def _plan_groups(intent: AccountIntent, backends: tuple[str, ...], *, host: Host, accounts: Accounts) -> Plan:
    name = f"groups of {intent.name}"
    already = accounts.groups_of(intent.name)
    gained = tuple(group for group in intent.groups if group not in already)
    if not gained:
        return (Satisfied(name=name, why=f"in {', '.join(intent.groups)}"),) if intent.groups else ()
    asked = GroupsIntent(name=intent.name, groups=gained)
    ways = tuple(ADD_GROUPS[backend](asked, host=host, accounts=accounts) for backend in backends)
    why, did = f"gains {', '.join(gained)}", f"added {intent.name} to {listed(gained)}"
    return (Step(name=name, why=why, did=did, ways=ways, failure=UserFailed),)


def _plan_password(
    intent: PasswordIntent,
    *,
    given: bool,
    done: bool,
    lock: bool,
    host: Host,
    accounts: Accounts,
    config: Config,
) -> Item:
    name = f"password {intent.name}"
    state = accounts.password_state(intent.name)
    why = ""
    if given:
        if accounts.password_is(intent.name, intent.field):
            why = "is the one that was given"
        elif done:
            why = "was set by an earlier run"
    elif accounts.user(intent.name) is None:
        why = "none was given: the new account has none"
    elif not lock:
        why = "none was given: the account keeps what it has"
    elif state in ("none", "locked"):
        why = "is unusable already"
    if why:
        return Satisfied(name=name, why=why)
    if accounts.user(intent.name) is not None and "/etc/shadow" in accounts.unreadable:
        return Unknown(name=name, why="/etc/shadow cannot be read")
    backends = config.password_provisioners.backends
    ways = tuple(SET[backend](intent, host=host, accounts=accounts) for backend in backends)
    why = "was given" if given else "is to be locked"
    did = f"{'set' if given else 'locked'} the password of {intent.name}"
    return Step(name=name, why=why, did=did, ways=ways, once=True, failure=PasswordFailed)
