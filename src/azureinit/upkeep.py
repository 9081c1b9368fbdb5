"""What a boot does for the machine beside what was asked for. It can fail only into the log."""

from __future__ import annotations

from azureinit.record import replace
from azureinit.telemetry.events import DEBUG, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.engine import Walk
    from azureinit.plan.actions import Plan


def make_host_keys(walk: Walk) -> None:
    """While the platform is asked, which has no part in them: sshd does not start without, however late the rest is."""
    if walk.context.booted is None or not walk.ends_if_done:
        return
    from azureinit.facts.ssh import with_host_keys_again
    from azureinit.plan.hostkeys import plan_host_keys
    from azureinit.plan.plan import BEFORE_READY, work_left

    assert walk.facts is not None
    try:
        types = tuple(kind for kind in walk.config.ssh.host_key_types if kind in BEFORE_READY)
        plan = plan_host_keys(types=types, facts=walk.facts)
        if work_left(plan):
            _apply(walk, plan)
            walk.facts = replace(walk.facts, ssh=with_host_keys_again(walk.machine, walk.facts.ssh))
    except Exception as error:  # noqa: BLE001 - the plan comes upon it again, and a failure is told then
        walk.events.tell(DEBUG, "host keys", f"{type(error).__name__}: {error}")


def grow(walk: Walk) -> None:
    """Room behind the root partition is taken, in every boot."""
    try:
        plan = growth(walk)
        if plan:
            _apply(walk, plan)
    except Exception as error:  # noqa: BLE001 - nothing that was asked for depends on it
        walk.events.tell(WARN, "root file system", f"{type(error).__name__}: {error}")


def growth(walk: Walk) -> Plan:
    if not walk.config.disk.grow_root or walk.machine.rooted or not walk.machine.privileged:
        return ()
    from azureinit.facts.disks import read_root_disk

    disk = read_root_disk(walk.machine)
    if disk is not None and disk.not_ours:
        walk.events.tell(DEBUG, "root file system", f"not grown: {disk.not_ours}")
    if disk is None or not disk.grows:
        return ()
    from azureinit.plan.grow import plan_grow

    return plan_grow(disk)


def publish(walk: Walk) -> None:
    """Where DHCP ran before we knew the host's name, Azure's DNS learns it through a renewed lease."""
    try:
        plan = publication(walk) if walk.renamed else ()
        if plan:
            _apply(walk, plan)
    except Exception as error:  # noqa: BLE001
        walk.events.tell(WARN, "publish hostname", f"{type(error).__name__}: {error}")


def publication(walk: Walk) -> Plan:
    if walk.machine.rooted or walk.metadata is None or walk.metadata.hostname is None:
        return ()
    from azureinit.facts.lessee import read_lessee
    from azureinit.plan.publish import plan_publish

    lessee = read_lessee(walk.machine)
    return () if lessee is None else plan_publish(hostname=walk.metadata.hostname, lessee=lessee, renamed=True)


def _apply(walk: Walk, plan: Plan) -> None:
    from azureinit.apply.executor import apply_plan
    from azureinit.apply.journal import Unwritten
    from azureinit.plan.actions import Caution
    from azureinit.plan.plan import work_left

    for item in plan:
        if isinstance(item, Caution):
            walk.events.tell(WARN, item.name, item.why)
    if work_left(plan):
        apply_plan(walk.machine, plan, journal=Unwritten(), events=walk.events, deadline=walk.context.deadline)
