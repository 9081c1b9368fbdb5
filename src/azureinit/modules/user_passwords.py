"""The password of an account in `users`: set, locked or unlocked."""

from __future__ import annotations

from azureinit.backends.password import SET, PasswordIntent, print_on_console
from azureinit.errors import CustomDataFailed
from azureinit.facts.users import Plain
from azureinit.modules.steps import named, refused, where
from azureinit.plan.actions import Caution, Satisfied, Step, Unknown, Way
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.modules.users_asked import UserAsked
    from azureinit.plan.actions import Item, Plan

LOCK = b"!"
NEW = "!"  # of a new account, as useradd and `passwd --lock` leave it
PLAIN, HASHED, AT_CREATION = "plain_text_passwd", "hashed_passwd", "passwd"


class Setting(Record):
    """A new content of a password field."""

    name: str  # of the step
    account: str
    field: Secret
    why: str
    did: str
    expired: bool = False


def plain_password(user: UserAsked) -> Plain | None:
    """The password that has to be hashed before the plan is made."""
    text = user.text(PLAIN)
    if not text or user.text(HASHED) or not _is_one_line(text):
        return None
    return Plain(key=f"users {user.name}", account=user.name, text=Secret(text))


def wrong_passwords(user: UserAsked) -> Plan:
    """Refusals of values that /etc/shadow cannot hold."""
    wrong = []
    for key in (PLAIN, HASHED, AT_CREATION):
        node, text = user.get(key), user.text(key)
        if node is not None and (not _is_one_line(text) or (key != PLAIN and ":" in text)):
            name = named("users_groups", node, f"password of {user.name}")
            reason = f"{where(node)} is no password that an account can have"
            wrong.append(refused(name, "it has a line break, a NUL byte or a colon", reason=reason))
    return tuple(wrong)


def plan_user_password(
    user: UserAsked, request: Request, facts: Users, accounts: Accounts, *, new: bool, admin: bool
) -> Plan:
    """`lock_passwd` is true by default, except for the admin."""
    name = named("users_groups", user.node, f"password of {user.name}")
    lock = user.flag("lock_passwd", default=not admin)
    keys = (HASHED, PLAIN, AT_CREATION) if new or admin or takes_passwd(user, accounts) else (HASHED, PLAIN)
    said = next((key for key in keys if user.get(key) is not None), None)
    notes: list[Item] = []
    if said == PLAIN and not request.compatible:  # a warning is exit status 2 of `cloud-init status`
        notes.append(Caution(name=name, why=f"{PLAIN} can be read in the VM's customData: use {HASHED}"))
    if said is not None and user.text(said):
        field = facts.hashes.get(f"users {user.name}") if said == PLAIN else Secret(user.text(said))
        if field is None:
            return tuple(notes)
        if said != PLAIN and not is_hash(field):
            notes.append(Caution(name=name, why=f"{said} is no hash of a password: no password will be accepted"))
        locked = Secret(LOCK + field.reveal()) if lock else field
        did = f"set the password of {user.name}" + (", locked" if lock else "")
        if lock and not request.compatible:
            notes.append(Caution(name=name, why="lock_passwd is true: the password is set, and not accepted"))
        setting = Setting(name=name, account=user.name, field=locked, why="was given", did=did)
        return (*notes, plan_setting(setting, request, facts, accounts))
    if lock:
        return (*notes, *_plan_lock(name, user, request, facts, accounts, new=new))
    if said is not None:
        notes.append(Caution(name=name, why=f"{said} is empty: anybody can log in on the console as {user.name}"))
        did = f"emptied the password of {user.name}"
        setting = Setting(name=name, account=user.name, field=Secret(""), why="is to be empty", did=did)
        return (*notes, plan_setting(setting, request, facts, accounts))
    return _plan_unlock(name, user, request, facts, accounts)


def takes_passwd(user: UserAsked, accounts: Accounts) -> bool:
    """Whether `passwd`, which is for new accounts, counts: also where a crash came before it, or after it."""
    text = user.text(AT_CREATION)
    return any(accounts.password_is(user.name, Secret(field)) for field in (NEW, text, f"!{text}"))


def _plan_lock(name: str, user: UserAsked, request: Request, facts: Users, accounts: Accounts, *, new: bool) -> Plan:
    state = accounts.password_state(user.name)
    if new or state in ("none", "locked"):
        return (Satisfied(name=name, why="is unusable already" if not new else "the new account has none"),)
    fields = accounts.shadow_fields(user.name)
    if fields is None or len(fields) < 2:
        return (Unknown(name=name, why="/etc/shadow cannot be read, or has no entry for the account"),)
    field = Secret(LOCK + fields[1].reveal())
    did = f"locked the password of {user.name}"
    setting = Setting(name=name, account=user.name, field=field, why="is to be locked", did=did)
    return (plan_setting(setting, request, facts, accounts),)


def _plan_unlock(name: str, user: UserAsked, request: Request, facts: Users, accounts: Accounts) -> Plan:
    if user.get("lock_passwd") is None:
        return ()
    fields = accounts.shadow_fields(user.name)
    field = fields[1].reveal() if fields is not None and len(fields) > 1 else b""
    bare = field.lstrip(LOCK)
    if not bare or bare.startswith(b"*"):
        return (Caution(name=name, why="lock_passwd is false, but no password is given and the account has none"),)
    if bare == field:
        return (Satisfied(name=name, why="is not locked"),)
    did = f"unlocked the password of {user.name}"
    setting = Setting(name=name, account=user.name, field=Secret(bare), why="is to be unlocked", did=did)
    return (plan_setting(setting, request, facts, accounts),)


def plan_setting(
    setting: Setting, request: Request, facts: Users, accounts: Accounts, *, shown: Secret | None = None
) -> Item:
    """`shown`: text for the console. It is written first: a password that is set and was not shown is lost."""
    fields = accounts.shadow_fields(setting.account)
    expired = fields is not None and fields[2:3] == (Secret("0"),)
    if accounts.password_is(setting.account, setting.field) and expired >= setting.expired:
        return Satisfied(name=setting.name, why="is the one that was given")
    if setting.name in request.done:
        return Satisfied(name=setting.name, why="was set by an earlier run")
    if accounts.user(setting.account) is None:
        return refused(setting.name, f"there is no account {setting.account}", reason=setting.why)
    intent = PasswordIntent(name=setting.account, field=setting.field, today=request.today, expired=setting.expired)
    backends = request.settings.password_provisioners.backends
    ways = tuple(SET[backend](intent, host=facts.host, accounts=accounts) for backend in backends)
    if shown is not None:
        console = print_on_console(shown)
        ways = tuple(replace(way, actions=(console, *way.actions)) if isinstance(way, Way) else way for way in ways)
    return Step(name=setting.name, why=setting.why, did=setting.did, ways=ways, once=True, failure=CustomDataFailed)


def is_hash(field: Secret) -> bool:
    """Whether any password can match it: a method of crypt(3), or the 13 letters of the oldest one."""
    text = field.reveal()
    return (text[:1] in (b"$", b"_") and len(text) > 12) or len(text) == 13


def _is_one_line(text: str) -> bool:
    return not set(text) & set("\n\r\0")
