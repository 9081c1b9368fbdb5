"""What a boot runs, as rows. `azure-init --stage NAME` runs one; without a stage it is the run itself."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.plan.plan import Planner

VERDICT, FAILURE, NOTHING = "one verdict", "a failure, unless a verdict has left", "nothing"


def _no_planners() -> tuple[Planner, ...]:
    return ()


def _local_planners() -> tuple[Planner, ...]:
    from azureinit.plan.plan import LOCAL

    return LOCAL


def _provision_planners() -> tuple[Planner, ...]:
    from azureinit.plan.provision import PROVISION

    return PROVISION


class Stage(Record):
    """`sources` are asked; `planners` are the rows of plan/, which name the parts of the facts that are read."""

    name: str
    unit: str
    sources: tuple[str, ...] = ()
    planners: Callable[[], tuple[Planner, ...]] = _no_planners
    tells: str = NOTHING
    before_mounts: bool = False  # it may run before the data directory and the log are mounted
    ends_if_done: bool = True  # nothing to do on a machine that is provisioned


STAGES: tuple[Stage, ...] = (
    # The host name before DHCP asks for an address under it. Its failures are for the run to report.
    Stage(
        name="local",
        unit="azure-init-local.service",
        sources=("media",),
        planners=_local_planners,
        before_mounts=True,
    ),
    Stage(
        name="provision",
        unit="azure-init.service",
        sources=("imds", "media", "wireserver"),
        planners=_provision_planners,
        tells=VERDICT,
    ),
    # The run died or took too long.
    Stage(name="failed", unit="azure-init-failure.service", tells=FAILURE, before_mounts=True),
    # Everything was done, and the platform has not accepted Ready yet.
    Stage(
        name="resend",
        unit="azure-init-resend.service",
        sources=("imds", "media", "wireserver"),
        planners=_provision_planners,
        tells=VERDICT,
    ),
    # The host name may change as long as the machine runs, and DNS is to know.
    Stage(name="hostname", unit="azure-init-hostname.service", ends_if_done=False),
)


def find_stage(name: str) -> Stage:
    """Without a name: the run itself."""
    return next(row for row in STAGES if row.name == (name or "provision"))
