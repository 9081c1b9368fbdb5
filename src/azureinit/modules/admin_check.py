"""Whether a document would take the platform's admin its login, its name or its rights. Checked before any module.

The platform was told, or will be told, that this account can log in: such a document is refused as a whole.
"""

from __future__ import annotations

from azureinit.facts.access import REFUSING
from azureinit.modules.passwords import HASH, expires, given_passwords, pwauth
from azureinit.modules.steps import refused, where
from azureinit.modules.user_keys import free_keys
from azureinit.modules.user_passwords import is_hash
from azureinit.modules.users_asked import asked_users, flag_of, lines_of
from azureinit.modules.write_files import content_of, entries_of
from azureinit.pubkey import key_identity
from azureinit.record import Secret
from azureinit.userdata.decoding import TooLarge, Undecodable
from azureinit.userdata.values import MOST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.facts.users import Users
    from azureinit.modules.request import Request
    from azureinit.modules.users_asked import UserAsked
    from azureinit.modules.write_files import Entry
    from azureinit.plan.actions import Plan

NAME = "admin_check"
ACCOUNT_FILES = ("/etc/passwd", "/etc/shadow")
KEY_FILE = "authorized_keys"


def plan_admin_check(request: Request, facts: Users) -> Plan:
    found = admin_conflicts(request, facts)
    if not found:
        return ()
    name = f"{NAME} {request.metadata.username}"
    return (refused(name, "; ".join(found), reason="customData must leave the platform's admin its login"),)


def admin_conflicts(request: Request, facts: Users) -> tuple[str, ...]:
    """Each conflict with its line. Empty where the platform asks for no admin."""
    admin = request.metadata.username
    if not admin:
        return ()
    asked = asked_users(request.config, admin)
    own = asked.admin
    redirected = own is not None and own.flag("ssh_redirect_user")
    # Those that are there before the password is locked; and those that are there before sshd's setting is changed.
    early = not redirected and (bool(request.metadata.keys) or bool(own and free_keys(own.get("ssh_authorized_keys"))))
    keys = early or (not redirected and bool(free_keys(request.config.get("ssh_authorized_keys"))))
    found: list[str] = []
    user = request.config.get("user")
    if asked.renamed and user is not None:
        found.append(f"{where(user)}: user names another admin than the platform's, which is {admin}")
    if own is not None:
        found += _of_account(own, admin, keys=early)
    found += _of_login(request, facts, admin, keys=keys)
    found += [
        f"{where(entry.node)}: write_files replaces {entry.path}, and with it the account {admin}: write `users`"
        for entry in replaced_account_files(request)
    ]
    found += [
        f"{where(entry.node)}: write_files replaces {entry.path} without the key of {admin}: write `append: true`, or "
        "ssh_authorized_keys"
        for entry in replaced_key_files(request)
        if entry.path in facts.key_paths and not has_given_key(request, entry)
    ]
    return tuple(dict.fromkeys(found))


def replaced_account_files(request: Request) -> tuple[Entry, ...]:
    return tuple(entry for entry in _replacing(request) if entry.path in ACCOUNT_FILES)


def replaced_key_files(request: Request) -> tuple[Entry, ...]:
    """Of any account. Files of other names are looked at before Ready."""
    return tuple(entry for entry in _replacing(request) if KEY_FILE in entry.path) if request.metadata.keys else ()


def _replacing(request: Request) -> tuple[Entry, ...]:
    entries = (*entries_of(request, deferred=False), *entries_of(request, deferred=True))
    return tuple(entry for entry in entries if not entry.append)


def has_given_key(request: Request, entry: Entry) -> bool:
    """Also true where the content cannot be decoded: then nothing is written."""
    try:
        lines = content_of(request, entry.node, limit=MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (Undecodable, TooLarge):
        return True
    given = {key_identity(key.data) for key in request.metadata.keys} - {None}
    return any(key_identity(line) in given for line in lines)


def _of_account(own: UserAsked, admin: str, *, keys: bool) -> Iterator[str]:
    """The settings of the admin's own account."""
    lock, shell, sudo = own.get("lock_passwd"), own.get("shell"), own.get("sudo")
    if lock is not None and own.flag("lock_passwd") and not keys:
        yield f"{where(lock)}: lock_passwd locks the password of {admin}, and there is no key"
    if shell is not None and own.text("shell").rpartition("/")[2] in REFUSING:
        yield f"{where(shell)}: the shell {own.text('shell')} ends every login of {admin}"
    rules = [text for text, place in lines_of(sudo) if place.value is not False]
    if sudo is not None and not rules:
        yield f"{where(sudo)}: sudo is to be taken from {admin}"
    if sudo is not None and any(rule.replace(" ", "").endswith("!ALL") for rule in rules):
        yield f"{where(sudo)}: a rule forbids {admin} every command"
    redirect = own.get("ssh_redirect_user")
    if redirect is not None and own.flag("ssh_redirect_user"):
        yield f"{where(redirect)}: ssh_redirect_user ends every login of {admin} with a key"
    for key in ("hashed_passwd", "passwd"):
        node, text = own.get(key), own.text(key)
        if node is not None and not keys and not is_hash(Secret(text)):
            yield f"{where(node)}: {key} is no hash of a password, and {admin} has no key"
    snap = own.get("snapuser")
    if snap is not None:
        yield f"{where(snap)}: snapuser makes another account of {admin}"


def _of_login(request: Request, facts: Users, admin: str, *, keys: bool) -> Iterator[str]:
    config = request.config
    disabled = config.get("disable_root")
    if admin == "root" and disabled is not None and flag_of(disabled):
        yield f"{where(disabled)}: disable_root refuses root, and root is the admin"
    pwauth_node = config.get("ssh_pwauth")
    if pwauth_node is not None and pwauth(request) is False and not keys:
        yield f"{where(pwauth_node)}: ssh_pwauth refuses passwords, and {admin} has no key"
    for one in given_passwords(request):
        if one.account != admin or keys:
            continue
        if expires(request, admin):
            yield (
                f"{where(one.node)}: the password of {admin} expires at once, and there is no key: "
                "set chpasswd.expire to false"
            )
        if one.kind == HASH and not is_hash(one.text):
            yield f"{where(one.node)}: this is no hash of a password, and {admin} has no key"
    there = facts.accounts.user(admin)
    for user in asked_users(config, admin).users:
        uid = user.get("uid")
        if uid is not None and there is not None and user.text("uid") == str(there.uid):
            yield f"{where(uid)}: the number {there.uid} is that of {admin}"
