"""What the user's programs find: their variables, and how far a list of commands got before the machine went down."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

LONGEST = 1 << 20
ENDED = (b": finished", b", ignored")


class Progress(Record):
    key: str  # which list of commands it is of
    finished: frozenset[int]  # numbers of items
    begun: int  # the item that was begun last; 0: none


class Commands(Record):
    # An empty value takes a variable away.
    env: tuple[tuple[str, str], ...]
    progress: Progress | None = None


def read_commands(machine: Machine, progress: str | None = None) -> Commands:
    """Without privileges the progress is not seen."""
    seen = progress is not None and machine.is_open(progress.rpartition("/")[0])
    data = machine.read(progress, limit=LONGEST) if progress is not None and seen else None
    return Commands(env=read_environment(machine), progress=None if data is None else parse_progress(data))


def read_environment(machine: Machine) -> tuple[tuple[str, str], ...]:
    """Those of a service: the search path and the locale. LC_ALL=C, which azure-init's own programs get, is none."""
    kept = {name: value for name, value in machine.environ.items() if _is_locale(name)}
    path = machine.environ.get("PATH") or ":".join(machine.search)
    return tuple({"LC_ALL": "", "LANG": "", **kept, "PATH": path}.items())


def _is_locale(name: str) -> bool:
    return name in ("LANG", "LANGUAGE") or name.startswith("LC_")


def parse_progress(data: bytes) -> Progress:
    """A line for each item that began, and one for each that ended: `runcmd item 3 (line 14): finished`."""
    first, *lines = data.split(b"\n")
    finished, begun = set(), 0
    for line in lines:
        words = line.split(b" ", 3)
        number = words[2] if len(words) == 4 and words[1] == b"item" else b""
        if not number.isdigit() or len(number) > 9:
            continue
        if line.endswith(ENDED):
            finished.add(int(number))
        else:
            begun = int(number)
    return Progress(key=first.decode("utf-8", "replace"), finished=frozenset(finished), begun=begun)
