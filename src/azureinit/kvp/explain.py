"""Records as sentences, for operators who read the pool of a machine without a network."""

from __future__ import annotations

from azureinit.kvp.cloudinit import PREFIX as CLOUD_INIT
from azureinit.kvp.diagnostics import Diagnostic
from azureinit.kvp.entries import DUPLICATE, INCOMPLETE, MALFORMED, UNDECODABLE, UNSUPPORTED, Raw, parse_entries
from azureinit.kvp.moments import utc
from azureinit.kvp.report import REPORT_KEY, Report, ReportMalformed, parse_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureinit.kvp.entries import Entry
    from azureinit.kvp.records import Pair

OLD_AGENT = "azure-init-"
LONGEST = 4000  # characters of a payload that are shown
LONGEST_ATTACHED = 1000  # characters shown of a compressed payload such as the kernel log: its end
WHY = {
    UNSUPPORTED: "it is of a format newer than this program",
    INCOMPLETE: "a part of it is missing",
    DUPLICATE: "a part of it is there twice",
    UNDECODABLE: "its content is damaged",
    MALFORMED: "it is not what its key says",
}


def explain(pairs: Iterable[Pair]) -> list[str]:
    """One sentence for each entry, without control characters."""
    return [printable(_sentence(entry)) for entry in parse_entries(_joined(pairs))]


def printable(text: str) -> str:
    if text.isprintable():
        return text
    lines = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(letter if letter.isprintable() else "?" for letter in lines)


def _joined(pairs: Iterable[Pair]) -> list[Pair]:
    """azure-init 0.1.1 split long values into several records with the same key, a new key for each event."""
    joined: list[tuple[str, list[str]]] = []
    pieces: dict[str, list[str]] = {}
    for key, value in pairs:
        if key in pieces:
            pieces[key].append(value)
            continue
        joined.append((key, [value]))
        if key.startswith(OLD_AGENT) and key.count("|") == 4:
            pieces[key] = joined[-1][1]
    return [(key, "".join(values)) for key, values in joined]


def _sentence(entry: Entry) -> str:
    if isinstance(entry, Diagnostic):
        return _diagnostic(entry)
    if isinstance(entry, Report):
        return _report(entry)
    return _raw(entry)


def _diagnostic(told: Diagnostic) -> str:
    agent = "cloud-init" if told.agent == CLOUD_INIT else told.agent
    result = {"success": "succeeded", "warn": "ended with warnings", "fail": "failed", None: "ended"}[told.result]
    happened = "started" if told.kind == "start" else result if told.kind == "finish" or told.result else "said"
    took = "" if told.duration is None else f" after {told.duration:.3f} s"
    said = _shown(told.payload)
    return f"{told.timestamp} {agent}: {told.name} {happened}{took}{': ' + said if said else ''}"


def _shown(payload: str | bytes) -> str:
    if isinstance(payload, str):
        text = printable(payload.strip())
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
    text = printable(payload.decode("utf-8", "replace").strip())
    return text if len(text) <= LONGEST_ATTACHED else f"({len(text)} characters) ...{text[-LONGEST_ATTACHED:]}"


def _report(report: Report) -> str:
    what = "success" if report.result == "success" else f"failure: {report.reason}"
    return _verdict(
        what,
        {"timestamp": report.timestamp, "agent": report.agent, "vm_id": report.vm_id, "pps_type": report.pps_type},
        [*report.supporting, *([("see", report.documentation_url)] if report.documentation_url else [])],
    )


def _verdict(what: str, own: dict[str, str], rest: list[Pair]) -> str:
    when = utc(own.get("timestamp", "")) or own.get("timestamp", "at an unknown time")
    pps = own.get("pps_type", "None")
    kind = "" if pps == "None" else f" (pre-provisioned: {pps})"
    more = "".join(f"; {key}: {value}" for key, value in rest)
    return f"{when} {own.get('agent', 'an agent')} reported {what}, for VM {own.get('vm_id', 'unknown')}{kind}{more}"


def _raw(raw: Raw) -> str:
    if raw.key == REPORT_KEY:
        return _foreign_report(raw)
    if raw.key.startswith(OLD_AGENT) and raw.key.count("|") == 4:
        return _old(raw)
    if raw.error is not None:
        return f"a record that cannot be read, because {WHY[raw.error]}: {raw.key} = {_shown(raw.value)}"
    return f"{raw.key} is {_shown(raw.value)}" if raw.value else f"{raw.key} is empty"


def _foreign_report(raw: Raw) -> str:
    """Other agents omit fields, and cloud-init quotes with apostrophes."""
    for quote in ("'", '"'):
        try:
            own = dict(parse_fields(raw.value, quote=quote))
        except ReportMalformed:
            continue
        if "result" in own:
            good = own["result"] == "success"
            what = "success" if good else f"failure: {own.get('reason', 'without a reason')}"
            known = ("result", "reason", "timestamp", "agent", "vm_id", "pps_type")
            return _verdict(what, own, [(key, value) for key, value in own.items() if key not in known])
    return f"a report that cannot be read, because {WHY[raw.error or MALFORMED]}: {_shown(raw.value)}"


def _old(raw: Raw) -> str:
    agent, _vm_id, level, span, _event_id = raw.key.split("|")
    agent = f"azure-init {agent[len(OLD_AGENT) :]}"
    first, _, second = raw.value.partition(" | ")
    loud = "" if level in ("INFO", "DEBUG", "TRACE") else f"{level.lower()}: "
    if first.startswith("Time: ") and second.startswith("Event: "):
        return f"{first[len('Time: ') :]} {agent}: {loud}{span} said: {_shown(second[len('Event: ') :])}"
    if first.startswith("Start: ") and second.startswith("End: "):
        start, end = first[len("Start: ") :], second[len("End: ") :]
        return f"{end} {agent}: {loud}{span} ended{_between(start, end)}"
    return f"{agent}: {loud}{span}: {_shown(raw.value)}"


def _between(start: str, end: str) -> str:
    """Durations between wall clock times; nothing if the clock was set back in between."""
    from datetime import datetime

    moments = [utc(text) for text in (start, end)]
    if None in moments:
        return ""
    begun, ended = (datetime.fromisoformat((moment or "")[:-1][:26]) for moment in moments)
    seconds = (ended - begun).total_seconds()
    return f" after {seconds:.3f} s" if seconds >= 0 else ""
