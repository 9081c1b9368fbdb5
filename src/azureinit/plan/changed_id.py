"""A VM that was provisioned under another id and stays as it is: only the earlier VM's leases and state are removed."""

from __future__ import annotations

from azureinit.plan.actions import Remove, Satisfied, Step, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.changed_id import EarlierVm
    from azureinit.plan.actions import Plan

KEPT = "changed VM id"


def plan_changed_id(*, earlier: EarlierVm, because: str, done: frozenset[str]) -> Plan:
    """Once: a lease does not name its VM, so files that appear later are this VM's. The journal also remembers the
    decision, once WALinuxAgent's marker no longer names the earlier VM."""
    which = f"VM {earlier.vm_id}" if earlier.vm_id else "another VM"
    why = f"this was {which}, and stays as it is: {because}"
    if KEPT in done:
        return (Satisfied(name=KEPT, why=why),)
    removals = tuple(Remove(path=path, whole=path.endswith("/")) for path in (*earlier.leases, *earlier.state))
    did = f"removed the leases and agent state of {which}; the rest of the machine stays as it is"
    return (Step(name=KEPT, why=why, did=did, ways=(Way(backend="native", actions=removals),), once=True),)
