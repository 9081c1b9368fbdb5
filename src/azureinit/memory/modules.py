"""Which modules of customData were started, finished or failed, and in which boot: lines of JSON, as in the journal.

<vm id>.modules   modules that run once for each VM, or at every boot
once.modules      modules that run once on this machine, whatever VM it becomes

A module that was started and neither finished nor failed was interrupted. The steps of modules that facts cannot see
are recorded in the same file.
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.machine.groups import Process, read_process
from azureinit.memory.instance import ONCE_FILE
from azureinit.memory.journal import MOST_BYTES, Journal, parse_journal
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance
    from azureinit.plan.actions import Plan

ALWAYS, INSTANCE, ONCE = "at every boot", "once for each VM", "once"
DOCUMENT = "customData"  # the name under which the document itself fails; no module runs then


class Failure(Record):
    """A module that failed. `errors`: of each backend, the text and the exit status of its program."""

    module: str
    stage: str
    boot: str
    step: str
    errors: tuple[tuple[str, str, str], ...] = ()

    @property
    def text(self) -> str:
        told = "; ".join(f"{backend}: {text}" if backend else text for backend, text, _status in self.errors)
        return f"{self.step}: {told}" if told else self.step


class Marks(Journal):
    def __init__(self, machine: Machine, path: str, entries: list[dict[str, Any]], *, torn: bool = False) -> None:
        super().__init__(path, entries, torn=torn)
        self._machine = machine
        self.boot = machine.boot_id()
        # The modules that customData asks for: stage -> name -> how often. None: it was not read to its end yet.
        self.asked: dict[str, dict[str, str]] | None = None
        self.first_boot = ""  # in which it was read
        self.finished: set[str] = set()
        self.failures: dict[str, Failure] = {}
        # Of this boot, begun and not ended: a stage that was killed left it running.
        self.program: Process | None = None
        self.meanwhile: Callable[[], None] | None = None  # called when a program has begun, while it runs
        self._begun: dict[str, list[str]] = {}  # the boots of each module since it was last finished or failed
        for entry in entries:
            self._take(entry)

    @property
    def interrupted(self) -> tuple[str, ...]:
        """Modules that were started and did not end."""
        return tuple(self._begun)

    @property
    def ended(self) -> frozenset[str]:
        return frozenset((*self.finished, *self.failures))

    def has_work(self, stage: str = "", *, once: frozenset[str] = frozenset()) -> bool:
        """Whether a boot has anything to do for the stage; without one, for any.

        `once`: the modules that ended and run once on this machine.
        """
        if DOCUMENT in self.failures:
            return False
        if self.asked is None:
            return True
        stages = (stage,) if stage else tuple(self.asked)
        asked = [row for one in stages for row in self.asked.get(one, {}).items()]
        ended = self.ended | once
        return any(often == ALWAYS or name not in ended for name, often in asked)

    def attempts(self, module: str) -> int:
        """The boots in which the module was started and neither finished nor failed."""
        return len(set(self._begun.get(module, ())))

    def record_asked(self, asked: dict[str, dict[str, str]]) -> None:
        self._record({"asked": asked, "boot": self.boot})

    def record_started(self, module: str, *, stage: str) -> None:
        """Not synced: `open_run` does it before the module changes anything."""
        self._record({"started": module, "stage": stage, "boot": self.boot, "pid": self._machine.pid}, sync=False)

    def open_run(self, machine: Machine, plan: Plan, *, sync: bool = True) -> None:
        super().open_run(machine, plan, sync=sync)

    def record_finished(self, module: str, *, sync: bool = True) -> None:
        self._record({"finished": module, "boot": self.boot}, sync=sync)

    def record_failed(self, failure: Failure) -> None:
        values = {"stage": failure.stage, "boot": failure.boot, "step": failure.step}
        self._record({"failed": failure.module, **values, "errors": [list(row) for row in failure.errors]})

    def record_program(self, pid: int) -> None:
        """Not synced: in another boot the program does not run."""
        found = read_process(self._machine, pid)
        if found is not None:
            self._record({"program": found.as_dict(), "boot": self.boot}, sync=False)
        if self.meanwhile is not None:
            self.meanwhile()

    def record_program_ended(self) -> None:
        if self.program is not None:
            self._record({"program": None, "boot": self.boot}, sync=False)

    def _record(self, entry: dict[str, Any], *, sync: bool = True) -> None:
        self._append(entry, sync=sync)
        self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        started, finished, failed = entry.get("started"), entry.get("finished"), entry.get("failed")
        if "program" in entry:
            self.program = _process(entry["program"]) if entry.get("boot") == self.boot else None
        if isinstance(started, str):
            self._begun.setdefault(started, []).append(str(entry.get("boot", "")))
        elif isinstance(finished, str):
            self.finished.add(finished)
            self.failures.pop(finished, None)
            self._begun.pop(finished, None)
        elif isinstance(failed, str):
            self.failures[failed] = _failure(failed, entry)
            self._begun.pop(failed, None)
        elif isinstance(entry.get("asked"), dict):
            self.asked = _asked(entry["asked"])
            self.first_boot = str(entry.get("boot", ""))


def read_marks(machine: Machine, path: str) -> Marks:
    """A file that cannot be read counts as empty; one that cannot be written stops the stage."""
    try:
        data = machine.read(path, limit=MOST_BYTES) or b""
    except LocalError:
        data = b""
    return Marks(machine, path, parse_journal(data), torn=not data.endswith(b"\n") and data != b"")


def once_path(instance: Instance) -> str:
    return f"{instance.data_dir.rstrip('/')}/{ONCE_FILE}"


def _failure(module: str, entry: dict[str, Any]) -> Failure:
    def text(name: str) -> str:
        value = entry.get(name, "")
        return value if isinstance(value, str) else ""

    errors: Iterable[object] = entry["errors"] if isinstance(entry.get("errors"), list) else ()
    rows = [
        row for row in errors if isinstance(row, list) and len(row) == 3 and all(isinstance(one, str) for one in row)
    ]
    kept = tuple((row[0], row[1], row[2]) for row in rows)
    return Failure(module=module, stage=text("stage"), boot=text("boot"), step=text("step") or module, errors=kept)


def _process(value: object) -> Process | None:
    if not isinstance(value, dict):
        return None
    # In a container, the session of a process that was started from outside is 0.
    least = {"pid": 1, "group": 1, "session": 0, "since": 0}
    if not all(type(number := value.get(name)) is int and number >= low for name, low in least.items()):
        return None
    return Process(pid=value["pid"], state="", group=value["group"], session=value["session"], since=value["since"])


def _asked(value: dict[str, Any]) -> dict[str, dict[str, str]]:
    stages = {stage: modules for stage, modules in value.items() if isinstance(modules, dict)}
    return {
        stage: {name: often for name, often in modules.items() if isinstance(often, str)}
        for stage, modules in stages.items()
    }
