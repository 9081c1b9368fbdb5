"""The provisioning report's content and size limits; kvp/report.py has its grammar."""

from __future__ import annotations

from azureinit.kvp.report import ALWAYS, ON_ERROR, PPS_TYPES, encode_fields
from azureinit.record import Record
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.errors import AzureInitError

AGENT = f"Azure-Init/{VERSION}"
DOCUMENTATION = "https://aka.ms/linuxprovisioningerror"
MAX_DESCRIPTION = 4096
MAX_POOLED = 1022
SHORTEST = 16  # letters of a value that is cut
CUT = "..."
LONGEST_KEY = 64
RESERVED = frozenset((*ALWAYS, *ON_ERROR))  # the report's own keys


class Subject(Record):
    """The VM that a report is about."""

    vm_id: str | None
    pps_type: str | None
    timestamp: str


def failure_report(
    error: AzureInitError, subject: Subject, extra: Mapping[str, str], *, limit: int, size: Callable[[str], int]
) -> str:
    head = {"result": "error", "reason": error.reason, "agent": AGENT}
    tail = {**_tail(subject), "documentation_url": DOCUMENTATION}
    return _fitting(head, _supporting({**error.supporting(), **extra}), tail, limit=limit, size=size)


def success_report(subject: Subject, doubts: tuple[str, ...] = (), failures: tuple[str, ...] = ()) -> str:
    """`doubts`: why the admin may not be able to log in. `failures`: modules of customData that failed so far.

    Both are cut to fit a record of the pool.
    """
    head = {"result": "success", "agent": AGENT}
    supporting = {"custom_data": "; ".join(failures)} if failures else {}
    supporting |= {"access": "; ".join(doubts)} if doubts else {}
    return _fitting(head, supporting, _tail(subject), limit=MAX_POOLED, size=size_in_the_pool)


def size_in_the_pool(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _fitting(
    head: dict[str, str], supporting: dict[str, str], tail: dict[str, str], *, limit: int, size: Callable[[str], int]
) -> str:
    """At most `limit` by `size`: supporting data are cut, longest first, then dropped, the cause last."""

    def report(longest: int) -> str:
        return _encode(head, {key: _cut(value, longest) for key, value in supporting.items()}, tail)

    while supporting and size(report(SHORTEST)) > limit:
        del supporting[next(iter(supporting))]
    fits, longest = SHORTEST, max(map(len, supporting.values()), default=0)
    while fits < longest:
        middle = (fits + longest + 1) // 2
        if size(report(middle)) <= limit:
            fits = middle
        else:
            longest = middle - 1
    return report(fits)


def _tail(subject: Subject) -> dict[str, str]:
    told = (subject.pps_type or "None").lower()
    return {
        "pps_type": next((known for known in PPS_TYPES if known.lower() == told), "Unknown"),
        "vm_id": subject.vm_id or "unknown",
        "timestamp": subject.timestamp,
    }


def _supporting(data: Mapping[str, str]) -> dict[str, str]:
    """Keys made of plain letters, and different from the report's own."""
    plain: dict[str, str] = {}
    for key, value in data.items():
        name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in key[:LONGEST_KEY]) or "_"
        while name in RESERVED or name in plain:
            name += "_"
        plain[name] = value
    return plain


def _cut(value: str, longest: int) -> str:
    return value if len(value) <= longest else value[: longest - len(CUT)] + CUT


def _encode(*parts: Mapping[str, str]) -> str:
    return encode_fields([pair for part in parts for pair in part.items()])
