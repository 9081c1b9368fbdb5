"""Listeners for people: standard error and the log file. Both write one line an event, never a secret."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.machine import rfc3339
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Appender, Machine
    from azureinit.telemetry.events import Event, Listener

SILENT = ERROR + 1
LEVELS = {"off": SILENT, "error": ERROR, "warn": WARN, "info": INFO, "debug": DEBUG, "trace": DEBUG}
WORDS = {ERROR: "error", WARN: "warning", INFO: "info", DEBUG: "debug"}


def chosen_level(filter_text: str, default: int) -> int:
    """The bare level of an AZURE_INIT_LOG directive list; the default where there is none."""
    for directive in filter_text.split(","):
        if directive.strip().lower() in LEVELS:
            return LEVELS[directive.strip().lower()]
    return default


def sentence(event: Event) -> str:
    took = f" ({event.seconds * 1000:.0f} ms)" if event.kind == "finish" else ""
    state = " failed" if event.failed else ""
    if event.kind == "start":
        return f"{event.name}: started"
    return f"{event.name}{state}{': ' + one_line(event.text) if event.text else ''}{took}"


def one_line(text: str) -> str:
    """Whatever a program or a platform said, without its power over lines and terminals."""
    if text.isprintable():
        return text
    lines = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(letter if letter.isprintable() else "?" for letter in lines)


def stream_listener(write: Callable[[str], object], *, level: int) -> Listener:
    def listen(event: Event) -> None:
        if event.level >= level:
            prefix = "" if event.level <= INFO else f"{WORDS[event.level]}: "
            write(f"azure-init: {prefix}{sentence(event)}\n")

    return listen


def file_listener(machine: Machine, path: str, *, level: int) -> Listener:
    """Appends to the log file, made 0600 at the first line; one that cannot be opened is given up at once."""
    log: list[Appender | None] = []

    def listen(event: Event) -> None:
        if event.level < level:
            return
        if not log:
            try:
                log.append(machine.appender(path))
            except AzureInitError:
                log.append(None)
        if log[0] is not None:
            line = f"{rfc3339(event.at)} {WORDS[event.level]:7} {sentence(event)}\n"
            log[0].write(line.encode("utf-8", "replace"))

    return listen
