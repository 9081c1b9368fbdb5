"""The events of the ledger, and their form as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from fakeazure.platform.vm import Expect


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    t: float  # seconds since the ledger was opened

    name: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot(Event):
    """A machine starts. All events up to the next Boot belong to this boot."""

    number: int
    vm_id: str
    expect: Mapping[str, Any]
    pool: Mapping[str, str] = field(default_factory=dict)  # type, name, username of a VM that starts in the pool

    name = "boot"

    @property
    def expected(self) -> Expect:
        values = dict(self.expect)
        return Expect(**values | {name: tuple(values.get(name, ())) for name in ("says", "asks")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused(Event):
    """A customer takes the VM from its pool: from now on the platform has the customer's data."""

    vm_id: str
    pps_type: str

    name = "reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange(Event):
    """The platform changes a network interface of the machine."""

    text: str

    name = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Event):
    """What the machine's file system holds and must not: in the pool anything new, later anything of the pool's VM."""

    what: str
    in_pool: bool

    name = "found"


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaMade(Event):
    path: str
    format: str
    size: int

    name = "media"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ejected(Event):
    """The platform ejects the medium after a verdict."""

    path: str

    name = "ejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Event):
    """`status` None: no answer was sent. `fault`: the scripted answer, as written in the scenario."""

    service: str
    method: str
    target: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    status: int | None
    size: int = 0
    fault: str | None = None
    off_script: bool = False
    took: float = 0.0
    note: str = ""
    address: str = ""  # of the client
    nic: str = ""  # the MAC address of the machine's interface with that address
    secondary: bool = False  # not from the primary address of the primary interface: Azure does not accept that

    name = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChanged(Event):
    """The metadata are no longer those that the machine has read."""

    text: str  # what changes, and why now

    name = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Event):
    """A health report that the platform accepted. `acknowledged`: the machine got the answer."""

    kind: str  # ready, failed or progress
    description: str = ""
    acknowledged: bool = True
    agent: str = ""

    name = "told"

    KINDS: ClassVar[tuple[str, ...]] = ("ready", "failed", "progress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Event):
    """A DHCP or DHCPv6 message of the machine, with the host name in it, if any."""

    kind: str  # discover, request, inform or release; solicit is the discover of DHCPv6
    mac: str
    address: str = ""  # what the platform answered with
    hostname: str = ""

    name = "lease"

    KINDS: ClassVar[tuple[str, ...]] = ("discover", "solicit", "request", "inform", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login(Event):
    """The platform tried to log in over SSH. `text`: the error message."""

    how: str  # key, password, or both if each alone is refused
    user: str
    ok: bool
    text: str = ""
    of_pool: bool = False  # with the credentials of the pool's VM, which a customer's machine must refuse

    name = "login"

    BOTH: ClassVar[str] = "key and the password"
    WAYS: ClassVar[tuple[str, ...]] = ("key", "password", BOTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRead(Event):
    """The host reads the key-value pool. `late`: after the verdict, when a real host no longer reads."""

    path: str
    count: int  # new messages; a Kvp event follows for each
    late: bool = False
    problem: str = ""

    name = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kvp(Event):
    """One message in the key-value pool, of one record or several."""

    key: str
    value: str
    kind: str  # report, diagnostic, cloud-init or other
    text: str  # as a sentence
    late: bool = False
    cut: bool = False  # longer than the host's limit

    name = "kvp"

    KINDS: ClassVar[tuple[str, ...]] = ("report", "diagnostic", "cloud-init", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Event):
    """The command or the machine ended. `stopped`: fakeazure got a stop signal."""

    exit_code: int | None  # None: ended at the deadline
    of: str = "command"  # or machine, which also had DHCP
    stopped: bool = False

    name = "end"

    WHOSE: ClassVar[tuple[str, ...]] = ("command", "machine")


KINDS: dict[str, type[Event]] = {
    kind.name: kind
    for kind in (
        Boot,
        Reused,
        LinkChange,
        Found,
        MediaMade,
        Ejected,
        Request,
        MetadataChanged,
        Told,
        Lease,
        Login,
        PoolRead,
        Kvp,
        End,
    )
}

# Type annotation -> type, to check the fields of a line.
TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": int | float,
    "int | None": int | None,
    "str | None": str | None,
    "Mapping[str, str]": dict,
    "Mapping[str, Any]": dict,
}
NAMED = {
    "str": "a text",
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "int | None": "a number",
    "str | None": "a text",
    "Mapping[str, str]": "a table",
    "Mapping[str, Any]": "a table",
}
WORDS = {
    Told.name: {"kind": Told.KINDS},
    Lease.name: {"kind": Lease.KINDS},
    Login.name: {"how": Login.WAYS},
    Kvp.name: {"kind": Kvp.KINDS},
    End.name: {"of": End.WHOSE},
}


class LedgerInvalid(Exception):
    """Not a ledger; the text names the line and the reason."""


def to_line(event: Event) -> str:
    return json.dumps({"event": event.name, **asdict(event)}, ensure_ascii=False) + "\n"


def read_events(file: Path) -> tuple[Event, ...]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise LedgerInvalid(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LedgerInvalid(f"{file}: not a text file, so not a ledger") from None
    lines = text.split("\n")
    # An unfinished last line was being written when the platform was killed; it is ignored.
    events = tuple(parse_line(line, where=f"{file}:{number}") for number, line in enumerate(lines[:-1], 1) if line)
    if not events or not isinstance(events[0], Boot):
        raise LedgerInvalid(f"{file}: not a ledger: it does not begin with a boot")
    return events


def parse_line(line: str, *, where: str) -> Event:
    try:
        values = json.loads(line)
        kind = KINDS[values.pop("event")]
        if unknown := values.keys() - {one.name for one in fields(kind)}:
            raise LedgerInvalid(f"{where}: unknown {', '.join(sorted(unknown))}")
        event = kind(**values)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LedgerInvalid(f"{where}: not a line of a ledger") from None
    for one in fields(kind):
        if not isinstance(getattr(event, one.name), TYPES.get(str(one.type), object)):
            raise LedgerInvalid(f"{where}: {one.name} is not {NAMED[str(one.type)]}")
    check_words(event, where=where)
    return event


def check_words(event: Event, *, where: str) -> None:
    words = WORDS.get(event.name, {})
    for field_name, known in words.items():
        if (word := getattr(event, field_name)) not in known:
            raise LedgerInvalid(f"{where}: {field_name} {word!r} is not one of {', '.join(known)}")
    if isinstance(event, Boot) and not can_be_expected(event):
        raise LedgerInvalid(f"{where}: expect is not a valid expectation")


def can_be_expected(boot: Boot) -> bool:
    try:
        expected: Any = boot.expected
    except (TypeError, ValueError):
        return False
    return (
        expected.verdict in Expect.VERDICTS
        and isinstance(expected.within_secs, int | float)
        and all(isinstance(text, str) for text in (expected.reason, *expected.says, *expected.asks))
    )
