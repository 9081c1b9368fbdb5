"""The accounts as they will be once edits are made: one plan makes several accounts, each with a number of its own."""

from __future__ import annotations

from azureinit.facts.accounts import Group, Passwd
from azureinit.facts.policy import SubIds
from azureinit.record import Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.facts.accounts import Accounts
    from azureinit.plan.actions import EditLine


def accounts_after(accounts: Accounts, edits: Iterable[EditLine]) -> Accounts:
    """Lines that are added, members and fields of /etc/shadow. No edit of a plan for accounts removes anything."""
    for edit in edits:
        if edit.path == "/etc/shadow":
            accounts = replace(accounts, shadow=_secret_after(accounts.shadow, edit))
        elif edit.path == "/etc/gshadow":
            accounts = replace(accounts, gshadow=_secret_after(accounts.gshadow, edit))
        elif edit.member is not None:
            accounts = _with_member(accounts, edit.key, edit.member)
        elif isinstance(edit.line, str):
            accounts = _with_line(accounts, edit.path, edit.line.split(":"))
    return accounts


def _with_member(accounts: Accounts, group: str, member: str) -> Accounts:
    def joined(one: Group) -> Group:
        here = one.name != group or member in one.members
        return one if here else replace(one, members=(*one.members, member))

    return replace(accounts, groups=tuple(map(joined, accounts.groups)))


def _with_line(accounts: Accounts, path: str, row: list[str]) -> Accounts:
    if path == "/etc/passwd":
        return replace(accounts, users=(*accounts.users, Passwd.of_row(row)))
    if path == "/etc/group":
        return replace(accounts, groups=(*accounts.groups, Group(name=row[0], gid=int(row[2]), members=())))
    ids = SubIds(name=row[0], start=int(row[1]), count=int(row[2]))
    if path == "/etc/subuid":
        return replace(accounts, subuid=(*(accounts.subuid or ()), ids))
    return replace(accounts, subgid=(*(accounts.subgid or ()), ids))


def _secret_after(data: Secret | None, edit: EditLine) -> Secret | None:
    if data is None:
        return None
    lines = data.reveal().rstrip(b"\n").split(b"\n") if data else []
    if edit.line is not None:
        lines.append(_bytes(edit.line))
    prefix = edit.key.encode() + b":"
    for at, line in enumerate(lines):
        if line.startswith(prefix) and edit.fields:
            fields = line.split(b":")
            for index, value in edit.fields:
                fields[index : index + 1] = [_bytes(value)]
            lines[at] = b":".join(fields)
    return Secret(b"\n".join(lines) + b"\n")


def _bytes(value: str | Secret) -> bytes:
    return value.reveal() if isinstance(value, Secret) else value.encode()
