"""The VM's files in the data directory, each named by the VM id, mode 0600; the lock; the marker.

<vm id>.provisioned   the platform accepted Ready; empty, or UNFINISHED where work that follows Ready is left
<vm id>.pending       a verdict that the platform has not accepted yet
<vm id>.saved         what a later run needs from the media: the host ejects them after any verdict
<vm id>.journal       what was done
<vm id>.disks         the disk sets that were made on temporary disks
<vm id>.userdata      customData as the first boot found it, for the stages that carry it out
<vm id>.modules       which modules of customData were started and finished
<vm id>.network       NICs that were configured, and addresses that were set
<vm id>.reload        network files were written, and their manager has not loaded them yet
<vm id>.d             scripts of customData and their output: a directory
once.modules          modules that ran once, whatever VM this machine was
machine.pool          this machine waits in a pool, or was taken from one
"""

from __future__ import annotations

from stat import S_ISREG

from azureinit.errors import LocalError, LockTimeout
from azureinit.machine import MOST_BYTES, is_temporary
from azureinit.machine.durable import make_durable
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine

UNFINISHED = b"unfinished\n"
KINDS = ("provisioned", "pending", "saved", "journal", "disks", "userdata", "modules", "network", "reload", "pool")
BESIDE = ("disks", "network", "reload")  # no signs of provisioning: another unit makes them, or they follow Ready
DIRECTORY = "d"
ONCE_FILE = "once.modules"
POOL_FILE = "machine.pool"
VM_ID_LENGTH = 36


class Instance(Record):
    data_dir: str
    vm_id: str

    def path(self, kind: str) -> str:
        return f"{self.data_dir.rstrip('/')}/{self.vm_id}.{kind}"


def prepare(machine: Machine, data_dir: str, *, timeout: float) -> None:
    """Make the directory, and hold its lock until this process ends: one azure-init works at a time."""
    machine.make_dirs(data_dir, mode=0o700)
    lock, boot = f"{data_dir.rstrip('/')}/lock", machine.boot_id().encode()
    try:
        last = machine.hold(lock, timeout=timeout, note=boot)
    except LockTimeout:
        raise
    except LocalError:
        if not _remove_unfit(machine, lock):
            raise
        last = machine.hold(lock, timeout=timeout, note=boot)
    # An earlier run of this boot may have changed files that are not synced yet.
    machine.unsynced.unknown = machine.unsynced.unknown or last == boot
    for name in machine.names(data_dir) or ():
        if is_temporary(name) or _is_state_file(name):
            _remove_unfit(machine, f"{data_dir.rstrip('/')}/{name}", whole=is_temporary(name))


def _remove_unfit(machine: Machine, path: str, *, whole: bool = False) -> bool:
    """Remove what has the name of a state file and cannot be one: a link, a directory, a file that is too large.

    `whole`: whatever it is. True if something was removed.
    """
    status = machine.stat(path, follow=False)
    if status is None or (not whole and S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES):
        return False
    from azureinit.machine.trees import remove_tree

    return remove_tree(machine, path)


def is_marked(machine: Machine, instance: Instance) -> bool:
    """The platform has accepted Ready for this VM."""
    return machine.stat(instance.path("provisioned")) is not None


def has_files(machine: Machine, instance: Instance) -> bool:
    """Of provisioning."""
    return any(machine.stat(instance.path(kind)) for kind in KINDS if kind not in BESIDE)


def other_marked_vm(machine: Machine, instance: Instance) -> str | None:
    """The id of another VM as which this machine was provisioned."""
    names = [name for name in machine.names(instance.data_dir) or () if name.endswith(".provisioned")]
    others = [name.rpartition(".")[0] for name in names if not name.startswith(f"{instance.vm_id}.")]
    return others[-1] if others else None


def claim_waagent_marker(machine: Machine, lib_dir: str) -> bool:
    """Append a line feed to WALinuxAgent's marker: azure-init then ignores it, and WALinuxAgent still obeys it."""
    path = f"{lib_dir.rstrip('/')}/provisioned"
    found = machine.read(path, limit=4096)
    if not found or found.endswith(b"\n"):
        return False
    machine.write(path, found + b"\n", mode=0o600)
    return True


def is_unfinished(machine: Machine, instance: Instance) -> bool:
    """The VM is provisioned, but work that follows Ready was interrupted or failed."""
    found = machine.stat(instance.path("provisioned"))
    return found is not None and found.st_size > 0


def mark_finished(machine: Machine, instance: Instance) -> None:
    """Not synced: if a power cut loses this write, the next boot looks once more."""
    machine.write(instance.path("provisioned"), b"", mode=0o600, sync=False)


def mark_provisioned(machine: Machine, instance: Instance, *, unfinished: bool) -> None:
    """Synced at once: a machine that is switched off right after Ready must not be provisioned again."""
    machine.write(instance.path("provisioned"), UNFINISHED if unfinished else b"", mode=0o600)
    make_durable(machine, instance.data_dir)
    machine.remove(instance.path("pending"))
    _remove_others(machine, instance)


def _remove_others(machine: Machine, instance: Instance) -> None:
    """Remove the files of VMs that this machine was before: they do not describe its state any more."""
    for name in machine.names(instance.data_dir) or ():
        if name.startswith(f"{instance.vm_id}.") or name in (ONCE_FILE, POOL_FILE):
            continue
        if _is_state_file(name):
            machine.remove(f"{instance.data_dir.rstrip('/')}/{name}")
        elif _is_directory(name):
            _remove_directory(machine, f"{instance.data_dir.rstrip('/')}/{name}")


def clean(machine: Machine, data_dir: str) -> tuple[str, ...]:
    """Remove the state files of every VM; returns their names."""
    names = machine.names(data_dir)
    if names is None:
        shown = machine.shown(data_dir)
        raise LocalError(f"cannot clean {shown}: it does not exist", path=shown)
    ours = [name for name in names if _is_state_file(name) or is_temporary(name)]
    removed = [name for name in ours if machine.remove(f"{data_dir.rstrip('/')}/{name}")]
    directories = [name for name in names if _is_directory(name)]
    removed += [name for name in directories if _remove_directory(machine, f"{data_dir.rstrip('/')}/{name}")]
    return tuple(removed)


def _is_state_file(name: str) -> bool:
    vm_id, _, kind = name.rpartition(".")
    return bool(vm_id) and kind in KINDS


def _is_directory(name: str) -> bool:
    vm_id, _, kind = name.rpartition(".")
    return kind == DIRECTORY and len(vm_id) == VM_ID_LENGTH and vm_id.count("-") == 4


def _remove_directory(machine: Machine, path: str) -> bool:
    from azureinit.machine.trees import remove_tree

    return remove_tree(machine, path)


def read_sealed(machine: Machine, path: str) -> dict[str, Any] | None:
    """None where the file is absent, damaged or unreadable: the run then goes on without it."""
    try:
        data = machine.read(path, limit=MOST_BYTES)
    except LocalError:
        return None
    if not data:
        return None
    from azureinit.memory.sealed import unseal  # not loaded in a first boot, which has no such file

    return unseal(data)
