"""The ledger as text: the timeline of requests and reports, and the verdict."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import TextIO
from urllib.parse import urlsplit

from fakeazure.judge import Judgement, counted
from fakeazure.platform.events import (
    Boot,
    Ejected,
    End,
    Event,
    Found,
    Kvp,
    Lease,
    LinkChange,
    Login,
    MediaMade,
    MetadataChanged,
    PoolRead,
    Request,
    Reused,
    Told,
)
from fakeazure.platform.http import phrase
from fakeazure.platform.report import parse_report

COLOURS = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "bold": "1"}
WIDTH = 110


class Palette:
    """Colour on a terminal, plain text everywhere else."""

    def __init__(self, *, colour: bool) -> None:
        self.colour = colour

    def __call__(self, style: str, text: str) -> str:
        return f"\033[{COLOURS[style]}m{text}\033[0m" if self.colour and style else text


def palette_for(stream: TextIO) -> Palette:
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Palette(colour=wanted)


def timeline(events: Sequence[Event], paint: Palette) -> list[str]:
    boots = [event for event in events if isinstance(event, Boot)]
    width = max((len(asked(event)) for event in events if isinstance(event, Request)), default=0)
    lines = [paint("bold", "What the machine asked and told")]
    start = boots[0].t if boots else 0.0
    for event in sorted(events, key=lambda event: event.t):
        if isinstance(event, Boot) and len(boots) > 1:
            start = event.t
            lines.append(paint("bold", f"  boot {event.number}"))
        for n, text in enumerate(describe(event, paint, width=min(width, 64))):
            # A report belongs to the request above it and has the same time.
            stamp = " " * 10 if n or isinstance(event, Told | Kvp) else f"{event.t - start:8.3f} s"
            lines.append(f"{paint('dim', stamp)}  {text}")
    if not any(isinstance(event, Request) for event in events):
        lines.append(" " * 12 + "no request reached the platform")
    return lines


def describe(event: Event, paint: Palette, *, width: int) -> list[str]:
    match event:
        case Request():
            return [describe_request(event, paint, width=width)]
        case Told():
            return describe_told(event, paint)
        case Reused():
            return [paint("bold", "a customer takes the VM from the pool")]
        case LinkChange():
            return [printable(event.text)]
        case Found():
            return [paint("bad", f"found on the machine: {printable(event.what)}")]
        case MediaMade():
            return [f"the platform inserts a {event.format.upper()} disc ({event.size:,} bytes)"]
        case MetadataChanged():
            return [printable(event.text)]
        case Ejected():
            return ["the platform ejects the disc"]
        case Lease():
            return [describe_lease(event)]
        case Login():
            return [describe_login(event, paint)]
        case PoolRead():
            return [describe_pool_read(event, paint)]
        case Kvp():
            return wrapped(event.text)[:2] if worth_showing(event) else []
        case End():
            return [describe_end(event, paint)]
    return []


def asked(event: Request) -> str:
    query = urlsplit(event.target).query
    return printable(f"{event.method:<4} {event.path}{'?' + query if query else ''}")


def describe_request(event: Request, paint: Palette, *, width: int) -> str:
    if event.status is None:
        given, style = "no answer", "warn"
    else:
        given = f"{event.status} {phrase(event.status)}"
        untouched = event.fault is None or event.fault.startswith(("ok", "slow"))
        style = "bad" if event.off_script else "good" if event.status < 300 and untouched else "warn"
    asides = [printable(event.note)] if event.note else []
    if event.secondary:
        asides.append(f"from {printable(event.address)}, a secondary address")
    if event.off_script:
        asides.append("the script has no answer left")
    elif event.fault and not event.fault.startswith("ok"):
        asides.append(f"scripted: {event.fault}")
    aside = f"  ({'; '.join(asides)})" if asides else ""
    return f"{asked(event):<{width}}  {paint(style, given)}{paint('dim', aside)}"


def describe_told(event: Told, paint: Palette) -> list[str]:
    unsure = "" if event.acknowledged else paint("dim", "  (received, but the machine got no answer)")
    if event.kind == "ready":
        return [paint("good", "     tells: Ready") + unsure]
    if event.kind == "progress":
        return [f"     tells: in progress: {printable(event.description)}" + unsure]
    report = parse_report(event.description)
    if not report:
        return [paint("bad", "     tells: failed") + unsure, *wrapped(event.description or "without a description")]
    rest = [f"{key}: {value}" for key, value in report.items() if key not in ("result", "reason")]
    heading = paint("bad", f"     tells: failed: {printable(report.get('reason', 'no reason given'))}") + unsure
    return [heading, *(line for text in rest for line in wrapped(text))]


def describe_lease(event: Lease) -> str:
    named = f", with the host name {printable(event.hostname)!r}" if event.hostname else ""
    given = {
        "discover": f"discover: offered {event.address or 'nothing'}",
        "solicit": f"solicit: offered {event.address}",
        "request": f"request: gets {event.address}" if event.address else "request: refused",
        "inform": f"inform: has {event.address or 'an address'} already",
        "release": f"release: returns {event.address or 'its address'}",
    }[event.kind]
    return f"{printable(event.mac)} DHCP{'v6' if ':' in event.address else ''} {given}{named}"


def describe_login(event: Login, paint: Palette) -> str:
    tried = f"the platform logs in as {printable(event.user)} with the {event.how}"
    if event.ok:
        return f"{tried}: {paint('good', 'it works')}"
    return f"{tried}: {paint('bad', 'refused')}{paint('dim', f'  ({printable(event.text)})' if event.text else '')}"


def describe_pool_read(event: PoolRead, paint: Palette) -> str:
    if event.problem:
        return paint("warn", f"the host cannot read the key-value pool: {printable(event.problem)}")
    found = counted(event.count, "record") if event.count else "no record"
    them = "it" if event.count == 1 else "them"
    late = paint("warn", f"  (after the verdict: Azure's host would not read {them})") if event.late else ""
    return f"the host reads {found} from the key-value pool{late}"


def describe_end(event: End, paint: Palette) -> str:
    if event.exit_code is None:
        return paint("bad", f"the {event.of} is stopped at the deadline")
    if event.stopped:
        return paint("warn", f"the {event.of} is stopped: fakeazure got a signal")
    if event.of == "machine" and event.exit_code == 0:
        return "the machine is off"
    return f"the {event.of} ends with status {event.exit_code}"


def worth_showing(event: Kvp) -> bool:
    """Only reports, failures and unknown keys; the rest is in the ledger."""
    failed = any(word in event.text for word in (" failed", " ERROR ", " WARN "))
    return event.kind in ("report", "other") or (event.kind in ("diagnostic", "cloud-init") and failed)


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH - 12, initial_indent=" " * 12, subsequent_indent=" " * 14) or [""]


def printable(text: str) -> str:
    """Without control characters, which could change the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def kept(judgement: Judgement) -> str:
    within = judgement.expected.within_secs
    if judgement.at is not None:
        return "kept" if judgement.at <= within else "not kept"
    if judgement.stopped_at is not None and judgement.stopped_at < within:
        return f"but it was stopped after {judgement.stopped_at:.1f} s"
    return "and there was none"


def verdict(judgement: Judgement, paint: Palette) -> list[str]:
    when = "" if judgement.at is None else f" after {judgement.at:.3f} s"
    believed = {
        "ready": f"Ready{when}",
        "failed": f"failed{when}: {printable(judgement.reason) or 'no reason given'}",
        "waiting": "none, the platform is still waiting",
        "lied": "the machine lied",
        "off-script": "none, more requests than scripted answers",
    }[judgement.state]
    if judgement.ok:
        lines = [paint("good", f"Verdict: {believed}") + " (as expected)"]
    else:
        lines = [paint("bad", f"Verdict: {believed}")]
        lines += [f"  Wrong: {printable(complaint)}" for complaint in judgement.complaints]
    if judgement.expected.verdict != "none":
        lines.append(f"  Deadline: a verdict within {judgement.expected.within_secs:g} s, {kept(judgement)}")
    return lines + [f"  Note: {printable(remark)}" for remark in judgement.remarks]
