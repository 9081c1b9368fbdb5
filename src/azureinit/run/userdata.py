"""The stages of customData: network, before logins; config, with the network; final. And their deadline.

Each reads the copy that the first boot saved, and runs the modules that are due. /run/azure-init/userdata.json shows
what they came to; the marks in `<vm id>.modules` decide. Where readiness.at names a stage, that stage ends with the
verdict.
"""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.memory.instance import Instance, is_marked
from azureinit.memory.modules import DOCUMENT, Failure, once_path, read_marks
from azureinit.memory.pending import AWAITS, read_pending
from azureinit.memory.pool import begun_moment
from azureinit.plan.actions import work_left
from azureinit.run import conclude
from azureinit.run.awaited import LOCK_SECS, has_verdict, holds_verdict, report_failure, timed_from_now
from azureinit.run.carry import LOCK, NAME, PLACE, POWER, Carrier, Progress, error_of, read_result
from azureinit.run.enact import best_effort, remove_leftovers
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import CONFIG, FINAL, NETWORK
from azureinit.run.serving import has_scripts, is_on
from azureinit.run.state import Identity, Outcome, Stopped, known_of
from azureinit.run.termination import SigtermStops
from azureinit.telemetry.events import ERROR, INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.modules.request import Request
    from azureinit.run.state import Context

STAGES = (NETWORK, CONFIG, FINAL)
CONFIG_IDLE = f"{PLACE}/config-idle"
PARSED = f"{PLACE}/customdata.json"  # the document as the network stage has parsed it
PAUSE = 1.0
UNCHECKED = "the network stage did not end, and has not checked the document"
ADMIN_CHECK = "admin_check"  # the module that may refuse the document


def userdata(context: Context, identity: Identity, stage: str) -> int:
    """Returns the exit code: 1 if a module failed."""
    instance = identity.instance or only_instance(context)
    if instance is None or not is_on(context.config):
        why = "no VM id is known" if instance is None else "switched off"
        context.events.tell(INFO, NAME, f"nothing to do: {why}")
        return 0
    machine = context.machine
    if machine.stat(instance.path("userdata")) is None and not is_marked(machine, instance):
        context.events.tell(INFO, NAME, "nothing to do: this VM is not provisioned, see azure-init.service")
        return 0
    machine.make_dirs(PLACE, mode=0o700)
    machine.hold(LOCK, timeout=LOCK_SECS)
    identity = Identity(vm_id=instance.vm_id, instance=instance)
    work = Work(context, identity, instance, stage)
    try:
        status = work.run()
    except Stopped:
        work.interrupt()
        return 0
    work.deliver()
    work.power()
    return status


def only_instance(context: Context) -> Instance | None:
    """Where the firmware has no VM id, IMDS gave it to the run: the one VM whose customData was saved."""
    data_dir = context.config.azure_init_data_dir.path
    names = [name for name in context.machine.names(data_dir) or () if name.endswith(".userdata")]
    return Instance(data_dir=data_dir, vm_id=names[0].rpartition(".")[0]) if len(names) == 1 else None


class Work:
    """One stage: its modules, the verdict, and last the module that may end the boot."""

    def __init__(self, context: Context, identity: Identity, instance: Instance, stage: str) -> None:
        self.context, self.identity, self.instance, self.stage = context, identity, instance, stage
        self.marks = read_marks(context.machine, instance.path("modules"))
        self.once = read_marks(context.machine, once_path(instance))
        self.progress = Progress(context.machine, stage)
        limit = {NETWORK: "network_secs", CONFIG: "config_secs", FINAL: "final_secs"}[stage]
        self.until = context.started + float(getattr(context.config.userdata, limit))
        self.carrier = Carrier(context, stage, self.marks, self.once, self.progress, until=self.until)
        self.request: Request | None = None
        pending = read_pending(context.machine, instance)
        self.awaited = pending is not None and pending.verdict == AWAITS
        self.later = self.marks.asked is not None and self.marks.first_boot != self.marks.boot

    def run(self) -> int:
        context = self.context
        context.events.listeners = (*context.events.listeners, self.progress, self.carrier.watch)
        why = self._why_idle()
        if why:
            context.events.tell(INFO, NAME, f"{self.stage} stage: {why}")
            self.progress.end(self._known_failures())
            self._prepare_next()
            self._tell_others()
            return 0
        self.progress.begin("")
        self._tell_others()
        self._end_program()
        for marks in (self.marks, self.once):
            remove_leftovers(context.machine, marks, context.events)
        try:
            with SigtermStops(context, always=True):
                self.request = self._read()
                if self.request is not None:
                    self.carrier.carry(modules_of(self.stage), self.request, newer=self._read_newer(self.request))
        except AzureInitError as error:  # the marks cannot be written
            self._fail(self.stage, (("", str(error), ""),))
        failures = self.carrier.failures
        self.carrier.watch.end()
        self.progress.end(failures)
        self._prepare_next()
        self._tell_others()
        return AzureInitError.exit_code if failures else 0

    def _known_failures(self) -> list[Failure]:
        """Of a stage without work: the document that an earlier boot has refused; or, where the stage is started again,
        what has failed in this boot."""
        refused = self.marks.failures.get(DOCUMENT)
        if refused is not None:
            return [refused] if self.stage == NETWORK else []
        found = (*self.marks.failures.values(), *self.once.failures.values())
        return [one for one in found if one.stage == self.stage and one.boot == self.marks.boot]

    def _prepare_next(self) -> None:
        """Where the config stage has nothing to do, a file tells systemd not to start it: saves one program, about
        50 ms, before the final stage. A network stage that dies leaves no such file. After the final stage no other
        needs the parsed document."""
        if self.stage == FINAL:
            best_effort(self.context.events, NAME, lambda: self.context.machine.remove(PARSED))
        if self.stage != NETWORK:
            return
        machine, config = self.context.machine, self.context.config
        refused = DOCUMENT in self.marks.failures
        idle = refused or (self.marks.asked is not None and not self.marks.has_work(CONFIG, once=self.once.ended))
        if idle and config.readiness.at != CONFIG and not config.userdata.refresh and not self._is_compatible():
            best_effort(self.context.events, NAME, lambda: machine.write(CONFIG_IDLE, b"", mode=0o600, sync=False))
        else:
            best_effort(self.context.events, NAME, lambda: machine.remove(CONFIG_IDLE))

    def _is_compatible(self) -> bool:
        """Other programs look for each stage of cloud-init."""
        return self.context.config.userdata.cloud_init_compat

    def interrupt(self) -> None:
        """SIGTERM: the programs of the module have been ended. It is marked as begun: the next boot goes on with it."""
        self.carrier.watch.end()
        told = f"{self.progress.module or 'nothing'} was interrupted by SIGTERM: the next boot goes on"
        self.context.events.tell(WARN, NAME, f"{self.stage} stage: {told}")
        self.progress.interrupt()

    def _end_program(self) -> None:
        """A stage that was killed leaves its program running. Its module runs again: not both at the same time."""
        for marks in (self.marks, self.once):
            if marks.program is not None and not self.context.machine.rooted:
                from azureinit.machine.groups import end_group

                if end_group(self.context.machine, marks.program):
                    told = f"a program (process {marks.program.pid}) of a stage that was killed still ran: it was ended"
                    self.context.events.tell(WARN, NAME, told)
                marks.record_program_ended()

    def _why_idle(self) -> str:
        if DOCUMENT in self.marks.failures:
            return "nothing is carried out, because customData has errors or was refused"
        scripts = self.stage == FINAL and has_scripts(self.context.machine, self.context.config)
        refreshes = self.context.config.userdata.refresh  # the newer document may have work for any stage
        if not self.marks.has_work(self.stage, once=self.once.ended) and not scripts and not refreshes:
            return "nothing is due"
        if self.context.config.userdata.after_failure == "stop" and self._failed_before():
            return 'left out: an earlier stage failed, and userdata.after_failure is "stop"'
        return ""

    def _failed_before(self) -> bool:
        """Or did not come to its end, as where it was killed."""
        earlier = STAGES[: STAGES.index(self.stage)]
        found = (*self.marks.failures.values(), *self.once.failures.values())
        if any(one.stage in earlier and one.boot == self.marks.boot for one in found):
            return True
        begun, ended = (*self.marks.interrupted, *self.once.interrupted), self.marks.ended | self.once.ended
        asked = self.marks.asked or {}
        return any(name in begun or name not in ended for stage in earlier for name in asked.get(stage, {}))

    def _tell_others(self) -> None:
        """The files in which other programs look for cloud-init's state."""
        if not self._is_compatible():
            return
        from azureinit.memory.userdata import read_userdata
        from azureinit.run.compat import write_compat

        saved = read_userdata(self.context.machine, self.instance)
        write_compat(self.context, read_result(self.context.machine), vm_id=self.instance.vm_id, saved=saved)

    # ---- the document

    def _read(self) -> Request | None:
        """None where the document has errors: nothing of it is carried out, in no stage."""
        from azureinit.run.request import in_words, make_request, read_customdata, saved_userdata

        saved, directory = saved_userdata(self.context, self.instance), self.instance.path("d")
        self.context.machine.make_dirs(directory, mode=0o700)
        first = self.stage == NETWORK
        if not first and self._is_unchecked():
            self._fail(DOCUMENT, (("", self._why_unchecked(), ""),), stage=NETWORK)
            return None
        document = read_customdata(
            self.context,
            saved,
            vm_id=self.instance.vm_id,
            directory=directory,
            deadline=self.until,
            fetch=first,
            earlier_only=not first,
            parsed=PARSED,
        )
        for one in document.findings:
            if one not in document.errors:
                self.context.events.tell(WARN, saved.source or NAME, in_words(one))
        if document.errors:
            self._fail(DOCUMENT, tuple(("", in_words(one), "") for one in document.errors))
            return None
        request = make_request(self.context, saved, document, vm_id=self.instance.vm_id, directory=directory)
        if self.marks.asked is None:
            self.marks.record_asked({stage: _asked(stage, request) for stage in STAGES})
        return request

    def _is_unchecked(self) -> bool:
        """The network stage was killed before it had read and checked the document: the next boot does that."""
        asked = self.marks.asked
        return asked is None or (ADMIN_CHECK in asked.get(NETWORK, {}) and ADMIN_CHECK not in self.marks.ended)

    def _why_unchecked(self) -> str:
        """With the failure of that stage in this boot, which the marks do not hold where they cannot be written."""
        row = self.progress.stages.get(NETWORK)
        found = row.get("failures") if isinstance(row, dict) else None
        texts = [str(one.get("message", "")) for one in found or () if isinstance(one, dict)]
        return "; ".join([UNCHECKED, *texts[:1]])

    def _read_newer(self, request: Request) -> Request | None:
        """What runs at every boot is given this where userdata.refresh is set and userData has changed."""
        if not self.context.config.userdata.refresh or not self.later:
            return None
        from azureinit.run.refresh import read_refreshed, refresh, refreshed_place
        from azureinit.run.request import in_words, make_request, read_customdata, saved_userdata

        saved, directory = saved_userdata(self.context, self.instance), request.directory
        first = self.stage == NETWORK
        newer = (refresh if first else read_refreshed)(self.context, saved, directory)
        if newer is None:
            return None
        document = read_customdata(
            self.context,
            newer,
            vm_id=self.instance.vm_id,
            directory=refreshed_place(directory),
            deadline=self.until,
            fetch=first,
            earlier_only=not first,
        )
        if document.errors:
            told = tuple(("", in_words(one), "") for one in document.errors)
            failure = Failure(module=newer.source, stage=self.stage, boot=self.marks.boot, step=NAME, errors=told)
            self.carrier.failures.append(failure)
            self.context.events.tell(ERROR, NAME, f"the changed document is not used: {failure.text}")
            return None
        return make_request(self.context, newer, document, vm_id=self.instance.vm_id, directory=directory)

    def _fail(self, module: str, errors: tuple[tuple[str, str, str], ...], *, stage: str = "") -> None:
        """`stage`: an earlier one. This one cannot do its work, and the document is not refused for later boots."""
        boot = self.marks.boot
        failure = Failure(module=module, stage=stage or self.stage, boot=boot, step=NAME, errors=errors)
        self.carrier.failures.append(failure)
        self.context.events.tell(ERROR, NAME, f"{self.stage} stage: nothing is carried out: {failure.text}")
        if module == DOCUMENT and not stage:
            self.marks.record_failed(failure)

    # ---- the verdict

    def deliver(self) -> None:
        if self.context.config.readiness.at != self.stage:
            return
        context = timed_from_now(self.context)
        if not holds_verdict(context, self.instance, replaces=True, awaited=self.awaited):
            return
        failures = self._failures()
        if failures:
            report_failure(context, self.identity, error_of(failures[0], len(failures) - 1))
            return
        from azureinit.run.readiness import settled_before

        try:
            settled = settled_before(context, self.identity)
        except AzureInitError as error:  # such as LoginImpossible
            report_failure(context, self.identity, error)
            return
        conclude(context, None, Outcome(known=known_of(settled.asked), settled=settled))

    def _failures(self) -> list[Failure]:
        """Of this stage and those before it: modules that failed, and those that did not end."""
        until = STAGES[: STAGES.index(self.stage) + 1]
        found = [*self.carrier.failures]
        kept = (*self.marks.failures.values(), *self.once.failures.values())
        found += [one for one in kept if one.stage in until and one not in found]
        failed, boot = {one.module for one in found}, self.marks.boot
        if self.marks.asked is None and not failed:
            told = (("", self._why_unchecked(), ""),)
            return [Failure(module=DOCUMENT, stage=NETWORK, boot=boot, step=NAME, errors=told)]
        ended = self.marks.ended | self.once.ended
        asked = self.marks.asked or {}
        left = {name: stage for stage in until for name in asked.get(stage, {}) if name not in ended and name != POWER}
        left.update(dict.fromkeys((*self.marks.interrupted, *self.once.interrupted), self.stage))
        told = (("", "it was interrupted, or never begun", ""),)
        found += [
            Failure(module=name, stage=stage, boot=boot, step=name, errors=told)
            for name, stage in left.items()
            if name not in failed
        ]
        return [one for one in found if one.module == DOCUMENT] or found

    # ---- the end

    def power(self) -> None:
        """The module that shuts down or reboots: after the verdict, or when it can be waited for no longer."""
        if self.stage != FINAL or self.request is None:
            return
        row = next((one for one in modules_of(FINAL) if one.name == POWER), None)
        if row is None or not row.asked(self.request) or POWER in self.marks.ended:
            return
        plan = row.planner(self.request, row.facts(self.context.machine, self.request))
        if work_left(plan):  # else its condition is false, or no package needs a reboot
            self._await_verdict()
        self.carrier.until = self.context.machine.clock.monotonic() + self.context.config.userdata.final_secs
        self.carrier.do(row, self.request, ends_first=True)
        self.progress.end(self.carrier.failures)

    def _await_verdict(self) -> None:
        machine = self.context.machine
        until = begun_moment(machine) + self.context.config.readiness.deadline_secs
        told = False
        while not has_verdict(machine, self.instance) and machine.clock.monotonic() < until:
            if not told:
                self.context.events.tell(INFO, NAME, f"{POWER} waits until the platform has accepted the verdict")
            told = True
            machine.clock.sleep(PAUSE)


def _asked(stage: str, request: Request) -> dict[str, str]:
    """The modules that a later boot looks at. Script directories it looks into itself."""
    from azureinit.userdata.values import PER_BOOT, PER_INSTANCE, PER_ONCE

    kinds = {"scripts_per_boot": PER_BOOT, "scripts_per_instance": PER_INSTANCE, "scripts_per_once": PER_ONCE}
    given = {part.kind for part in request.parts}
    rows = [row for row in modules_of(stage) if row.asked(request)]
    return {row.name: row.frequency for row in rows if kinds.get(row.name) is None or kinds[row.name] in given}
