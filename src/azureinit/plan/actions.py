"""The vocabulary of plans: data without methods. The executor carries each action out."""

from __future__ import annotations

from azureinit.errors import StepFailed
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from azureinit.record import Secret


class Run(Record):
    """A program, by name; a secret reaches it only through `stdin`.

    `makes`: a file that it makes and never overwrites. If it fails and the file exists, another program made it: the
    plan is stale. `changes`: it may change files that this plan does not name, so whole file systems are synced before
    Ready. `output`: the log file for its output, which goes nowhere else. `cleanup`: commands that end the
    processes of an earlier or late run; they run before the start and after the timeout, and may fail. `env`: more
    variables; an empty value takes one away. `progress`: a file to which the program writes what it does, a line each;
    a failure quotes the last one.
    `says`: how lines in `output` begin that say why it failed; a failure quotes them, and without any the last line.
    `busy`: texts in `output` where another program holds a lock; it is started again, until the timeout.
    """

    argv: tuple[str, ...]
    stdin: Secret | None = None
    timeout: float = 60.0
    makes: str | None = None
    changes: bool = True
    output: str | None = None
    cleanup: tuple[tuple[str, ...], ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    progress: str | None = None
    says: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


class Write(Record):
    """A whole file. Unset mode and owner stay as they were (0644 and the caller's for a new file).

    `was`: the content that the planner saw; a different one at the time of writing stops the step. `check` runs after
    the write; if it fails the old content is restored. `beneath`: no link is followed below that directory. With
    `unsynced` it is on the disk only when all that was done is synced: for a file that is written again if lost."""

    path: str
    data: bytes | Secret
    mode: int | None = None
    owner: str | None = None
    beneath: str | None = None
    was: bytes | Secret | None = None
    check: Run | None = None
    unsynced: bool = False


class MakeDir(Record):
    """A directory with that mode and owner, made or corrected; its parent exists.

    `kept`: an existing one stays as it is.
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
    """`whole`: also a directory, with its content on the same file system."""

    path: str
    whole: bool = False


class SetHostname(Record):
    """The running kernel's host name."""

    name: str


class EditLine(Record):
    """One line of a colon-separated file, found by its first field.

    With `line`: append it; the key must be absent, and no other line may hold its `unique`th field's value.
    With `fields`: set those fields (index, value). With `member`: add it to the comma list in the last field.
    With `gone`: remove the line, or, with `member`, that name from its lists. What is absent already is no error.
    """

    path: str
    key: str
    line: str | Secret | None = None
    unique: int | None = None
    fields: tuple[tuple[int, str | Secret], ...] = ()
    member: str | None = None
    gone: bool = False


class Locked(Record):
    """Edits of the account files under both kinds of lock. Each file is replaced atomically; `file-` is the old one.

    `first`: actions under the same locks, after the check that no edit is stale: a home is made for a uid, which must
    still be free.
    """

    edits: tuple[EditLine, ...]
    first: tuple[Action, ...] = ()


class Untouched(Record):
    """A device as the planner saw it: `digest` is over the bytes of `regions`, (offset, length) each.

    `sequence`: the kernel's number of that disk, which no other disk gets in this boot; 0 where it is not known. A disk
    that takes over a name would otherwise pass for the one that was seen, if both are blank and of one size.
    """

    path: str
    size: int
    regions: tuple[tuple[int, int], ...]
    digest: str
    sequence: int = 0


class OnDevices(Record):
    """Run a program that writes to devices, only if each is still as the planner saw it.

    Everything written so far is made durable first. Then each device is locked against udev's probing, opened
    exclusively and read again; one that is in use, or differs, stops the step before anything is written. `mark`: a
    file that says that the write begins; it is made durable after the check and before the program starts. `unmark`:
    the same file as it was; it is written if the program fails and the devices are unchanged, or another program uses
    one of them. A path may be named several times.
    """

    devices: tuple[Untouched, ...]
    run: Run
    mark: Write | None = None
    unmark: Write | None = None


class Post(Record):
    """Send a form to a URL, until it is accepted. `shown`: the URL without what may be a secret.

    Each try has `timeout` seconds; `pause` seconds lie between two.
    """

    url: Secret
    shown: str
    form: Secret
    tries: int
    pause: float = 3.0
    timeout: float = 10.0


class EditLink(Record):
    """Addresses of a link in the running kernel, as /32 or /128, and routing rules that are removed.

    The link is found by its MAC address and index; if it has changed since it was seen, the plan is stale. What is
    there already, or absent already, is no error. `rules`: source, prefix, table and priority each.
    """

    name: str = ""  # empty: rules alone
    index: int = 0
    mac: str = ""
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    rules: tuple[tuple[str, int, int, int], ...] = ()


class Way(Record):
    """One backend's answer."""

    backend: str
    actions: tuple[Action, ...]


class Declined(Record):
    """A backend that cannot do it here, and why."""

    backend: str
    why: str


class Step(Record):
    """One thing that can fail; its ways are tried in order. `once`: facts cannot see it, so the journal decides.

    `did`: the log message after success.
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
    """Without privileges it cannot be seen whether there is anything to do, and why. A run stops here."""

    name: str
    why: str


class Caution(Record):
    """Something wrong, or asked for and not done, that does not stop the rest; and why."""

    name: str
    why: str


if TYPE_CHECKING:
    Action = Union[Run, Write, MakeDir, Link, Remove, SetHostname, EditLine, Locked, OnDevices, Post, EditLink]
    Item = Union[Step, Satisfied, Unknown, Caution]
    Plan = tuple[Item, ...]


def work_left(plan: Plan) -> tuple[Step, ...]:
    return tuple(item for item in plan if isinstance(item, Step))


def impossible_steps(plan: Plan) -> tuple[Step, ...]:
    """Those that every backend declines."""
    return tuple(step for step in work_left(plan) if all(isinstance(way, Declined) for way in step.ways))
