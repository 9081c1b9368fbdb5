"""Verdicts that are still to be delivered, and the verdict of this boot.

<vm id>.pending           a verdict that the platform has not accepted; on the disk, for later boots
/run/azure-init/verdict   the verdict of this boot, so that azure-init-failure.service does not contradict it
"""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.memory.instance import read_sealed
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance

VERDICT = "/run/azure-init/verdict"
READY, FAILURE, UNFINISHED = "ready", "failure", "unfinished"
READY_IN_POOL = "ready in the pool"  # accepted, of a VM whose disk becomes an image
AWAITS = "awaits customData"  # the machine is provisioned, and a stage of customData has the verdict
TOLD = "failure, accepted"  # customData failed, and the platform knows
MEDIA_ALONE = "media alone"
UNDELIVERED = ", not delivered"


class Pending(Record):
    """`unconfirmed`: the media were applied, and IMDS has not agreed with them yet.

    `until`: seconds since 1970; of AWAITS, when a failure is reported.
    """

    verdict: str
    failure: str = ""
    unconfirmed: bool = False
    until: float = 0.0


def read_pending(machine: Machine, instance: Instance) -> Pending | None:
    values = read_sealed(machine, instance.path("pending"))
    if values is None:
        return None
    verdict, failure, until = values.get("verdict", ""), values.get("failure", ""), values.get("until", 0.0)
    return Pending(
        verdict=verdict if isinstance(verdict, str) else "",
        failure=failure if isinstance(failure, str) else "",
        unconfirmed=values.get("sources") == MEDIA_ALONE,
        until=float(until) if isinstance(until, (int, float)) else 0.0,
    )


def write_pending(machine: Machine, instance: Instance, pending: Pending) -> None:
    from azureinit.memory.sealed import seal

    values = {"verdict": pending.verdict, "failure": pending.failure}
    sources = {"sources": MEDIA_ALONE} if pending.unconfirmed else {}
    until = {"until": pending.until} if pending.until else {}
    machine.write(instance.path("pending"), seal({**values, **sources, **until}), mode=0o600)


def remove_pending(machine: Machine, instance: Instance) -> None:
    machine.remove(instance.path("pending"))


def is_ready_pending(machine: Machine, instance: Instance | None) -> bool:
    """An earlier run did everything, and the platform has not accepted its Ready yet."""
    pending = read_pending(machine, instance) if instance is not None else None
    return pending is not None and pending.verdict == READY


def write_verdict(machine: Machine, verdict: str) -> None:
    """Not synced: it counts for this boot only."""
    if machine.rooted:
        return
    machine.make_dirs(VERDICT.rpartition("/")[0], mode=0o700)
    machine.write(VERDICT, verdict.encode(), mode=0o600, sync=False)


def read_verdict(machine: Machine) -> str | None:
    """None where there is none, or none that can be read."""
    try:
        data = machine.read(VERDICT)
    except LocalError:
        return None
    return None if data is None else data.decode("ascii", "replace")
