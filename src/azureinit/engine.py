"""The corridor: gather, plan, apply, report. Whatever happens inside, exactly one verdict leaves the machine."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError, LockTimeout, NotConverged, PlanStale, VmIdUnknown
from azureinit.record import Record, replace
from azureinit.sources.identity import is_azure, read_vm_id
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.apply.instance import Instance
    from azureinit.apply.journal import Journal
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.plan.actions import Plan
    from azureinit.sources.metadata import Metadata
    from azureinit.telemetry.events import Events

MOST_PLANS = 3  # a file that keeps changing under us is someone else's fight
DAY = 86400


class Context(Record):
    """What a run is given."""

    machine: Machine
    config: Config
    events: Events
    started: float

    @property
    def deadline(self) -> float:
        return self.started + self.config.run.deadline_secs

    @property
    def work_deadline(self) -> float:
        """The last part of the run is kept for the failure verdict."""
        return self.deadline - min(self.config.run.verdict_reserve_secs, self.config.run.deadline_secs / 2)


class Walk:
    """One run down the corridor: what is known so far, so that a verdict at any point can tell it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.machine, self.config, self.events = context.machine, context.config, context.events
        self.vm_id = read_vm_id(self.machine, self.config.platform.vm_id)
        self.metadata: Metadata | None = None
        self.instance: Instance | None = None
        self.journal: Journal | None = None
        self.facts: Facts | None = None
        self.device: str | None = None
        self.previous = ""


def provision(context: Context) -> int:
    """The exit code."""
    if context.config.platform.require_azure and not is_azure(context.machine):
        context.events.tell(INFO, "platform", "this is not an Azure VM (platform.require_azure): nothing to do")
        return 0
    if not may_change(context.machine):
        raise LocalError("only root provisions this machine", hint="azure-init plan shows what would be done")
    walk = Walk(context)
    if is_provisioned(walk):
        return 0
    from azureinit.apply.instance import prepare
    from azureinit.deliver import deliver, start_in_progress

    in_progress: Callable[[], None] = _nothing
    failure: AzureInitError | None = None
    try:
        prepare(context.machine, context.config.azure_init_data_dir.path, deadline=context.work_deadline)
        if is_provisioned(walk):  # by the run we waited for
            return 0
        in_progress = start_in_progress(walk)
        gather(walk)
        if is_provisioned(walk):  # the VM id came from IMDS
            return 0
        settle(walk)
    except LockTimeout as error:
        context.events.tell(WARN, "lock", f"{error}; that run reports")
        return error.exit_code
    except AzureInitError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - the one outermost: whatever happens, one verdict leaves the machine
        failure = unforeseen(error)
    in_progress()
    return deliver(walk, failure)


def _nothing() -> None:
    pass


def may_change(machine: Machine) -> bool:
    """Whoever may not has no verdict to give either: a passer-by's failure is not the machine's."""
    return machine.privileged or machine.rooted


def is_provisioned(walk: Walk) -> bool:
    if walk.vm_id is None:
        return False
    from azureinit.apply.instance import Instance, marker

    walk.instance = Instance(data_dir=walk.config.azure_init_data_dir.path, vm_id=walk.vm_id)
    if not marker(walk.machine, walk.instance):
        return False
    walk.events.tell(INFO, "provision", f"VM {walk.vm_id} is already provisioned: nothing to do")
    return True


def reject(context: Context, error: AzureInitError) -> int:
    """A configuration that cannot be used is a failure like any other, told to the platform we are on."""
    from azureinit.deliver import deliver

    if not may_change(context.machine) or (context.config.platform.require_azure and not is_azure(context.machine)):
        raise error
    return deliver(Walk(context), error)


def gather(walk: Walk, *, change: bool = True) -> None:
    """Facts are read while the sources are asked. Without `change` nothing on this machine is touched."""
    from azureinit.apply.instance import Instance, read_pending, read_saved
    from azureinit.apply.journal import clear_leftovers, read_journal
    from azureinit.facts.gather import read_facts
    from azureinit.sources.gather import ask_sources, from_saved
    from azureinit.sources.metadata import merge

    machine, config, events = walk.machine, walk.config, walk.events
    with events.step("metadata") as span:
        finish = ask_sources(machine, config, deadline=walk.context.work_deadline, observe=events.observe)
        walk.facts = read_facts(machine, config)
        gathered = finish()
        answers = dict(gathered.answers)
        walk.vm_id = walk.vm_id or (answers["imds"].vm_id if "imds" in answers else None)
        if walk.vm_id is None:
            told = "; ".join(f"{name}: {error}" for name, error in gathered.failures.items())
            raise VmIdUnknown(f"neither the firmware nor IMDS tells the VM id; {told}", hint="set platform.vm_id")
        walk.instance = Instance(data_dir=config.azure_init_data_dir.path, vm_id=walk.vm_id)
        walk.journal = read_journal(machine, walk.instance.path("journal"))
        walk.previous = (read_pending(machine, walk.instance) or {}).get("failure", "")
        saved = read_saved(machine, walk.instance) if "media" not in answers else None
        if saved is not None:
            answers["saved"] = from_saved(saved)
        walk.metadata, walk.device = merge(answers), gathered.device
        span.text = " and ".join(answers) or "no source answered"
    for name, error in gathered.failures.items():
        events.tell(WARN, name, str(error))
    for warning in walk.metadata.warnings:
        events.tell(WARN, "metadata", warning)
    if change:
        for path in clear_leftovers(machine, walk.journal):
            events.tell(INFO, "leftover", f"removed {path} of a run that died")
    accept_metadata(walk, gathered.failures)
    if change:
        from azureinit.deliver import save

        save(walk)


def accept_metadata(walk: Walk, failures: dict[str, AzureInitError]) -> None:
    """Complete, or nothing asked at all; the password becomes a hash here and is never seen again."""
    from azureinit.errors import MediaAbsent
    from azureinit.sources.metadata import check_complete, is_specialised

    assert walk.metadata is not None
    if is_specialised(walk.metadata) and "imds" not in failures and isinstance(failures.get("media"), MediaAbsent):
        walk.events.tell(INFO, "metadata", "specialised VM: the platform asks for nothing")
        return
    check_complete(walk.metadata, failures)
    if walk.metadata.password is not None:
        from azureinit.machine.crypt import hash_password

        hashed = hash_password(walk.machine, walk.metadata.password)
        walk.metadata = replace(walk.metadata, password=None, password_hash=hashed)


def settle(walk: Walk) -> None:
    """Plan and apply; then plan again, and anything left is a failure with a name."""
    from azureinit.apply.executor import apply_plan
    from azureinit.plan.actions import Caution
    from azureinit.plan.plan import work_left

    assert walk.journal is not None
    for attempt in range(MOST_PLANS):
        plan = plan_for(walk)
        for item in plan:
            if isinstance(item, Caution):
                walk.events.tell(WARN, item.name, item.why)
        if not work_left(plan):
            return
        try:
            apply_plan(
                walk.machine, plan, journal=walk.journal, events=walk.events, deadline=walk.context.work_deadline
            )
            break
        except PlanStale:
            if attempt + 1 == MOST_PLANS:
                raise
            reread(walk)
    reread(walk)
    left = work_left(plan_for(walk))
    if left:
        names = ", ".join(f"{step.name} ({step.why})" for step in left)
        raise NotConverged(f"after provisioning there is still something to do: {names}")


def plan_for(walk: Walk) -> Plan:
    from azureinit.facts.ssh import read_keys_files
    from azureinit.plan.keys import key_paths
    from azureinit.plan.plan import home_of, make_plan
    from azureinit.sources.metadata import is_specialised

    assert walk.metadata is not None and walk.facts is not None and walk.journal is not None
    if is_specialised(walk.metadata):
        return ()
    username = walk.metadata.username or ""
    home = home_of(username, walk.facts)
    paths = key_paths(username=username, home=home, keys=walk.metadata.keys, facts=walk.facts, config=walk.config)
    keys_files = read_keys_files(walk.machine, home=home, paths=paths)
    return make_plan(
        metadata=walk.metadata,
        facts=replace(walk.facts, keys_files=keys_files),
        config=walk.config,
        done=walk.journal.done,
        today=int(walk.machine.clock.now() // DAY),
    )


def reread(walk: Walk) -> None:
    from azureinit.facts.gather import read_facts

    walk.facts = read_facts(walk.machine, walk.config, before=walk.facts)


def unforeseen(error: Exception) -> AzureInitError:
    """A bug of ours, told with the line it happened on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else ""
    if isinstance(error, OSError):
        return LocalError(f"{type(error).__name__}: {error}{where}")
    return AzureInitError(f"{type(error).__name__}: {error}{where}")
