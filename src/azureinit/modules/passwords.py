"""`password`, `chpasswd` and `ssh_pwauth`."""

from __future__ import annotations

from azureinit.errors import CustomDataFailed
from azureinit.facts.users import Plain
from azureinit.modules.steps import ON_TREE, named, refused, where
from azureinit.modules.user_passwords import LOCK, Setting, is_hash, plan_setting
from azureinit.modules.users_asked import FALSE, TRUE, flag_of, lines_of, text_of
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.plan.sshd import plan_sshd
from azureinit.pubkey import key_identity, options_of
from azureinit.record import Record, Secret, replace
from azureinit.userdata.node import FLAG, LIST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Item, Plan
    from azureinit.userdata.node import Node

MODULE = "set_passwords"
HASH, TEXT, RANDOM = "hash", "text", "RANDOM"
# In the older list, where the kind is not said. cloud-init takes the last four for plain passwords.
HASHES = ("$1$", "$2a$", "$2y$", "$5$", "$6$", "$y$", "$gy$", "$7$", "$2b$")


class Given(Record):
    """One password of the document. `key` finds its hash among the facts."""

    key: str
    account: str
    node: Node
    kind: str
    text: Secret


def given_passwords(request: Request) -> tuple[Given, ...]:
    """In their order; where an account is named twice, the last one counts, as with chpasswd."""
    config = request.config
    chpasswd = config.get("chpasswd")
    found: list[tuple[str, Node, str, str]] = []
    for item in _users(chpasswd):
        kind = text_of(item.get("type")) or HASH
        password = item.get("password")
        found.append((text_of(item.get("name")), item, kind if password is not None else RANDOM, text_of(password)))
    for line, node in _listed(chpasswd):
        account, colon, text = line.partition(":")
        # Without a colon the line may be a password: it is not shown as a name.
        found.append((account.strip() if colon else "", node, _kind_of(text), text))
    single = config.get("password")
    if not found and single is not None and text_of(single) and request.metadata.username:
        # cloud-init reads it like a line of the older list.
        text = text_of(single)
        found.append((request.metadata.username, single, _kind_of(text), text))
    return tuple(
        Given(key=f"{MODULE} {at}", account=account, node=node, kind=kind, text=Secret(text))
        for at, (account, node, kind, text) in enumerate(found)
    )


def _users(chpasswd: Node | None) -> tuple[Node, ...]:
    users = chpasswd.get("users") if chpasswd is not None else None
    return users.items() if users is not None else ()


def _listed(chpasswd: Node | None) -> tuple[tuple[str, Node], ...]:
    node = chpasswd.get("list") if chpasswd is not None else None
    if node is None:
        return ()
    if node.kind == LIST:
        return lines_of(node)
    return tuple((line, node) for line in text_of(node).splitlines() if line.strip())


def _kind_of(password: str) -> str:
    if password in ("R", RANDOM):
        return RANDOM
    return HASH if password.startswith(HASHES) and password.count("$") > 2 and ":" not in password else TEXT


def expires(request: Request, account: str) -> bool:
    """Whether the password must be changed at the next login: the default, except for the admin.

    Until then sshd refuses every login without a terminal, also with a key: the admin's must work at once.
    """
    chpasswd = request.config.get("chpasswd")
    default = account != request.metadata.username
    return flag_of(chpasswd.get("expire") if chpasswd is not None else None, default=default)


def to_hash(request: Request) -> tuple[Plain, ...]:
    """Passwords that have to be hashed, or made up, before the plan is made."""
    given = (one for one in given_passwords(request) if one.kind != HASH and not _problem(one))
    return tuple(
        Plain(key=one.key, account=one.account, text=None if one.kind == RANDOM else one.text)
        for one in given
        if one.kind != RANDOM or not request.rooted
    )


def plan_passwords(request: Request, facts: Users) -> Plan:
    given = given_passwords(request)
    refusals = tuple(
        refused(named(MODULE, one.node, one.account), _problem(one), reason=f"{where(one.node)} sets no password")
        for one in given
        if _problem(one)
    )
    if refusals:
        return refusals
    last = {one.account: one.key for one in given}
    plan: list[Item] = []
    for one in given:
        if last[one.account] == one.key:
            plan += _plan_password(one, request, facts)
    password = request.config.get("password")
    if password is not None and not given:
        none = "is empty" if request.metadata.username else "has no account: the platform asks for no admin"
        why = f"it {none}: the password is not set"
        plan.append(Caution(name=named(MODULE, password, "password"), why=why))
    return (*plan, *_plan_pwauth(request, facts))


def _problem(one: Given) -> str:
    text = one.text.text()
    if not one.account:
        return "it names no account: a line of chpasswd.list is NAME:PASSWORD"
    if set(one.account) & set(":\n\r\0"):
        return "the account's name has a colon or a line break"
    if one.kind == RANDOM:
        return ""
    if not text:
        return "the password is empty"
    if set(text) & set("\n\r\0") or (one.kind == HASH and ":" in text):
        return "it has a line break, a NUL byte or a colon"
    return ""


def _plan_password(one: Given, request: Request, facts: Users) -> Plan:
    name = named(MODULE, one.node, one.account)
    if one.kind == RANDOM and request.rooted:
        return (Caution(name=name, why=f"a random password is shown on the console only: {ON_TREE}"),)
    field = one.text if one.kind == HASH else facts.hashes.get(one.key)
    if field is None:
        return (Caution(name=name, why="the password could not be hashed: not set"),)
    notes: Plan = ()
    if one.kind == HASH and not is_hash(Secret(field.reveal().lstrip(LOCK))):
        notes = (Caution(name=name, why="this is no hash of a password: no password will be accepted"),)
    if one.kind == TEXT and not request.compatible:  # a warning is exit status 2 of `cloud-init status`
        notes = (Caution(name=name, why="the password can be read in the VM's customData: give its hash"),)
    expired = expires(request, one.account)
    if expired and one.account == request.metadata.username:
        why = "chpasswd.expire is true: the admin cannot log in without a terminal before the password is changed"
        notes = (*notes, Caution(name=name, why=why))
    did = f"set the password of {one.account}" + (", to be changed at the next login" if expired else "")
    setting = Setting(name=name, account=one.account, field=field, why="was given", did=did, expired=expired)
    shown = facts.random.get(one.key)
    if shown is not None:
        shown = Secret(f"azure-init: random password of {one.account}: ".encode() + shown.reveal() + b"\r\n")
    return (*notes, plan_setting(setting, request, facts, facts.accounts, shown=shown))


# ---- sshd


def pwauth(request: Request) -> bool | None:
    """None: not asked for, or a value that means no change."""
    node = request.config.get("ssh_pwauth")
    if node is None or _is_outranked(node, request):
        return None
    if node.kind == FLAG:
        return bool(node.value)
    word = text_of(node).strip().lower()
    return word in TRUE if word in TRUE + FALSE else None


def _is_outranked(node: Node, request: Request) -> bool:
    """The platform's setting counts more than the image's configuration, which is named by its path."""
    return node.part.startswith("/") and request.metadata.disable_password is not None


def _has_key(request: Request, facts: Users) -> bool:
    """Whether the admin has a key without a password: the platform's, or one that the modules before have written."""
    admin = request.metadata.username
    if not admin or request.metadata.keys:
        return True
    files = facts.key_files.get(admin)
    lines = [line for file in files.keys_files for line in (file.data or b"").split(b"\n")] if files else []
    texts = (line.decode("utf-8", "replace") for line in lines)
    return any(key_identity(line) is not None and not options_of(line) for line in texts)


def _plan_pwauth(request: Request, facts: Users) -> Plan:
    """In the file that the run writes for the platform's setting: the last one that is written counts."""
    node = request.config.get("ssh_pwauth")
    if node is None:
        return ()
    name = named(MODULE, node, "ssh_pwauth")
    wanted = pwauth(request)
    if _is_outranked(node, request):
        return (Satisfied(name=name, why="the platform's setting counts more than the image's configuration"),)
    if wanted is None and text_of(node).strip().lower() not in ("unchanged", ""):
        return (Caution(name=name, why="is neither true, false nor unchanged: sshd's setting stays as it is"),)
    if wanted is None:
        return ()
    if not wanted and not _has_key(request, facts):
        why = f"{request.metadata.username} has no key yet, and would not be able to log in"
        return (refused(name, why, reason="must refuse passwords"),)
    plan = plan_sshd(allow_password=wanted, host=facts.host, ssh=facts.ssh, config=request.settings)
    return tuple(
        replace(item, name=name, failure=CustomDataFailed) if isinstance(item, Step) else replace(item, name=name)
        for item in plan
    )
