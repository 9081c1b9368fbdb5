"""The lock of the data directory, and what earlier runs of this VM left there."""

from __future__ import annotations

from azureinit.errors import LockTimeout
from azureinit.memory.instance import POOL_FILE, prepare
from azureinit.memory.journal import MemoryJournal, read_journal
from azureinit.record import replace
from azureinit.run.identify import adopt_vm_id
from azureinit.run.stages import POOL_HINT
from azureinit.run.state import Memory, Stopped
from azureinit.telemetry.events import INFO, WARN
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.memory.pool import Marker
    from azureinit.run.state import Context, Identity


def hold_lock(context: Context, identity: Identity) -> None:
    """Wait for another azure-init. Raises AlreadyProvisioned if that one has done the work."""
    machine, data_dir = context.machine, context.config.azure_init_data_dir.path
    try:
        prepare(machine, data_dir, timeout=0)
    except LockTimeout:
        try:
            context.events.tell(INFO, "lock", "another azure-init is running: waiting for its end")
            prepare(machine, data_dir, timeout=context.work_deadline - machine.clock.monotonic())
        except Stopped:  # the other run goes on, and a failure would contradict its verdict
            raise LockTimeout("stopped by SIGTERM while another azure-init was running") from None
    adopt_vm_id(context, identity.vm_id)
    _drop_foreign_marker(context, identity)
    vm = identity.vm_id or "of unknown id"
    context.events.tell(INFO, "begin", f"version {VERSION} provisions VM {vm} (Linux {machine.kernel_release()})")


def recall(context: Context, identity: Identity, *, readable: bool = True) -> Memory:
    """An empty Memory if the VM's id is not known yet, or the caller may not read the data directory."""
    pool = _recall_pool(context, identity) if readable else {}
    if identity.instance is None or not readable:
        return replace(Memory(journal=MemoryJournal(), readable=readable), **pool)
    from azureinit.memory.pending import read_pending

    machine, instance = context.machine, identity.instance
    pending, saved = read_pending(machine, instance), None
    if machine.stat(instance.path("saved")) is not None:  # a first boot does not load the codec before it asks sshd
        from azureinit.memory.saved import read_saved

        saved = read_saved(machine, instance.path("saved"))
    found = Memory(
        journal=read_journal(machine, instance.path("journal")),
        saved=saved,
        previous=pending.failure if pending is not None else "",
        unconfirmed=saved if pending is not None and pending.unconfirmed else None,
    )
    return replace(found, **pool)


def may_be_in_pool(context: Context) -> bool:
    """Whether the media ask for pre-provisioning, or an earlier boot has waited in a pool: as far as files tell."""
    machine, data_dir = context.machine, context.config.azure_init_data_dir.path
    if context.again:
        return False  # the customer's data have arrived
    if machine.stat(POOL_HINT) is not None:
        return True
    if machine.stat(f"{data_dir.rstrip('/')}/{POOL_FILE}") is None:
        return False
    from azureinit.memory.pool import REUSED, read_marker

    marker = read_marker(machine, data_dir)
    return marker is not None and marker.state != REUSED


def waits_in_pool(context: Context, identity: Identity) -> bool:
    """Whether the platform has had the Ready of a pool, or may have had it, and no customer's data have arrived."""
    return "waits" in _recall_pool(context, identity)


def told_pps_type(context: Context, identity: Identity) -> str | None:
    """For a report: the type of a VM from a pool."""
    found = _recall_pool(context, identity)
    return next(iter(found.values())).type if found else None


def _drop_foreign_marker(context: Context, identity: Identity) -> None:
    machine, data_dir = context.machine, context.config.azure_init_data_dir.path
    if identity.vm_id is None or machine.stat(f"{data_dir.rstrip('/')}/{POOL_FILE}") is None:
        return
    if not _recall_pool(context, identity):
        machine.remove(f"{data_dir.rstrip('/')}/{POOL_FILE}")


def _recall_pool(context: Context, identity: Identity) -> dict[str, Marker]:
    """The marker of a VM from a pool, as a value of Memory. That of another VM was captured with an image: it does not
    count.
    """
    machine, data_dir = context.machine, context.config.azure_init_data_dir.path
    if machine.stat(f"{data_dir.rstrip('/')}/{POOL_FILE}") is None:
        return {}
    from azureinit.memory.pool import REUSED, read_marker

    marker = read_marker(machine, data_dir)
    if marker is not None and marker.is_of(identity.vm_id):
        return {"pool" if marker.state == REUSED else "waits": marker}
    why = "it is damaged" if marker is None else "it is another VM's"
    context.events.tell(WARN, "pre-provisioning", f"the marker of a pool in {data_dir} does not count: {why}")
    return {}
