"""Root's password made unusable, without a copy of the old hash that could be restored. Keys still work."""

from __future__ import annotations

from azureinit.backends.account import NO_PASSWORD
from azureinit.backends.password import SET, PasswordIntent
from azureinit.errors import PasswordFailed
from azureinit.facts.gather import OLD_SHADOW
from azureinit.plan.actions import Caution, Remove, Satisfied, Step, Way
from azureinit.record import Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host
    from azureinit.plan.actions import Declined, Item

NAME = "password root"
FORGET = Remove(path=OLD_SHADOW)


def plan_root_lock(*, host: Host, accounts: Accounts, old_root: Secret | None, config: Config, today: int) -> Item:
    fields = accounts.shadow_fields("root") or ()
    field = fields[1] if len(fields) > 1 else None
    if field is None and "/etc/shadow" not in accounts.unreadable:
        return Caution(name=NAME, why="is to be locked, but /etc/shadow has no entry for root: nothing to lock")
    if field is not None and _is_gone(field):
        return _plan_old(old_root)
    intent = PasswordIntent(name="root", field=Secret(NO_PASSWORD), today=today)
    ways = tuple(
        _without_backup(SET[backend](intent, host=host, accounts=accounts))
        for backend in config.password_provisioners.backends
    )
    did = "locked root's password"
    return Step(name=NAME, why="is to be locked", did=did, ways=ways, failure=PasswordFailed)


def _without_backup(way: Way | Declined) -> Way | Declined:
    """Tools that edit /etc/shadow leave the old file beside it, with the old hash."""
    return replace(way, actions=(*way.actions, FORGET)) if isinstance(way, Way) else way


def _plan_old(field: Secret | None) -> Item:
    """An interrupted run may have left the backup."""
    if field is None or _is_gone(field):
        return Satisfied(name=NAME, why="is locked already")
    way = Way(backend="native", actions=(FORGET,))
    why, did = f"is locked, but {OLD_SHADOW} has the old hash", f"removed {OLD_SHADOW}, which held root's old password"
    return Step(name=NAME, why=why, did=did, ways=(way,), failure=PasswordFailed)


def _is_gone(field: Secret) -> bool:
    """Whether there is no hash at all: one behind a `!` works again once the account is unlocked."""
    text = field.reveal()
    bare = text.lstrip(b"!")
    return bool(text) and (not bare or bare.startswith(b"*"))
