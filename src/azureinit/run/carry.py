"""The modules of one stage of customData: which are due, their plans, and what becomes of them."""

from __future__ import annotations

from azureinit.errors import AzureInitError, CustomDataFailed, LocalError, PlanStale, StepFailed
from azureinit.machine.durable import load_syncfs, make_durable
from azureinit.memory.modules import DOCUMENT, Failure
from azureinit.plan.actions import impossible_steps, work_left
from azureinit.record import replace
from azureinit.run.enact import enact, tell_cautions
from azureinit.run.modules import ALWAYS, ONCE, plans_of
from azureinit.run.state import declared
from azureinit.run.watching import Watch, runs_of
from azureinit.telemetry.events import ERROR, INFO, OUTPUT, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine
    from azureinit.memory.modules import Marks
    from azureinit.modules.request import Request
    from azureinit.plan.actions import Plan
    from azureinit.run.modules import Module
    from azureinit.run.state import Context
    from azureinit.telemetry.events import Event

PLACE = "/run/azure-init"
LOCK, RESULT = f"{PLACE}/userdata.lock", f"{PLACE}/userdata.json"
MOST_BOOTS = 3  # in which an interrupted module is tried
MOST_STALE = 3
MOST_TOLD = 100  # warnings in userdata.json
MOST_OUTPUT = 8000  # letters of a module's output
POWER = "power_state"
NAME = "customData"
RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"


class Progress:
    """userdata.json: what the stages of this boot came to, and what is done now. Listens to the steps."""

    def __init__(self, machine: Machine, stage: str) -> None:
        self.machine, self.stage = machine, stage
        before = read_result(machine)
        stages = before.get("stages")
        self.stages: dict[str, Any] = dict(stages) if isinstance(stages, dict) else {}
        self.module = ""
        self.files: dict[str, str] = {}
        self.started = machine.clock.now()
        self.cautions: list[str] = []
        self.outputs: dict[str, str] = {}  # of modules that failed: the last lines that their programs printed

    def __call__(self, event: Event) -> None:
        if event.kind == "event" and event.level == WARN and event.name != OUTPUT and len(self.cautions) < MOST_TOLD:
            self.cautions.append(f"{event.name}: {event.text}")
        if event.kind == "start" and self.module:
            self.write(step=event.name, progress=self.files.get(event.name, ""))

    def begin(self, module: str, plan: Plan = ()) -> None:
        """`plan`: its steps may have files of their own that say what is done."""
        self.module = module
        runs = [(step.name, run) for step in work_left(plan) for run in runs_of(step)]
        self.files = {name: run.progress for name, run in runs if run.progress is not None}
        self.write()

    def end(self, failures: list[Failure]) -> None:
        self.module = ""
        told = [{**failure.as_dict(), "message": failure.text, **self._output(failure)} for failure in failures]
        self.stages[self.stage] = {
            "state": FAILED if failures else DONE,
            "started": self.started,
            "finished": self.machine.clock.now(),
            "failures": told,
            "cautions": self.cautions,
        }
        self.write(state="")

    def interrupt(self) -> None:
        row = self.stages.get(self.stage)
        values = row if isinstance(row, dict) else {}
        self.stages[self.stage] = {**values, "state": INTERRUPTED, "finished": self.machine.clock.now()}
        self.write(state="")

    def _output(self, failure: Failure) -> dict[str, str]:
        text = self.outputs.get(failure.module, "")
        return {"output": text} if text else {}

    def write(self, *, state: str = RUNNING, step: str = "", progress: str = "") -> None:
        from azureinit.jsontext import dumps

        if state:
            self.stages[self.stage] = {
                "state": state,
                "started": self.started,
                "finished": None,
                "module": self.module,
                "step": step,
                "progress": progress,
            }
        values = {"state": state or self._state(), "stage": self.stage, "stages": self.stages}
        try:
            self.machine.make_dirs(PLACE, mode=0o700)
            self.machine.write(RESULT, f"{dumps(values)}\n".encode(), mode=0o600, sync=False)
        except AzureInitError:
            pass  # it is for people: the marks decide

    def _state(self) -> str:
        if any(one.get("state") == FAILED for one in self.stages.values() if isinstance(one, dict)):
            return FAILED
        if any(one.get("state") == INTERRUPTED for one in self.stages.values() if isinstance(one, dict)):
            return RUNNING
        return DONE if self.stage == "final" else RUNNING


def read_result(machine: Machine) -> dict[str, Any]:
    """Empty where there is none, or none that can be read."""
    from azureinit.jsontext import loads

    try:
        found = loads((machine.read(RESULT) or b"{}").decode())
    except (AzureInitError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Carrier:
    """Runs modules, and keeps their marks. A failed module does not stop the next one."""

    def __init__(
        self, context: Context, stage: str, marks: Marks, once: Marks, progress: Progress, *, until: float
    ) -> None:
        self.context, self.stage, self.until = context, stage, until
        self.marks, self.once, self.progress = marks, once, progress
        self.failures: list[Failure] = []
        self.watch = Watch(context, stage)
        marks.meanwhile = once.meanwhile = self._prepare_end

    def _prepare_end(self) -> None:
        """While the first program runs, and this process would only wait: what the end of the stage needs is loaded,
        and the listeners write what they have so far."""
        self.marks.meanwhile = self.once.meanwhile = None
        load_syncfs()
        self.context.events.flush()

    def carry(self, modules: tuple[Module, ...], request: Request, *, newer: Request | None = None) -> None:
        """`newer`: for modules that run at every boot."""
        for module in modules:
            given = newer if newer is not None and module.frequency == ALWAYS else request
            if module.name == POWER and not self._is_impossible(module, given):
                continue  # after the verdict
            if not self.do(module, given) and module.veto:
                last = self.failures[-1]
                self.marks.record_failed(replace(last, module=DOCUMENT))
                return

    def _is_impossible(self, module: Module, request: Request) -> bool:
        """Then it fails before the verdict, and not after it."""
        facts = module.facts(self.context.machine, request) if module.asked(request) else None
        return facts is not None and bool(impossible_steps(module.planner(request, facts)))

    def do(self, module: Module, request: Request, *, ends_first: bool = False) -> bool:
        """False: it failed now. `ends_first`: it is marked as finished before it begins, since it ends this process."""
        marks = self.once if module.frequency == ONCE else self.marks
        ended = module.name in marks.finished or module.name in marks.failures
        if not module.asked(request) or (ended and module.frequency != ALWAYS):
            return True
        why = self._why_not(module, marks)
        if why:
            return self._fail(marks, module, LocalError(why))
        try:
            marks.record_started(module.name, stage=self.stage)
            if ends_first:
                self._finish(marks, module)
            with self.context.events.step(f"{NAME} {self.stage}: {module.name}") as span:
                steps = self._enact(module, request, marks)
                span.text = f"{module.name}: {steps} step{'s' if steps != 1 else ''}"
            if not ends_first:
                self._finish(marks, module, changed=steps > 0)
        except Exception as error:  # noqa: BLE001 - a module that fails does not stop the next one
            return self._fail(marks, module, declared(error))
        return True

    def _why_not(self, module: Module, marks: Marks) -> str:
        """Why a module is not tried again that was begun and did not end; empty where it may run."""
        attempts = marks.attempts(module.name)
        if not attempts:
            return ""
        if self.context.config.userdata.interrupted == "fail":
            return 'it was interrupted, and userdata.interrupted is "fail"'
        if attempts >= MOST_BOOTS:
            return f"it was interrupted in {attempts} boots, and is not tried again"
        told = f"{module.name} was interrupted, and runs again (attempt {attempts + 1} of {MOST_BOOTS})"
        self.context.events.tell(WARN, NAME, told)
        return ""

    def _finish(self, marks: Marks, module: Module, *, changed: bool = True) -> None:
        """What the module has done is on the disk before the mark that says so. One that changed nothing needs no sync:
        if its mark is lost, it finds nothing to do again."""
        if changed:
            data_dir = self.context.config.azure_init_data_dir.path
            make_durable(self.context.machine, data_dir, also=("/", "/etc", "/home"))
        marks.record_finished(module.name, sync=changed)

    def _enact(self, module: Module, request: Request, marks: Marks) -> int:
        """Returns how many steps there were."""
        machine, steps = self.context.machine, 0
        for attempt in range(1, MOST_STALE + 1):
            request = replace(request, done=self.marks.done | self.once.done)
            try:
                for plan in plans_of(module, machine, request):
                    self.progress.begin(module.name, plan)
                    self.watch.begin(module.name, plan)
                    tell_cautions(plan, self.context.events)
                    steps += len(work_left(plan))  # also those before a PlanStale: they may have changed something
                    self._parts(module, plan, marks)
            except PlanStale as error:
                if attempt == MOST_STALE:
                    raise
                self.context.events.tell(INFO, NAME, f"{module.name}: {error}: planned again")
            else:
                break
        return steps

    def _parts(self, module: Module, plan: Plan, marks: Marks) -> None:
        """With `apart`, every step is tried; all failures count."""
        failures: list[AzureInitError] = []
        for part in [(step,) for step in work_left(plan)] if module.apart else [plan]:
            try:
                enact(self.context.machine, part, events=self.context.events, deadline=self.until, journal=marks)
            except PlanStale:
                raise
            except AzureInitError as error:
                failures.append(error)
                self._tell_output(module)
        if len(failures) > 1:
            raise CustomDataFailed(module.name, {str(n): error for n, error in enumerate(failures, 1)})
        if failures:
            raise failures[0]

    def _tell_output(self, module: Module) -> None:
        before, text = self.progress.outputs.get(module.name, ""), self.watch.tell_output()
        if text:
            self.progress.outputs[module.name] = f"{before}\n{text}".lstrip("\n")[-MOST_OUTPUT:]

    def _fail(self, marks: Marks, module: Module, error: AzureInitError) -> bool:
        failure = failure_of(error, module=module.name, stage=self.stage, boot=marks.boot)
        self.failures.append(failure)
        self.context.events.tell(ERROR, NAME, f"{self.stage} stage: {failure.text}")
        try:
            marks.record_failed(failure)
        except AzureInitError as another:
            self.context.events.tell(WARN, NAME, str(another))
        return False


def failure_of(error: AzureInitError, *, module: str, stage: str, boot: str) -> Failure:
    if not isinstance(error, StepFailed):
        return Failure(module=module, stage=stage, boot=boot, step=module, errors=(("", str(error), _status(error)),))
    rows = tuple((backend, str(each), _status(each)) for backend, each in error.failures.items())
    return Failure(module=module, stage=stage, boot=boot, step=error.step, errors=rows)


def _status(error: AzureInitError) -> str:
    return error.data.get("exit_status", "")


def error_of(failure: Failure, others: int = 0) -> CustomDataFailed:
    """The failure as it goes to the platform, with the module, and the step that names its line."""
    causes: dict[str, AzureInitError] = {
        backend or "error": LocalError(text) for backend, text, _status in failure.errors
    }
    error = CustomDataFailed(failure.step, causes)
    error.data = {"stage": failure.stage, "module": failure.module}
    status = next((status for _backend, _text, status in failure.errors if status), "")
    error.data |= {"exit_status": status} if status else {}
    error.data |= {"more_failures": str(others)} if others else {}
    return error
