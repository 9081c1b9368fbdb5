"""The stages of a boot, as rows. `azure-init --stage NAME` runs one; `azure-init` alone runs `provision`."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.plan.plan import Planner

VERDICT, FAILURE, NOTHING = "one verdict", "a failure, unless a verdict has left", "nothing"
SCRIPTS = "/etc/azure-init/scripts"  # directories of scripts, which the stages of customData run
# What one stage of a boot leaves for the next one. The media ask for pre-provisioning; the host name before this boot.
POOL_HINT, FORMER_NAME = "/run/azure-init/pool", "/run/azure-init/former-name"
NAME_FILES = ("/etc/hostname", "/etc/hosts")
AWAITED = "one verdict, where readiness.at names the stage"


def _no_planners() -> tuple[Planner, ...]:
    return ()


def _local_planners() -> tuple[Planner, ...]:
    from azureinit.plan.plan import LOCAL

    return LOCAL


def _provision_planners() -> tuple[Planner, ...]:
    from azureinit.plan.provision import PROVISION

    return PROVISION


class Stage(Record):
    """`sources`: those that the stage asks. `planners`: rows of plan/, which name the parts of the facts to read."""

    name: str
    unit: str
    sources: tuple[str, ...] = ()
    planners: Callable[[], tuple[Planner, ...]] = _no_planners
    tells: str = NOTHING
    before_mounts: bool = False  # it may run before the data directory and the log are mounted
    ends_if_done: bool = True  # nothing to do on a machine that is provisioned
    beside_cloud_init: bool = False  # it works also on a machine that cloud-init provisions
    to_host: bool = False  # its warnings go to the key-value pool, although it has no verdict


STAGES: tuple[Stage, ...] = (
    # Sets the host name before DHCP sends it. The run meets the same failures and reports them.
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
    # Reports that the run died or took too long.
    Stage(name="failed", unit="azure-init-failure.service", tells=FAILURE, before_mounts=True),
    # Sends Ready again, if the platform has not accepted it yet.
    Stage(
        name="resend",
        unit="azure-init-resend.service",
        sources=("imds", "media", "wireserver"),
        planners=_provision_planners,
        tells=VERDICT,
    ),
    # Registers later changes of the host name in DNS.
    Stage(name="hostname", unit="azure-init-hostname.service", ends_if_done=False),
    # Follows NICs and addresses that change while the machine runs.
    Stage(name="addresses", unit="azure-init-network.service", ends_if_done=False),
    # Sets up the temporary disks: it may swap and mount, and no login waits for it.
    Stage(name="disk", unit="azure-init-disk.service", ends_if_done=False, beside_cloud_init=True, to_host=True),
    # Carry out customData. Their planners are the rows in network_modules, config_modules and final_modules.
    Stage(name="network", unit="azure-init-userdata-network.service", tells=AWAITED, ends_if_done=False),
    Stage(name="config", unit="azure-init-userdata-config.service", tells=AWAITED, ends_if_done=False),
    Stage(name="final", unit="azure-init-userdata-final.service", tells=AWAITED, ends_if_done=False),
    # Reports a failure if customData has not ended by readiness.deadline_secs.
    Stage(name="deadline", unit="azure-init-deadline.service", tells=AWAITED),
)


def find_stage(name: str) -> Stage:
    """The row of that name; without a name, that of `provision`."""
    return next(row for row in STAGES if row.name == (name or "provision"))
