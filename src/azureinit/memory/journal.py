"""The journal: what was done, one line of JSON for each entry, in a file of the data directory with mode 0600.

A plan's first line names every temporary file and lock that the run may leave, so that the next run can remove them if
this one is killed; then follows one line for each step that facts cannot see. Host keys that were missing at the start
are recorded before they are made: they are this VM's own, not the image's.

A crash can leave half of a line at the end: it is ignored, and the next line does not continue it. Damaged lines and
lines of another shape are ignored too. A step whose line is lost is done again, which every such step allows: the
password is set to the same value, labels are restored again, host keys are replaced once more, and a customData program
must allow a second start in any case.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.machine import is_temporary, temporary_path
from azureinit.plan.actions import Link, Locked, OnDevices, Step, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from azureinit.machine import Appender, Machine
    from azureinit.plan.actions import Action, Plan

MOST_BYTES = 16 << 20
MOST_PID = 1 << 22  # the kernel's own limit
ACCOUNT_FILES = ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")
LOCKS = frozenset(f"/etc/{name}.lock" for name in ACCOUNT_FILES)


class Journal:
    def __init__(self, path: str, entries: list[dict[str, Any]], *, torn: bool = False) -> None:
        self.path = path
        self.torn = torn
        self.done = frozenset(entry["done"] for entry in entries if isinstance(entry.get("done"), str))
        self.own_keys = frozenset(path for entry in entries for path in _texts(entry.get("host keys")))
        self.begun = any("run" in entry for entry in entries)
        self.unfinished = _unfinished(entries)
        self.locks: set[str] = set()
        self._file: Appender | None = None

    def open_run(self, machine: Machine, plan: Plan, *, sync: bool = False) -> None:
        """`sync`: also where the run can leave nothing behind."""
        temporaries, self.locks = _left_behind(plan)
        self._machine = machine
        entry = {
            "run": machine.clock.now(),
            "boot": machine.boot_id(),
            "pid": self._machine.pid,
            "temporaries": sorted(temporaries),
            "locks": sorted(self.locks),
        }
        self._append(entry, sync=sync or bool(temporaries or self.locks))

    def record_locks(self, paths: tuple[str, ...]) -> None:
        """Called before any lock is made. The plan's first line has nearly always named it already."""
        new = [path for path in paths if path not in self.locks]
        if new:
            self._append({"locks": new, "boot": self._machine.boot_id(), "pid": self._machine.pid}, sync=True)

    def record_done(self, step: str, *, backend: str) -> None:
        self.done |= {step}
        self._append({"done": step, "backend": backend}, sync=True)

    def record_program(self, pid: int) -> None:
        """Called when a program has begun. A run has one verdict and starts nothing twice: only stages record it."""

    def record_program_ended(self) -> None:
        pass

    def record_own_keys(self, machine: Machine, paths: tuple[str, ...]) -> None:
        """Not synced: if a power cut loses this line, the keys are replaced once more, before Ready."""
        new = [path for path in paths if path not in self.own_keys]
        if new:
            self.own_keys |= {*new}
            self._machine = machine
            self._append({"host keys": new}, sync=False)

    def close_run(self) -> None:
        self._append({"end": True}, sync=False)

    def _append(self, entry: dict[str, Any], *, sync: bool) -> None:
        from azureinit.memory.sealed import seal  # not loaded by a stage that writes no journal

        if self._file is None:
            self._file = self._machine.appender(self.path)
        start, self.torn = b"\n" if self.torn else b"", False
        self._file.write(start + seal(entry) + b"\n", sync=sync)


class MemoryJournal(Journal):
    """Without a file, for work that no later run needs to know: the library's, and steps that facts can see."""

    def __init__(self) -> None:
        super().__init__("", [])

    def open_run(self, machine: Machine, plan: Plan, *, sync: bool = False) -> None:
        pass

    def record_locks(self, paths: tuple[str, ...]) -> None:
        pass

    def _append(self, entry: dict[str, Any], *, sync: bool) -> None:
        pass


def read_journal(machine: Machine, path: str) -> Journal:
    try:
        data = machine.read(path, limit=MOST_BYTES) or b""
    except LocalError:
        data = b""  # an unreadable journal counts as empty; one that cannot be written stops the run
    return Journal(path, parse_journal(data), torn=not data.endswith(b"\n") and data != b"")


def parse_journal(data: bytes) -> list[dict[str, Any]]:
    if not data:
        return []
    from azureinit.memory.sealed import unseal

    return [entry for line in data.split(b"\n") if line and (entry := unseal(line)) is not None]


def clear_leftovers(machine: Machine, journal: Journal) -> tuple[str, ...]:
    """Remove the temporary files and locks of runs that were killed, and nothing else. Returns the paths removed."""
    removed: list[str] = []
    for entry in journal.unfinished:
        for path in filter(_is_leftover, _texts(entry.get("temporaries"))):
            try:
                removed += [path] if machine.remove(path) else []
            except LocalError:
                pass  # a directory has that name: the write that needs it fails with the reason
        locks = tuple(path for path in _texts(entry.get("locks")) if path in LOCKS)
        pid = entry.get("pid")
        if not locks or type(pid) is not int or not 0 < pid <= MOST_PID:
            continue
        # After a reboot the process id in a lock may belong to another program, and shadow-utils would respect it.
        if entry.get("boot") != machine.boot_id() or not machine.is_another(pid):
            from azureinit.machine.locks import clear_stale

            removed += clear_stale(machine, locks, pid=pid)
    return tuple(removed)


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _is_leftover(path: str) -> bool:
    """A name that only this program's writes make: absolute, and without `..`."""
    parts = path.split("/")
    return not parts[0] and ".." not in parts and "\0" not in path and is_temporary(parts[-1])


def _unfinished(entries: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    pending: list[dict[str, Any]] = []
    for entry in entries:
        if "end" in entry:
            pending = []
        elif "locks" in entry:
            pending.append(entry)
    return tuple(pending)


def _left_behind(plan: Plan) -> tuple[set[str], set[str]]:
    temporaries: set[str] = set()
    locks: set[str] = set()
    for path, locked in _written(plan):
        temporaries.add(temporary_path(path))
        if locked:
            locks.add(f"{path}.lock")
    return temporaries, locks


def _written(plan: Plan) -> Iterator[tuple[str, bool]]:
    for item in plan:
        for way in item.ways if isinstance(item, Step) else ():
            yield from _written_by(way.actions if isinstance(way, Way) else ())


def _written_by(actions: tuple[Action, ...]) -> Iterator[tuple[str, bool]]:
    for action in actions:
        if isinstance(action, (Write, Link)):
            yield action.path, False
        elif isinstance(action, OnDevices):
            yield from _written_by((action.mark,) if action.mark is not None else ())
        elif isinstance(action, Locked):
            yield from _written_by(action.first)
            yield from ((edit.path, True) for edit in action.edits)
