"""The report in words the platform parses: one pipe-delimited record, quoted like CSV."""

from __future__ import annotations

from azureinit.record import Record
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.errors import AzureInitError

AGENT = f"Azure-Init/{VERSION}"
DOCUMENTATION = "https://aka.ms/linuxprovisioningerror"
MAX_DESCRIPTION = 4096
SHORTEST = 16


class Subject(Record):
    """Whom a report is about."""

    vm_id: str | None
    pps_type: str | None
    timestamp: str


def success_report(subject: Subject, extra: Mapping[str, str]) -> str:
    return _encode({"result": "success", "agent": AGENT}, {}, {**_tail(subject), **extra})


def failure_report(
    error: AzureInitError, subject: Subject, extra: Mapping[str, str], *, limit: int, size: Callable[[str], int]
) -> str:
    """At most `limit` by `size`: supporting data are shortened, longest first; the rest never."""
    head = {"result": "error", "reason": error.reason, "agent": AGENT}
    tail = {**_tail(subject), "documentation_url": DOCUMENTATION}
    supporting = {**error.supporting(), **extra}
    report = _encode(head, supporting, tail)
    while size(report) > limit and supporting:
        longest = max(supporting, key=lambda key: len(supporting[key]))
        value = supporting[longest]
        if len(value) <= SHORTEST:
            del supporting[longest]
        else:
            keep = max(SHORTEST - 3, len(value) - max(1, (size(report) - limit) // 4, len(value) // 8))
            supporting[longest] = value[:keep].rstrip(".") + "..."
        report = _encode(head, supporting, tail)
    return report


def _tail(subject: Subject) -> dict[str, str]:
    return {
        "pps_type": subject.pps_type or "None",
        "vm_id": subject.vm_id or "unknown",
        "timestamp": subject.timestamp,
    }


def _encode(*parts: Mapping[str, str]) -> str:
    return "|".join(_field(f"{key}={value}") for part in parts for key, value in part.items())


def _field(text: str) -> str:
    if any(mark in text for mark in '|"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
