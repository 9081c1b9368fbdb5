"""The vocabulary: everything a plan can say. Data without methods; the executor knows how each is done."""

from __future__ import annotations

from azureinit.errors import StepFailed
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from azureinit.record import Secret


class Run(Record):
    """A program, by name; `stdin` is the only way a secret reaches it.

    `makes`: a file it makes and never overwrites. One that is there when it fails is somebody else's: a stale plan.
    `changes`: it may change files that this plan does not name, so that whole file systems are synced before Ready.
    `output`: a log of its own for what it says, which nobody else is told. `unit`: it lives there; what still does when
    it is started or has taken too long is ended.
    """

    argv: tuple[str, ...]
    stdin: Secret | None = None
    timeout: float = 60.0
    makes: str | None = None
    changes: bool = True
    output: str | None = None
    unit: str | None = None


class Write(Record):
    """A whole file. Unset mode and owner stay as they were (0644 and ours for a new one).

    `was` is what the planner saw: another content at the time of writing stops the step. `check` runs after the
    write; if it fails the old bytes are put back. `beneath`: no link is followed below that directory."""

    path: str
    data: bytes | Secret
    mode: int | None = None
    owner: str | None = None
    beneath: str | None = None
    was: bytes | Secret | None = None
    check: Run | None = None


class MakeDir(Record):
    """A directory with that mode and owner, made or corrected; its parent exists.

    `kept`: one that is there stays as it is.
    """

    path: str
    mode: int
    owner: str | None = None
    beneath: str | None = None
    kept: bool = False


class Link(Record):
    path: str
    target: str
    owner: str | None = None
    beneath: str | None = None


class Remove(Record):
    """`whole`: a directory too, with everything in it that lies on the same file system."""

    path: str
    whole: bool = False


class SetHostname(Record):
    """The running kernel's host name."""

    name: str


class EditLine(Record):
    """One line of a colon-separated file, found by its first field.

    With `line`: append it; the key must be absent, and no other line may hold its `unique`th field's value.
    With `fields`: set those fields (index, value). With `member`: add it to the comma list in the last field.
    With `gone`: without that line, or, with `member`, without that name in its lists. What is gone already stays so.
    """

    path: str
    key: str
    line: str | Secret | None = None
    unique: int | None = None
    fields: tuple[tuple[int, str | Secret], ...] = ()
    member: str | None = None
    gone: bool = False


class Locked(Record):
    """Edits of the account files under both kinds of lock, each file replaced whole, its old self kept as `file-`.

    `first`: done under the same locks, once it is certain that no edit is stale; a home belongs to a number, and that
    number has to be free still.
    """

    edits: tuple[EditLine, ...]
    first: tuple[Action, ...] = ()


class Way(Record):
    """One backend's answer."""

    backend: str
    actions: tuple[Action, ...]


class Declined(Record):
    """A backend that will not do it here, and why."""

    backend: str
    why: str


class Step(Record):
    """One thing that can fail: its ways are tried in order. `once`: facts cannot see it, so the journal decides.

    `did`: the sentence in the log when it is done.
    """

    name: str
    why: str
    ways: tuple[Way | Declined, ...]
    did: str = ""
    once: bool = False
    failure: type[StepFailed] = StepFailed


class Satisfied(Record):
    """Nothing to do, and the reason."""

    name: str
    why: str


class Unknown(Record):
    """Whether there is anything to do cannot be told without privileges, and why. A run does not go on with it."""

    name: str
    why: str


class Caution(Record):
    """Something that was asked for and will not be done, and why that does not stop the rest."""

    name: str
    why: str


if TYPE_CHECKING:
    Action = Union[Run, Write, MakeDir, Link, Remove, SetHostname, EditLine, Locked]
    Item = Union[Step, Satisfied, Unknown, Caution]
    Plan = tuple[Item, ...]


def work_left(plan: Plan) -> tuple[Step, ...]:
    return tuple(item for item in plan if isinstance(item, Step))
