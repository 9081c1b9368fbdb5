"""Listeners for people: standard error and the log file. Both write one line an event, never a secret."""

from __future__ import annotations

from azureinit.config.filters import Filter, parse_filter
from azureinit.config.model import shown
from azureinit.machine import rfc3339
from azureinit.telemetry.events import DEBUG, ERROR, INFO, TRACE, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.machine import Machine
    from azureinit.telemetry.events import Event, Listener

VARIABLE = "AZURE_INIT_LOG"
DEFAULT = Filter(level=INFO, targets={})
WORDS = {ERROR: "error", WARN: "warning", INFO: "info", DEBUG: "debug", TRACE: "trace"}
PEER_LOG = "/var/log/cloud-init.log"
RED, YELLOW, DIM, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


def log_filter(environ: Mapping[str, str], warnings: list[str]) -> Filter:
    """The filter of AZURE_INIT_LOG, or the default."""
    text = environ.get(VARIABLE, "")
    if not text.strip(" \t,"):
        return DEFAULT
    found = parse_filter(text)
    if found is None:
        warnings.append(f"{VARIABLE}: {shown(text)} is not a filter: ignored")
    return found or DEFAULT


def wants_colour(environ: Mapping[str, str], *, terminal: bool) -> bool:
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def wanted(event: Event, chosen: Filter) -> bool:
    """A step is one line, at its end; its start is logged at debug level."""
    return chosen.allows(event.name, min(event.level, DEBUG) if event.kind == "start" else event.level)


def sentence(event: Event) -> str:
    return f"{statement(event)} {took(event)}".rstrip()


def statement(event: Event, *, text: str | None = None) -> str:
    """One line, with `text` instead of the event's own. The text of a successful step is a complete sentence."""
    if event.kind == "start":
        return f"{one_line(event.name)}: started"
    said = one_line(event.text) if text is None else text
    if said.strip() and event.level == INFO and not event.failed:
        return said
    failed = event.failed or event.level >= ERROR
    return f"{one_line(event.name)}{' failed' if failed else ''}{': ' + said if said else ''}"


def took(event: Event) -> str:
    return "" if event.seconds is None or event.kind == "start" else f"({event.seconds * 1000:.0f} ms)"


def one_line(text: str) -> str:
    """Text of programs or of the platform, without line ends and control characters."""
    if text.isprintable():
        return text
    lines = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(letter if letter.isprintable() else "?" for letter in lines)


def stream_listener(write: Callable[[str], object], *, chosen: Filter, colour: bool) -> Listener:
    line = coloured if colour else uncoloured

    def listen(event: Event) -> None:
        if wanted(event, chosen):
            write(f"azure-init: {line(event)}\n")

    return listen


def uncoloured(event: Event) -> str:
    return _prefix(event) + sentence(event)


def coloured(event: Event) -> str:
    failed = event.level >= ERROR or (event.failed and event.kind == "finish")
    colour = RED if failed else YELLOW if event.level >= WARN else ""
    told = f"{colour}{_prefix(event)}{statement(event)}{PLAIN if colour else ''}"
    time = took(event)
    return f"{told} {DIM}{time}{PLAIN}" if time else told


def _prefix(event: Event) -> str:
    return "" if event.level <= INFO else f"{WORDS[event.level]}: "


def peer_listener(machine: Machine, *, chosen: Filter, limit_bytes: int) -> Listener:
    """The same in cloud-init's log and format, for programs that look for warnings there."""
    from azureinit.machine.outlets import LogFile

    log = LogFile(machine, PEER_LOG, limit=limit_bytes)

    def listen(event: Event) -> None:
        if wanted(event, chosen):
            at = rfc3339(event.at)
            when = f"{at[:10]} {at[11:19]},{at[20:23]}"
            log.write(
                f"{when} - azure-init[{WORDS[event.level].upper()}]: {sentence(event)}\n".encode("utf-8", "replace")
            )

    return listen


def file_listener(machine: Machine, path: str, *, chosen: Filter, limit_bytes: int) -> Listener:
    """Appends to the log file, which the first line creates. An unwritable file is given up at once."""
    from azureinit.machine.outlets import LogFile

    log = LogFile(machine, path, limit=limit_bytes)

    def listen(event: Event) -> None:
        if wanted(event, chosen):
            line = f"{rfc3339(event.at)} {WORDS[event.level]:7} {sentence(event)}\n"
            log.write(line.encode("utf-8", "replace"))

    return listen
