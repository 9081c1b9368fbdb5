"""The records that the phases of a run hand to each other. None of them can be changed."""

from __future__ import annotations

from azureinit.errors import AzureInitError, LocalError, Terminated
from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance
    from azureinit.memory.journal import Journal
    from azureinit.memory.pool import Marker
    from azureinit.record import Secret
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

    booted: float | None = None  # when this machine was started; None where the run is not a service of a boot
    ends: float = float("inf")  # the deadline, where something ends the run earlier
    unmounted: str | None = None  # a mount point above the data directory that is not mounted: nothing is read there
    reprovision: Secret | None = None  # the customer's ovf-env.xml, where this run has waited in a pool for it
    again: bool = False  # this process has run before, in a pool, and holds the lock

    @property
    def deadline(self) -> float:
        own = min(self.started + self.config.run.deadline_secs, self.ends)
        if self.booted is None:
            return own
        whole = self.config.boot.deadline_secs
        return min(own, max(self.booted + whole, self.started + whole / 3))  # the service may be started hours later

    @property
    def sources_deadline(self) -> float:
        """When a boot stops asking silent sources, so that the failure reaches the platform in time."""
        if self.booted is None:
            return self.work_deadline
        longest = max(self.config.boot.sources_secs, self.config.imds.total_retry_timeout_secs)
        return min(self.work_deadline, self.started + longest)

    @property
    def work_deadline(self) -> float:
        """The last part of the run is reserved for the failure verdict."""
        return self.deadline - min(self.config.run.verdict_reserve_secs, self.config.run.deadline_secs / 2)


class Identity(Record):
    """The VM's id, and its files in the data directory; None as long as neither firmware nor IMDS has given it."""

    vm_id: str | None = None
    instance: Instance | None = None


class Memory(Record):
    """What earlier runs of this VM left. The journal alone grows during the run."""

    journal: Journal
    readable: bool = True  # False: the caller may not read the data directory
    saved: Metadata | None = None  # what the media said
    previous: str = ""  # the reason of a failure that never reached the platform
    unconfirmed: Metadata | None = None  # media that were applied before IMDS could be asked
    waits: Marker | None = None  # an earlier run has reported Ready in a pool, or ended while it did so
    pool: Marker | None = None  # this VM was taken from a pool


class Asked(Record):
    """What this machine is to be, and the facts as they were before anything changed.

    `metadata` is None where the machine keeps the state that it had under `previous_id`.
    """

    identity: Identity
    memory: Memory
    facts: Facts
    metadata: Metadata | None = None
    previous_id: str | None = None  # "" where nothing records which VM this machine was
    device: str | None = None  # the drive that holds the media
    unconfirmed: Metadata | None = None  # set where the media are applied and IMDS has not agreed yet
    pps_type: str | None = None  # set where the platform asks this VM to wait in a pool; then `metadata` is None
    imds_id: str | None = None  # the VM's id as IMDS tells it, where `pps_type` is set


class Settled(Record):
    """The machine after the plan is empty."""

    asked: Asked
    facts: Facts
    renamed: bool = False  # the host name changed, and DHCP may have published the old one
    doubts: tuple[str, ...] = ()  # about the admin's login; they go with Ready
    served: bool = False  # customData is left to its stages
    awaits: bool = False  # one of them reports the verdict
    failures: tuple[str, ...] = ()  # of modules of customData; they go with Ready


class Known(Record):
    """What is known for the report at the moment of a failure."""

    identity: Identity = Identity()
    metadata: Metadata | None = None
    previous: str = ""
    unconfirmed: bool = False
    pps_type: str | None = None
    # The platform has accepted a pool's Ready, and no customer has the VM: no verdict. None: the marker alone tells.
    waits: bool | None = None
    # customData has failed on a provisioned machine: once the platform has accepted that, no later boot adds a verdict.
    ends: bool = False


class Outcome(Record):
    """What a run came to: the machine that was asked for, or a failure."""

    known: Known
    settled: Settled | None = None
    failure: AzureInitError | None = None
    stopped: float | None = None  # when SIGTERM arrived, on the monotonic clock


def known_of(asked: Asked) -> Known:
    return Known(
        identity=asked.identity,
        metadata=asked.metadata,
        previous=asked.memory.previous,
        unconfirmed=asked.unconfirmed is not None,
        pps_type=asked.memory.pool.type if asked.memory.pool is not None else None,
    )


class AlreadyProvisioned(Exception):
    """Nothing is left to do or to report. The text names the agent that provisioned the VM, if it was another one."""

    def __init__(self, identity: Identity, by: str = "") -> None:
        super().__init__(by)
        self.identity = identity


class Reused(Exception):
    """A customer has got this VM from its pool: the run starts over, with this context."""

    def __init__(self, context: Context) -> None:
        super().__init__("the customer's data have arrived")
        self.context = context


class Stopped(BaseException):
    """SIGTERM arrived, `at` on the monotonic clock. Not an Exception: no handler for errors must hold it up."""

    def __init__(self, at: float) -> None:
        super().__init__("SIGTERM")
        self.at = at


class Knowing:
    """A block of work. An exception that leaves it carries in `known` what the report may contain by then."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def learn(self, **values: Any) -> None:
        self.known = replace(self.known, **values)

    def __enter__(self) -> Knowing:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not hasattr(error, "known"):
            error.known = self.known  # type: ignore[attr-defined]


def known_to(error: BaseException) -> Known:
    found = getattr(error, "known", None)
    return found if isinstance(found, Known) else Known()


def declared(error: BaseException) -> AzureInitError:
    """The error as it is; a defect of this program as an error that names the line it happened on."""
    if isinstance(error, AzureInitError):
        return error
    if isinstance(error, Stopped):
        return Terminated("azure-init was stopped by SIGTERM before it had a verdict")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else ""
    kind = LocalError if isinstance(error, OSError) else AzureInitError
    return kind(f"{type(error).__name__}: {error}{where}")
