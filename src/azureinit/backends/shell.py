"""Programs of the user: scripts by their interpreter, lists of commands by one shell, and the machine's shutdown."""

from __future__ import annotations

from azureinit.plan.actions import Declined, MakeDir, Run, Way, Write
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Action

SHELL, LINE_END = "/bin/sh", "\n"
SHUTDOWN = {"poweroff": "-P", "reboot": "-r", "halt": "-H"}
SHUTDOWN_TOOLS = ("shutdown", *SHUTDOWN)
SHUTDOWN_SECS = 60.0
REBOOT = ("shutdown", "-r", "now")
# `azure_init_begin` leaves the exit status of the item before for the next one to read, except under `set -e`.
PROLOGUE = """#!/bin/sh
azure_init_status=0
azure_init_tell() { printf '%s\\n' "$1" 2>/dev/null >>PROGRESS || :; }
azure_init_begin() {
    azure_init_tell "$1"
    case $- in *e*) return 0 ;; esac
    return "$azure_init_status"
}
azure_init_end() {
    azure_init_status=$?
    [ "$azure_init_status" -eq 0 ] || exit "$azure_init_status"
    azure_init_tell "$1: finished"
}
azure_init_next() {
    azure_init_status=$?
    if [ "$azure_init_status" -eq 0 ]; then
        azure_init_tell "$1: finished"
    else
        azure_init_tell "$1: exit status $azure_init_status, ignored"
    fi
}
"""


class Place(Record):
    """Where a program of the user runs, and what it may use."""

    directory: str  # for its file, made where it is missing
    output: str
    env: tuple[tuple[str, str], ...]
    timeout: float


def quoted(text: str) -> str:
    """One word of a shell, whatever is in it."""
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def in_shell(text: str) -> str:
    """A text as one command, in a shell of its own: `exit` ends that one only."""
    return f"{SHELL} -c {quoted(text)}"


def interpreted(data: bytes, path: str) -> tuple[str, ...]:
    """By the first line, as the kernel reads it, so that it runs on a noexec file system; else by /bin/sh."""
    if data.startswith(b"\x7fELF"):
        return (path,)
    if not data.startswith(b"#!"):
        return (SHELL, path)
    line = data[2:].partition(b"\n")[0].strip(b" \t").decode("utf-8", "surrogateescape")
    interpreter, _, rest = line.replace("\t", " ").partition(" ")
    return (interpreter, *((rest.strip(),) if rest.strip() else ()), path)


def commands_script(items: tuple[tuple[str, str], ...], *, progress: str, ignore: bool) -> Secret:
    """One script of (label, command) pairs. The shell reads each command as a whole when its turn comes: a syntax error
    is the failure of that one, and ends the shell. With `ignore` only the last one's exit status counts.

    The line end after a command is for a backslash before it.
    """
    lines = [PROLOGUE.replace("PROGRESS", quoted(progress))]
    for number, (label, text) in enumerate(items, 1):
        end = "azure_init_next" if ignore and number < len(items) else "azure_init_end"
        lines.append(f"azure_init_begin {quoted(label)}\neval {quoted(text + LINE_END)}\n{end} {quoted(label)}\n")
    return Secret("".join(lines))


def run_commands(script: Secret, path: str, *, place: Place, progress: str, keep: bytes | None) -> Way:
    """`keep`: the first line of the progress; None: the file holds that of an earlier boot, and stays."""
    actions: list[Action] = [
        MakeDir(path=place.directory, mode=0o700, kept=True),
        Write(path=path, data=script, mode=0o700, unsynced=True),
    ]
    if keep is not None:
        actions.append(Write(path=progress, data=keep, mode=0o600, unsynced=True))
    argv = (SHELL, path)
    run = Run(argv=argv, timeout=place.timeout, output=place.output, env=place.env, progress=progress)
    return Way(backend="sh", actions=(*actions, run))


def run_script(data: Secret, path: str, *, place: Place) -> Way:
    """Write a script, and run it."""
    return Way(
        backend="script",
        actions=(
            MakeDir(path=place.directory, mode=0o700, kept=True),
            Write(path=path, data=data, mode=0o700, unsynced=True),
            _run(interpreted(data.reveal(), path), place),
        ),
    )


def run_file(head: bytes, path: str, *, place: Place) -> Way:
    """Run a program that is there already."""
    directory = MakeDir(path=place.directory, mode=0o700, kept=True)
    return Way(backend="script", actions=(directory, _run(interpreted(head, path), place)))


def shutdown_ways(
    mode: str, *, minutes: int, message: str, tools: frozenset[str], condition: str, path: str, place: Place
) -> tuple[Way | Declined, ...]:
    """`condition`: a command of the shell that decides; empty: shut down in any case.

    Where there is no `shutdown`, the programs of busybox do it.
    """
    ways: list[Way | Declined] = []
    delay = f"+{minutes}" if minutes else "now"
    commands = {
        "shutdown": ("shutdown", SHUTDOWN[mode], delay, *((message,) if message else ())),
        mode: (mode, *(("-d", str(60 * minutes)) if minutes else ())),
    }
    for tool, argv in commands.items():
        if tool not in tools:
            ways.append(Declined(backend=tool, why=f"{tool} is not installed"))
            continue
        if not condition:
            ways.append(Way(backend=tool, actions=(Run(argv=argv, timeout=SHUTDOWN_SECS, changes=False),)))
            continue
        ways.append(run_script(_conditional(condition, argv), path, place=place))
        break  # the condition is not asked a second time
    return tuple(ways)


def _conditional(condition: str, argv: tuple[str, ...]) -> Secret:
    """Status 0 of the condition is yes, 1 is no; any other one is the script's own."""
    lines = (
        f"#!{SHELL}",
        condition,
        "case $? in",
        f"0) exec {' '.join(map(quoted, argv))} ;;",
        "1) echo 'azure-init: the condition does not hold' ;;",
        "*) exit 2 ;;",
        "esac",
        "",
    )
    return Secret("\n".join(lines))


def _run(argv: tuple[str, ...], place: Place) -> Run:
    return Run(argv=argv, timeout=place.timeout, output=place.output, env=place.env)
