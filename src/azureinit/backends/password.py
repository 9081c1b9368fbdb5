"""Setting a password by its hash, which never appears in arguments; or making it unusable."""

from __future__ import annotations

from azureinit.backends.account import NO_PASSWORD, day_field, why_no_files, why_no_tool
from azureinit.plan.actions import Declined, EditLine, Locked, Run, Way
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host

    class Set(Protocol):
        def __call__(self, intent: PasswordIntent, *, host: Host, accounts: Accounts) -> Way | Declined: ...


class PasswordIntent(Record):
    """The new content of the password field: a hash, or NO_PASSWORD. `expired`: to be changed at the next login."""

    name: str
    field: Secret
    today: int
    expired: bool = False


def chpasswd(intent: PasswordIntent, *, host: Host, accounts: Accounts) -> Way | Declined:  # noqa: ARG001
    why = why_no_tool("chpasswd", host)
    if why:
        return Declined(backend="chpasswd", why=why)
    line = Secret(intent.name.encode() + b":" + intent.field.reveal() + b"\n")
    run = Run(argv=("chpasswd", "-e"), stdin=line)
    if not intent.expired:
        return Way(backend="chpasswd", actions=(run,))
    why = why_no_tool("passwd", host)
    if why:
        return Declined(backend="chpasswd", why=why)
    return Way(backend="chpasswd", actions=(run, Run(argv=("passwd", "--expire", intent.name))))


def files(intent: PasswordIntent, *, host: Host, accounts: Accounts) -> Way | Declined:
    why = why_no_files(host=host, accounts=accounts)
    if why:
        return Declined(backend="files", why=why)
    fields = ((1, intent.field), (2, "0" if intent.expired else day_field(intent.today)))
    edit = EditLine(path="/etc/shadow", key=intent.name, fields=fields)
    return Way(backend="files", actions=(Locked(edits=(edit,)),))


def passwd(intent: PasswordIntent, *, host: Host, accounts: Accounts) -> Way | Declined:  # noqa: ARG001
    """Azure's own agent locks accounts under this name. It cannot set a password."""
    if intent.field != Secret(NO_PASSWORD):
        return Declined(backend="passwd", why='it only locks: add "chpasswd" to password_provisioners.backends')
    why = why_no_tool("usermod", host) or ("it cannot expire a password" if intent.expired else "")
    if why:
        return Declined(backend="passwd", why=why)
    return Way(backend="passwd", actions=(Run(argv=("usermod", "--password", NO_PASSWORD, "--", intent.name)),))


def print_on_console(text: Secret) -> Run:
    """The only place where a random password is shown."""
    return Run(argv=("sh", "-c", "cat >/dev/console"), stdin=text, changes=False)


SET: dict[str, Set] = {
    "chpasswd": chpasswd,
    "files": files,
    "passwd": passwd,
}
