"""A run from above: into the corridor, and whatever happens inside, exactly one verdict leaves the machine."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError, LockTimeout
from azureinit.machine.threads import allocate_lock
from azureinit.record import Record
from azureinit.sources.identity import read_vm_id, stand_down
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.facts.keyhost import KeyHost
    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran
    from azureinit.machine.threads import Flag
    from azureinit.memory.instance import Instance
    from azureinit.memory.journal import Journal
    from azureinit.sources.metadata import Metadata
    from azureinit.telemetry.events import Events
    from azureinit.telemetry.kvp import KvpLayer
    from azureinit.telemetry.otlp import Otlp


class Context(Record):
    """What a run is given."""

    machine: Machine
    config: Config
    events: Events
    started: float
    kvp: KvpLayer | None = None
    otlp: Otlp | None = None

    booted: float | None = None  # when this machine was started, where the run is a boot's
    unmounted: str | None = None  # the mount point below which the data directory will be: not to be looked into yet

    @property
    def deadline(self) -> float:
        own = self.started + self.config.run.deadline_secs
        if self.booted is None:
            return own
        whole = self.config.boot.deadline_secs
        return min(own, max(self.booted + whole, self.started + whole / 3))  # it may be started hours later

    @property
    def sources_deadline(self) -> float:
        """Until then a boot asks sources that are silent; a failure told later might come too late for the platform."""
        if self.booted is None:
            return self.work_deadline
        longest = max(self.config.boot.sources_secs, self.config.imds.total_retry_timeout_secs)
        return min(self.work_deadline, self.started + longest)

    @property
    def work_deadline(self) -> float:
        """The last part of the run is kept for the failure verdict."""
        return self.deadline - min(self.config.run.verdict_reserve_secs, self.config.run.deadline_secs / 2)


class Walk:
    """One run down the corridor: what is known so far, so that a verdict at any point can tell it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.machine, self.config, self.events = context.machine, context.config, context.events
        self.vm_id: str | None = None
        self.instance: Instance | None = None
        self.journal: Journal | None = None
        self.facts: Facts | None = None
        self.metadata: Metadata | None = None
        self.device: str | None = None  # the medium's, to be ejected
        self.previous = ""  # a failure the platform never heard of
        self.former: str | None = None  # the VM this machine was before, where it is to stay as it is
        self.ends_if_done = True  # False where the question is what is left to do
        self.looked_at_network = False
        self.doubts: tuple[str, ...] = ()  # about the admin's login
        self.renamed = False  # the kernel's host name changed, and a lease may have been taken under the old one
        self.remembers = True  # False for someone who may not look into the data directory
        self.sshd: Callable[[float], Ran] | None = None  # asked, and not heard yet
        self.key_host: KeyHost | None = None  # read, and not yet among the facts
        self.own_keys: tuple[str, ...] = ()  # host keys that were missing when the run began
        self.keys: list[Flag] = []  # the host's, being made; each is up when that has ended
        self.in_progress: Flag | None = None  # up at the end of that report
        self.locating = allocate_lock()  # one thread looks for the wireserver, and the others wait for what it finds
        self.located = False
        self.quieting = allocate_lock()  # WALinuxAgent is told by one thread at a time
        self.settles = False  # from here on by the plan
        self.ended = False  # well or not: whether logins go is decided
        self.mended: set[str] = set()  # hosts to which a route was added, or could not be
        self.alone: Metadata | None = None  # what the media said, where it was applied without a word of IMDS
        self.waits_for, self.waits_since = "", 0.0  # told to people while it lasts
        self.trouble: dict[str, AzureInitError | None] = {}  # what has not answered yet, and its last error
        self.warned: set[str] = set()  # what was odd about leases, told once however often they are looked at

    def wait(self, what: str) -> None:
        """What is waited for from now on; nothing, if it is empty."""
        self.trouble = {}
        self.waits_for, self.waits_since = what, self.machine.clock.monotonic()


class AlreadyProvisioned(Exception):
    """Found at any point where the VM's id becomes known: nothing is left to do, and nothing to tell.

    It says by whom, if not by us.
    """


def provision(context: Context) -> int:
    """The exit code."""
    reason = stand_down(context.machine, require_azure=context.config.platform.require_azure)
    if reason is not None:
        context.events.tell(INFO, "platform", reason)
        return 0
    if not may_change(context.machine):
        raise LocalError("only root provisions this machine", hint="azure-init plan shows what would be done")
    walk = Walk(context)
    failure: AzureInitError | None = None
    try:
        if context.config.kernel.entropy:
            from azureinit.run.maintenance import feed_entropy

            feed_entropy(walk)
        identify(walk)
        if context.unmounted is not None:
            raise LocalError(f"the data directory cannot be used: {context.unmounted} is not mounted")
        if context.booted is not None and ready_is_pending(walk):
            context.events.tell(
                INFO, "provision", "provisioned in an earlier boot; azure-init-resend reports Ready again"
            )
            from azureinit.run.maintenance import start_resending

            start_resending(walk)
            return keep_up(walk)
        from azureinit.run.early import begin  # a machine that is done pays for none of it

        begin(walk)
        from azureinit.run.deliver import start_in_progress
        from azureinit.run.gather import gather

        start_in_progress(walk)
        gather(walk)
        from azureinit.run.settle import settle

        settle(walk)
        if walk.alone is not None:
            from azureinit.run.waiting import confirm

            confirm(walk)
    except AlreadyProvisioned as found:
        context.events.tell(INFO, "provision", f"VM {walk.vm_id} is already provisioned{found}: nothing to do")
        return keep_up(walk)
    except LockTimeout as error:
        context.events.tell(WARN, "lock", f"{error}; that run will report")
        return error.exit_code
    except AzureInitError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - the one outermost: whatever happens, one verdict leaves the machine
        failure = unforeseen(error)
    from azureinit.run.deliver import deliver

    return deliver(walk, failure)


def keep_up(walk: Walk) -> int:
    """What every boot of a provisioned machine does."""
    from azureinit.run.maintenance import finish_after_ready, grow, tune, watch_hostname

    watch_hostname(walk)
    grow(walk)
    finish_after_ready(walk)
    tune(walk)
    return 0


def reject(context: Context, error: AzureInitError) -> int:
    """A configuration that cannot be used is a failure like any other, told to the platform we are on."""
    from azureinit.run.deliver import deliver

    stood_down = stand_down(context.machine, require_azure=context.config.platform.require_azure)
    if not may_change(context.machine) or stood_down is not None:
        raise error
    walk = Walk(context)
    try:
        identify(walk)
    except AlreadyProvisioned:
        raise error from None  # the platform has its verdict
    except AzureInitError:
        pass  # the first mistake is the one to tell
    return deliver(walk, error)


def may_change(machine: Machine) -> bool:
    """Whoever may not has no verdict to give either: a passer-by's failure is not the machine's."""
    return machine.privileged or machine.rooted


def identify(walk: Walk) -> None:
    """Without the network; where nothing on this machine tells the id, IMDS may."""
    know(walk, read_vm_id(walk.machine, walk.config.platform.vm_id))


def know(walk: Walk, vm_id: str | None) -> None:
    """Who we are; and whether that one is provisioned."""
    from azureinit.memory.instance import Instance, marker, was_here_before_us

    walk.vm_id = vm_id
    if vm_id is not None:
        walk.events.about["vm_id"] = vm_id
    if vm_id is not None and walk.context.unmounted is None:
        walk.instance = Instance(data_dir=walk.config.azure_init_data_dir.path, vm_id=vm_id)
        if walk.ends_if_done and marker(walk.machine, walk.instance):
            raise AlreadyProvisioned
        if walk.ends_if_done and was_here_before_us(walk.machine, walk.instance, walk.config.waagent.lib_dir):
            raise AlreadyProvisioned(" by WALinuxAgent")


def ready_is_pending(walk: Walk) -> bool:
    """Everything was done, and the platform has not accepted it yet."""
    from azureinit.memory.instance import read_pending

    pending = read_pending(walk.machine, walk.instance) if walk.instance is not None else None
    return pending is not None and pending.get("verdict") == "ready"


def unforeseen(error: Exception) -> AzureInitError:
    """A bug of ours, told with the line it happened on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else ""
    if isinstance(error, OSError):
        return LocalError(f"{type(error).__name__}: {error}{where}")
    return AzureInitError(f"{type(error).__name__}: {error}{where}")
