"""The lock of the data directory, and what earlier runs of this VM left there."""

from __future__ import annotations

from azureinit.errors import LockTimeout
from azureinit.memory.instance import prepare
from azureinit.memory.journal import MemoryJournal, read_journal
from azureinit.run.identify import adopt_vm_id
from azureinit.run.state import Memory, Stopped
from azureinit.telemetry.events import INFO
from azureinit.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    vm = identity.vm_id or "of unknown id"
    context.events.tell(INFO, "begin", f"version {VERSION} provisions VM {vm} (Linux {machine.kernel_release()})")


def recall(context: Context, identity: Identity, *, readable: bool = True) -> Memory:
    """An empty Memory if the VM's id is not known yet, or the caller may not read the data directory."""
    if identity.instance is None or not readable:
        return Memory(journal=MemoryJournal(), readable=readable)
    from azureinit.memory.pending import read_pending

    machine, instance = context.machine, identity.instance
    pending, saved = read_pending(machine, instance), None
    if machine.stat(instance.path("saved")) is not None:  # a first boot does not load the codec before it asks sshd
        from azureinit.memory.saved import read_saved

        saved = read_saved(machine, instance.path("saved"))
    return Memory(
        journal=read_journal(machine, instance.path("journal")),
        saved=saved,
        previous=pending.failure if pending is not None else "",
        unconfirmed=saved if pending is not None and pending.unconfirmed else None,
    )
