"""Creating a group: by groupadd, or by a line in the account files."""

from __future__ import annotations

from azureinit.backends.account import free_id, why_no_files, why_no_tool
from azureinit.plan.actions import Declined, EditLine, Locked, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from azureinit.facts.accounts import Accounts
    from azureinit.facts.host import Host

    class Make(Protocol):
        def __call__(self, name: str, *, host: Host, accounts: Accounts) -> Way | Declined: ...


def groupadd(name: str, *, host: Host, accounts: Accounts) -> Way | Declined:  # noqa: ARG001
    why = why_no_tool("groupadd", host)
    if why:
        return Declined(backend="groupadd", why=why)
    return Way(backend="groupadd", actions=(Run(argv=("groupadd", "--", name)),))


def files(name: str, *, host: Host, accounts: Accounts) -> Way | Declined:
    why = why_no_files(host=host, accounts=accounts)
    lines = group_lines(name, accounts)
    if why or not lines:
        policy = accounts.policy
        return Declined(backend="files", why=why or f"no group from {policy.gid_min} to {policy.gid_max} is free")
    return Way(backend="files", actions=(Locked(edits=lines),))


def group_lines(name: str, accounts: Accounts) -> tuple[EditLine, ...]:
    """Empty where no number is free. The number is the one that groupadd chooses."""
    taken = (group.gid for group in (*accounts.groups, *accounts.vendor_groups))
    gid = free_id(taken, low=accounts.policy.gid_min, high=accounts.policy.gid_max)
    if gid is None:
        return ()
    password = "!" if accounts.gshadow is None else "x"
    line = EditLine(path="/etc/group", key=name, line=f"{name}:{password}:{gid}:", unique=2)
    if accounts.gshadow is None or accounts.has_gshadow(name):
        return (line,)
    return (EditLine(path="/etc/gshadow", key=name, line=f"{name}:!::"), line)


# By the names of [user_provisioners].
MAKE: dict[str, Make] = {"useradd": groupadd, "files": files}
