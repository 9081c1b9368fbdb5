"""Edits of colon-separated account files: old bytes in, new bytes out."""

from __future__ import annotations

from azureinit.errors import LocalError, PlanStale
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.plan.actions import EditLine

MEMBERS = 3  # of the four fields in group and gshadow
ADMINISTRATORS = 2  # in gshadow; in group this field is the GID
NIS = (b"+", b"-")
NOBODYS = (*NIS, b"#", b":", b"")


def edited(old: bytes, edits: Iterable[EditLine], *, path: str) -> bytes:
    """The file after all edits, in order. PlanStale if it is not the file that the edits were made for.

    `path`: the file as errors name it, with the root.
    """
    lines = old.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for edit in edits:
        if edit.gone:
            lines = _without(lines, edit)
        elif edit.line is not None:
            _append(lines, edit, edit.line, path)
        else:
            at = _find(lines, edit)
            if at is None:
                raise PlanStale(f"{path} has no {edit.key!a} any more", path=path)
            lines[at] = _changed(lines[at], edit, path)
    return b"".join(line + b"\n" for line in lines)


def _append(lines: list[bytes], edit: EditLine, line: str | Secret, path: str) -> None:
    new = _plain(edit, line, path, forbidden=b"\n\0")
    fields = new.split(b":")
    if fields[0] != edit.key.encode("utf-8", "surrogateescape") or new[:1] in NOBODYS:
        raise LocalError(f"refused to write {path}: the line is not one of {edit.key!a}", path=path)
    if _find(lines, edit) is not None:
        raise PlanStale(f"{path} has {edit.key!a} already", path=path)
    if edit.unique is not None:
        taken = fields[edit.unique]
        for other in (line.split(b":") for line in lines if line[:1] not in NOBODYS):
            if len(other) >= len(fields) and other[edit.unique] == taken:
                what = f"{taken.decode('ascii', 'replace')}, meant for {edit.key!a},"
                raise PlanStale(f"{path}: {what} was taken meanwhile", path=path)
    # NIS lines (+, -) end the local part of the file: new lines go above them.
    end = (at for at, other in enumerate(lines) if other[:1] in NIS)
    lines.insert(next(end, len(lines)), new)


def _changed(line: bytes, edit: EditLine, path: str) -> bytes:
    fields = line.split(b":")
    last = max([at for at, _ in edit.fields] + ([MEMBERS] if edit.member is not None else []))
    fields += [b""] * (last + 1 - len(fields))
    for at, value in edit.fields:
        fields[at] = _plain(edit, value, path, forbidden=b":\n\0")
    if edit.member is not None:
        member = _plain(edit, edit.member, path, forbidden=b",:\n\0")
        if member not in fields[MEMBERS].split(b","):
            fields[MEMBERS] = fields[MEMBERS] + b"," + member if fields[MEMBERS] else member
    return b":".join(fields)


def _without(lines: list[bytes], edit: EditLine) -> list[bytes]:
    prefix = edit.key.encode("utf-8", "surrogateescape") + b":"
    if edit.member is None:
        return [line for line in lines if not line.startswith(prefix)]
    first = ADMINISTRATORS if edit.path.endswith("/gshadow") else MEMBERS
    return [_left_by(line, edit.member, first=first) if line.startswith(prefix) else line for line in lines]


def _left_by(line: bytes, member: str, *, first: int) -> bytes:
    """A group's line with the name removed from its lists."""
    name = member.encode("utf-8", "surrogateescape")
    fields = line.split(b":")
    for at in range(first, len(fields)):
        fields[at] = b",".join(one for one in fields[at].split(b",") if one != name)
    return b":".join(fields)


def _find(lines: list[bytes], edit: EditLine) -> int | None:
    prefix = edit.key.encode("utf-8", "surrogateescape") + b":"
    return next((at for at, line in enumerate(lines) if line.startswith(prefix)), None)


def _plain(edit: EditLine, value: str | Secret, path: str, *, forbidden: bytes) -> bytes:
    """The value's bytes. Refuses a separator or line end in it, which would change other fields or lines."""
    data = value.reveal() if isinstance(value, Secret) else value.encode("utf-8", "surrogateescape")
    if set(data) & set(forbidden):
        raise LocalError(f"refused to write {path}: a value for {edit.key!a} holds a separator", path=path)
    return data
