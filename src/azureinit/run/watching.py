"""What a stage of customData is doing, for people: each command as it begins, long work, and the output of a failure.

A thread looks once a second. What commands print may hold secrets: the output of a failure goes to the journal, the
log, the console and userdata.json, and neither to the host nor to a collector.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.machine import MOST_BYTES
from azureinit.machine.threads import Flag, allocate_lock, start
from azureinit.plan.actions import Run, Step, Way
from azureinit.telemetry.console import WAITING
from azureinit.telemetry.events import INFO, OUTPUT, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Context
    from azureinit.telemetry.events import Event

EVERY_SECS = 1.0
LONG_SECS, AGAIN_SECS = 10.0, 30.0  # when a module is told that takes long, and when it is told again
MOST_LINES, MOST_LETTERS = 20, 2000
FINISHED, IGNORED = ": finished", ", ignored"


def runs_of(step: Step) -> list[Run]:
    actions = [action for way in step.ways if isinstance(way, Way) for action in way.actions]
    return [action for action in actions if isinstance(action, Run)]


class Watch:
    """Listens to the steps of one module after the other."""

    def __init__(self, context: Context, stage: str) -> None:
        self.context, self.machine, self.stage = context, context.machine, stage
        self.module = self.step = self.item = ""
        self.runs: dict[str, list[Run]] = {}
        self.seen: dict[str, bytes] = {}  # how much of a step's files was there before
        self.since = self.told_at = 0.0
        self._lock = allocate_lock()
        self._end: Flag | None = None

    def begin(self, module: str, steps: Plan) -> None:
        """A plan of the module is carried out now."""
        with self._lock:
            if module != self.module:
                self.since = self.told_at = self.machine.clock.monotonic()
            self.module, self.step, self.item = module, "", ""
            self.runs = {step.name: runs_of(step) for step in steps if isinstance(step, Step)}
        if self._end is None:
            self._end = Flag()
            try:
                start(self._watch)
            except AzureInitError:  # no thread can be started: the end of each module tells the rest
                pass

    def __call__(self, event: Event) -> None:
        if event.kind == "finish" and event.name == self.step:
            self.look()
        elif event.kind == "start" and event.name in self.runs:
            with self._lock:
                self.step, self.item = event.name, ""
                self.seen = {path: read(self.machine, path) for path in self._files()}

    def end(self) -> None:
        if self._end is not None:
            self._end.set()

    def output(self) -> str:
        """The last lines that the programs of the last step have printed."""
        logs = [run.output for run in self.runs.get(self.step, ()) if run.output is not None]
        if not logs:
            return ""
        added = since(self.seen.get(logs[-1], b""), read(self.machine, logs[-1]))
        lines = added[-MOST_LETTERS:].decode("utf-8", "replace").splitlines()[-MOST_LINES:]
        return "\n".join(line for line in lines if line.strip())

    def tell_output(self) -> str:
        text = self.output()
        for line in text.splitlines():
            self.context.events.tell(WARN, OUTPUT, line)
        return text

    def look(self) -> None:
        """Tell what is new: commands that have begun or whose failure is ignored, and work that takes long."""
        with self._lock:
            for run in self.runs.get(self.step, ()):
                if run.progress is not None:
                    self._tell_items(run.progress)
            now = self.machine.clock.monotonic()
            if self.module and now - self.since >= LONG_SECS and self._is_due(now):
                self.told_at = now
                at = self.item or self.step
                doing = f": {at}" if at and at != self.module else ""
                told = f"customData {self.stage}: {self.module} has been running for {now - self.since:.0f} s{doing}"
                self.context.events.tell(INFO, WAITING, told)

    def _is_due(self, now: float) -> bool:
        return self.told_at == self.since or now - self.told_at >= AGAIN_SECS

    def _tell_items(self, path: str) -> None:
        data = read(self.machine, path)
        whole = data[: data.rfind(b"\n") + 1]
        lines = since(self.seen.get(path, b""), whole).decode("utf-8", "replace").splitlines()
        self.seen[path] = whole
        for line in lines:
            if line.endswith(IGNORED):
                self.context.events.tell(WARN, "customData", line)
            elif not line.endswith(FINISHED) and " item " in line:
                self.item = line
                self.context.events.tell(INFO, "customData", f"{line} begins")

    def _files(self) -> list[str]:
        runs = self.runs.get(self.step, ())
        return [path for run in runs for path in (run.progress, run.output) if path is not None]

    def _watch(self) -> None:
        assert self._end is not None
        while not self._end.wait(EVERY_SECS):
            self.look()


def since(before: bytes, data: bytes) -> bytes:
    """What was added; all of it where the file was begun anew."""
    return data[len(before) :] if data.startswith(before) else data


def read(machine: Machine, path: str) -> bytes:
    try:
        return machine.read(path, limit=MOST_BYTES) or b""
    except AzureInitError:
        return b""
