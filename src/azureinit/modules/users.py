"""`users`, `user` and `groups`: accounts beside the platform's admin, and settings for the admin itself.

The run makes the admin's account, keys, password and sudo before any stage of customData; `default` is that account.
"""

from __future__ import annotations

from azureinit.backends.account import CREATE, NO_PASSWORD, AccountIntent, Ids, account_lines, choose_ids
from azureinit.backends.account_changes import CHANGE, ChangeIntent
from azureinit.errors import CustomDataFailed
from azureinit.modules.groups import MODULE, plan_group, plan_members, plan_membership
from azureinit.modules.steps import named, refused, where
from azureinit.modules.user_keys import plan_user_keys, wrong_keys
from azureinit.modules.user_passwords import NEW, plan_user_password, takes_passwd, wrong_passwords
from azureinit.modules.user_rules import plan_rules
from azureinit.modules.users_asked import asked_groups, asked_users, other_admin
from azureinit.plan.accounts_after import accounts_after
from azureinit.plan.actions import Caution, Declined, Satisfied, Step
from azureinit.plan.names import listed, name_problem, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts, Passwd
    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.modules.users_asked import UserAsked
    from azureinit.plan.actions import Item, Plan

NO_HOME = ("no_create_home", "system")
NEEDS_HOME = ("ssh_authorized_keys", "ssh_import_id", "ssh_redirect_user")
# Settings of a new account only.
AT_CREATION = (
    "gecos", "homedir", "shell", "uid", "primary_group", "groups", "passwd", "expiredate", "inactive", "selinux_user",
    "system", "no_create_home", "no_user_group", "no_log_init", "create_groups",
)  # fmt: skip
MOST_DAYS = 9  # digits: /etc/shadow's numbers have 32 bits in some programs
LAST_UID = (1 << 32) - 2


def plan_users(request: Request, facts: Users) -> Plan:
    admin = request.metadata.username
    asked = asked_users(request.config, admin)
    groups = asked_groups(request.config)
    refusals = (
        *(refused(named(MODULE, node), why, reason=f"{where(node)} is no account") for node, why in asked.wrong),
        *(item for user in asked.everyone for item in _refusals(user, facts)),
    )
    if refusals:
        return refusals
    accounts, rules = facts.accounts, facts.rules
    plan: list[Item] = []
    other = other_admin(request.config, admin)
    if other is not None:
        why = f"the admin keeps the platform's name, which is {admin}"
        plan.append(Caution(name=named(MODULE, other, "system_info.default_user.name"), why=why))
    for group in groups:
        item, accounts = plan_group(group.name, group.node, request, facts, accounts)
        plan.append(item)
    new = frozenset(user.name for user in asked.users if facts.accounts.user(user.name) is None)
    more, accounts = plan_members(groups, request, facts, accounts, new=new)
    plan += more
    for user in asked.everyone:
        own = user is asked.admin
        if own and (admin is None or accounts.user(user.name) is None):
            why = "the platform's admin does not exist here: these settings are not applied"
            plan.append(Caution(name=named(MODULE, user.node, user.name), why=why))
            continue
        if user.get("snapuser") is not None:
            why = "snapuser is not done: no account is made"
            plan.append(Caution(name=named(MODULE, user.node, user.name), why=why))
            continue
        is_new = accounts.user(user.name) is None
        more, accounts = _plan_account(user, request, facts, accounts, admin=own)
        plan += more
        if accounts.user(user.name) is None:
            continue  # the step fails
        # Before the password, which may be locked: a failure leaves a way in.
        plan += plan_user_keys(user, request, facts, accounts)
        plan += plan_user_password(user, request, facts, accounts, new=is_new, admin=own)
        more, rules = plan_rules(user, rules, facts)
        plan += more
    late = tuple(group for group in groups if new.intersection(group.members))
    others = frozenset(name for group in late for name in group.members) - new
    more, accounts = plan_members(late, request, facts, accounts, new=others)
    # Last: an unusable key is a failure, and does not keep the rest from being done.
    wrong = (_wrong_keys(user) for user in asked.everyone)
    return (*plan, *more, *(item for items in wrong for item in items))


def _wrong_keys(user: UserAsked) -> Plan:
    return () if user.flag("ssh_redirect_user") else wrong_keys(MODULE, user.get("ssh_authorized_keys"))


# ---- what cannot be done at all


def _refusals(user: UserAsked, facts: Users) -> Plan:
    """Settings that contradict each other, or that no account file can hold."""
    name = named(MODULE, user.node, user.name)
    why = _why_refused(user, facts)
    refusals = (refused(name, why, reason="the account cannot be made as it is asked for"),) if why else ()
    return (*refusals, *wrong_passwords(user))


def _why_refused(user: UserAsked, facts: Users) -> str:
    if facts.accounts.user(user.name) is None and user.get("snapuser") is None:
        problem = name_problem(user.name)
        if problem:
            return f"the name {quoted(user.name)} {problem}"
        vendor = facts.accounts.vendor_user(user.name)
        if vendor is not None:
            return f"the account is in /usr (uid {vendor.uid}) and can neither be made nor changed"
    without = [key for key in NO_HOME if user.flag(key)]
    needing = [key for key in NEEDS_HOME if user.get(key) is not None and _asks(user, key)]
    if without and needing:
        return f"{listed(tuple(needing))} needs a home, and {listed(tuple(without))} makes none"
    if user.flag("ssh_redirect_user") and len(needing) > 1:
        return "ssh_redirect_user excludes ssh_authorized_keys and ssh_import_id"
    for key in ("gecos", "homedir", "shell", "expiredate", "inactive", "selinux_user"):
        if set(user.text(key)) & set(":\n\r\0"):
            return f"{key} has a colon or a line break"
    home, shell, uid = user.text("homedir"), user.text("shell"), user.text("uid")
    if home and (not home.startswith("/") or ".." in home.split("/") or not home.strip("/")):
        return "homedir is no absolute path of a home"
    if home in facts.unsafe and facts.accounts.user(user.name) is None:
        return f"homedir: {facts.unsafe[home]}"
    if shell and not shell.startswith("/"):
        return "shell is no absolute path"
    if uid and not (uid.isascii() and uid.isdigit() and len(uid) <= 10 and int(uid) <= LAST_UID):
        return "uid is no number of an account"
    inactive = user.text("inactive")
    days = inactive.removeprefix("-")
    if inactive and not (days.isascii() and days.isdigit() and len(days) <= MOST_DAYS):
        return "inactive is no number of days"
    expires = user.text("expiredate")
    if expires.isdigit() and not (expires.isascii() and len(expires) <= MOST_DAYS):
        return "expiredate is neither a date nor a number of days"
    return ""


def _asks(user: UserAsked, key: str) -> bool:
    return bool(user.words(key)) if key != "ssh_redirect_user" else user.flag(key)


# ---- the account


def _plan_account(
    user: UserAsked, request: Request, facts: Users, accounts: Accounts, *, admin: bool
) -> tuple[Plan, Accounts]:
    there = accounts.user(user.name)
    if there is not None and not admin:
        name = named(MODULE, user.node, f"user {user.name}")
        ignored = _ignored(user, there, accounts, keys=AT_CREATION)
        return (Satisfied(name=name, why="exists"), *_cautions(user, ignored)), accounts
    plan: list[Item] = []
    groups, primary = user.words("groups"), user.text("primary_group")
    if user.flag("create_groups", default=True):
        for group in (*groups, *((primary,) if primary and not primary.isdigit() else ())):
            if group != user.name or there is not None or group == primary:
                item, accounts = plan_group(group, user.node, request, facts, accounts)
                plan += () if isinstance(item, Satisfied) else (item,)
    if there is not None:
        more, accounts = _plan_admin(user, there, request, facts, accounts)
        return (*plan, *more), accounts
    # A new account is in its own group anyway, and cannot be added to one that does not exist yet.
    groups = tuple(group for group in groups if group != user.name or accounts.group(group) is not None)
    intent = _intent(user, groups, request, facts, accounts)
    backends = request.settings.user_provisioners.backends
    missing = tuple(group for group in groups if accounts.group(group) is None)
    name = named(MODULE, user.node, f"user {user.name}")
    if missing:
        why = f"{listed(missing)} cannot gain members, and create_groups is false or /etc/group has no such group"
        return (*plan, refused(name, why, reason="does not exist")), accounts
    ways = tuple(CREATE[backend](intent, host=facts.host, accounts=accounts) for backend in backends)
    did = f"created {user.name}" + (f", in {listed(groups)}" if groups else "")
    step = Step(name=name, why="does not exist", did=did, ways=ways, failure=CustomDataFailed)
    ids = choose_ids(user.name, accounts, intent)
    if isinstance(ids, Ids) and not all(isinstance(way, Declined) for way in ways):
        accounts = accounts_after(accounts, account_lines(intent, ids, accounts))
    return (*plan, step, *_home_cautions(user, intent, name)), accounts


def _intent(
    user: UserAsked, groups: tuple[str, ...], request: Request, facts: Users, accounts: Accounts
) -> AccountIntent:
    home = user.text("homedir") or accounts.home_of(user.name)
    system = user.flag("system")
    owner = next((one for one in accounts.users if one.home.rstrip("/") == home.rstrip("/")), None)
    stays = bool(user.text("homedir")) and accounts.home(home) is not None
    uid = user.text("uid")
    # sshd without PAM takes "!" for a locked account, and refuses keys too.
    pam = facts.ssh.use_pam or not facts.ssh.installed
    return AccountIntent(
        name=user.name,
        groups=groups,
        today=request.today,
        comment=user.text("gecos"),
        password=NEW if pam else NO_PASSWORD,
        home=home,
        home_stays=stays or owner is not None,
        parents=facts.missing.get(home, ()),
        make_home=not (user.flag("no_create_home") or system),
        shell=user.text("shell") or accounts.policy.shell or "/bin/sh",
        uid=int(uid) if uid else None,
        group=user.text("primary_group"),
        user_group=not user.flag("no_user_group"),
        system=system,
        log_init=not user.flag("no_log_init"),
        expires=user.text("expiredate"),
        inactive=user.text("inactive"),
        selinux_user=user.text("selinux_user"),
    )


def _home_cautions(user: UserAsked, intent: AccountIntent, name: str) -> Plan:
    if not (intent.home_stays and intent.make_home):
        return ()
    why = f"{intent.home} exists: its owner and its content stay as they are, also where {user.name} cannot use them"
    return (Caution(name=name, why=why),)


def _plan_admin(
    user: UserAsked, there: Passwd, request: Request, facts: Users, accounts: Accounts
) -> tuple[Plan, Accounts]:
    """The run has made the account: it gains groups, and gets another shell and comment."""
    plan: Plan = ()
    if user.words("groups"):
        plan, accounts = plan_membership(user.name, user.words("groups"), user.node, request, facts, accounts)
    name = named(MODULE, user.node, f"account of {user.name}")
    shell, comment = user.text("shell"), user.text("gecos")
    absent = bool(shell) and shell != there.shell and shell not in facts.shells
    if absent:
        why = f"there is no {shell}, and sshd refuses an account whose shell does not exist: shell is not changed"
        plan = (*plan, Caution(name=name, why=why))
    change = ChangeIntent(
        name=user.name,
        shell=shell if shell and shell != there.shell and not absent else None,
        comment=comment if comment and comment != there.comment else None,
    )
    if change.shell is not None or change.comment is not None:
        backends = request.settings.user_provisioners.backends
        ways = tuple(CHANGE[backend](change, host=facts.host, accounts=accounts) for backend in backends)
        what = listed(tuple(key for key, value in (("shell", change.shell), ("gecos", change.comment)) if value))
        did = f"changed {what} of {user.name}"
        plan = (*plan, Step(name=name, why=f"has another {what}", did=did, ways=ways, failure=CustomDataFailed))
    done = ("groups", "shell", "gecos", "passwd", "create_groups")
    ignored = _ignored(user, there, accounts, keys=tuple(key for key in AT_CREATION if key not in done))
    return (*plan, *_cautions(user, ignored)), accounts


# ---- what an existing account does not get


def _ignored(user: UserAsked, there: Passwd, accounts: Accounts, *, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Settings that the account does not have already."""
    primary = next((group.name for group in accounts.groups if group.gid == there.gid), "")
    same = {
        "gecos": there.comment == user.text("gecos"),
        "homedir": there.home.rstrip("/") == user.text("homedir").rstrip("/"),
        "shell": there.shell == user.text("shell"),
        "uid": str(there.uid) == user.text("uid"),
        "primary_group": user.text("primary_group") in (primary, str(there.gid)),
        "groups": accounts.groups_of(user.name).issuperset(user.words("groups")),
        "create_groups": True,
        "no_log_init": True,
        "no_user_group": not user.flag("no_user_group") or primary != user.name,
        "no_create_home": not user.flag("no_create_home") or accounts.home(there.home) is None,
        "system": user.flag("system") == (there.uid < accounts.policy.uid_min),
        "passwd": not user.text("passwd") or takes_passwd(user, accounts),
    }
    return tuple(key for key in keys if user.get(key) is not None and not same.get(key, False))


def _cautions(user: UserAsked, keys: tuple[str, ...]) -> Plan:
    return tuple(
        Caution(
            name=named(MODULE, user.settings[key], f"{key} of {user.name}"),
            why="the account exists, and this counts for a new account only: not applied",
        )
        for key in keys
    )
