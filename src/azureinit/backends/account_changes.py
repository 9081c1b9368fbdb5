"""The shell and the comment of an existing account: by usermod, or by its line in /etc/passwd."""

from __future__ import annotations

from azureinit.backends.account import why_no_files, why_no_tool
from azureinit.plan.actions import Declined, EditLine, Locked, Run, Way
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host

    class Change(Protocol):
        def __call__(self, intent: ChangeIntent, *, host: Host, accounts: Accounts) -> Way | Declined: ...


class ChangeIntent(Record):
    """None: stays as it is."""

    name: str
    shell: str | None = None
    comment: str | None = None


def usermod(intent: ChangeIntent, *, host: Host, accounts: Accounts) -> Way | Declined:  # noqa: ARG001
    why = why_no_tool("usermod", host)
    if why:
        return Declined(backend="usermod", why=why)
    said = {"--shell": intent.shell, "--comment": intent.comment}
    words = [word for option, value in said.items() if value is not None for word in (option, value)]
    return Way(backend="usermod", actions=(Run(argv=("usermod", *words, "--", intent.name)),))


def files(intent: ChangeIntent, *, host: Host, accounts: Accounts) -> Way | Declined:
    why = why_no_files(host=host, accounts=accounts)
    if why:
        return Declined(backend="files", why=why)
    said = ((4, intent.comment), (6, intent.shell))
    fields = tuple((index, value) for index, value in said if value is not None)
    edit = EditLine(path="/etc/passwd", key=intent.name, fields=fields)
    return Way(backend="files", actions=(Locked(edits=(edit,)),))


# By the names of [user_provisioners].
CHANGE: dict[str, Change] = {"useradd": usermod, "files": files}
