"""What this VM remembers of itself in the data directory, each file bound to the VM id, 0600.

<vm id>.provisioned   Ready was accepted; empty, or UNFINISHED where something that follows Ready is still to be done
<vm id>.pending       a verdict the platform has not accepted yet
<vm id>.saved         what a later run still needs of the media: the host ejects it after any verdict
<vm id>.journal       what was done
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

VERDICT = "/run/azure-init/verdict"
ALONE = "media alone"
UNFINISHED = b"unfinished\n"
KINDS = ("provisioned", "pending", "saved", "journal")


class Instance(Record):
    data_dir: str
    vm_id: str

    def path(self, kind: str) -> str:
        return f"{self.data_dir.rstrip('/')}/{self.vm_id}.{kind}"


def prepare(machine: Machine, data_dir: str, *, timeout: float) -> None:
    """The directory, and nobody else of us at work in it until this process ends."""
    machine.make_dirs(data_dir, mode=0o700)
    lock, boot = f"{data_dir.rstrip('/')}/lock", machine.boot_id().encode()
    try:
        last = machine.hold(lock, timeout=timeout, note=boot)
    except LockTimeout:
        raise
    except LocalError:
        if not _clear(machine, lock):
            raise
        last = machine.hold(lock, timeout=timeout, note=boot)
    # What an earlier run of this boot changed is found done, and may not be on the disk yet.
    machine.unsynced.unknown = machine.unsynced.unknown or last == boot
    for name in machine.names(data_dir) or ():
        if is_temporary(name) or _is_ours(name):
            _clear(machine, f"{data_dir.rstrip('/')}/{name}", whole=is_temporary(name))


def _clear(machine: Machine, path: str, *, whole: bool = False) -> bool:
    """Remove what stands in the place of a file of ours and cannot be one: a link, a directory, too many bytes.

    `whole`: whatever it is. True if something was removed.
    """
    status = machine.stat(path, follow=False)
    if status is None or (not whole and S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES):
        return False
    from azureinit.machine.trees import remove_tree

    return remove_tree(machine, path)


def marker(machine: Machine, instance: Instance) -> bool:
    return machine.stat(instance.path("provisioned")) is not None


def was_another(machine: Machine, instance: Instance) -> str | None:
    """The other VM as which this machine was provisioned: its Ready was accepted."""
    names = [name for name in machine.names(instance.data_dir) or () if name.endswith(".provisioned")]
    others = [name.rpartition(".")[0] for name in names if not name.startswith(f"{instance.vm_id}.")]
    return others[-1] if others else None


def was_here_before_us(machine: Machine, instance: Instance, lib_dir: str) -> bool:
    """WALinuxAgent has provisioned this very VM: its own marker has no line end; ours, to keep it quiet, has one."""
    found = machine.read(f"{lib_dir.rstrip('/')}/provisioned", limit=4096)
    if found is None or found.endswith(b"\n") or any(machine.stat(instance.path(kind)) for kind in KINDS):
        return False
    from azureinit.plan.waagent import spellings

    return found.lower() in spellings(instance.vm_id)


def take_over(machine: Machine, lib_dir: str) -> bool:
    """Its marker becomes ours: it stays quiet, and we provision."""
    path = f"{lib_dir.rstrip('/')}/provisioned"
    found = machine.read(path, limit=4096)
    if not found or found.endswith(b"\n"):
        return False
    machine.write(path, found + b"\n", mode=0o600)
    return True


def is_unfinished(machine: Machine, instance: Instance) -> bool:
    """Provisioned, but what follows Ready was cut off or failed."""
    found = machine.stat(instance.path("provisioned"))
    return found is not None and found.st_size > 0


def mark_finished(machine: Machine, instance: Instance) -> None:
    """Not synced: where this is lost, the next boot looks once more."""
    machine.write(instance.path("provisioned"), b"", mode=0o600, sync=False)


def mark_provisioned(machine: Machine, instance: Instance, *, unfinished: bool) -> None:
    """Durable at once: a machine that is switched off right after Ready is not provisioned again."""
    machine.write(instance.path("provisioned"), UNFINISHED if unfinished else b"", mode=0o600)
    make_durable(machine, instance.data_dir)
    machine.remove(instance.path("pending"))
    _forget_others(machine, instance)


def _forget_others(machine: Machine, instance: Instance) -> None:
    """From now on this is that VM. Should it be one again that it was before, it is not in the state it was in then."""
    for name in machine.names(instance.data_dir) or ():
        if _is_ours(name) and not name.startswith(f"{instance.vm_id}."):
            machine.remove(f"{instance.data_dir.rstrip('/')}/{name}")


def forget_pending(machine: Machine, instance: Instance) -> None:
    machine.remove(instance.path("pending"))


def write_pending(machine: Machine, instance: Instance, *, verdict: str, failure: str, sources: str = "") -> None:
    """`sources`: ALONE where IMDS has not agreed yet."""
    from azureinit.memory.sealed import seal

    values = {"verdict": verdict, "failure": failure, **({"sources": sources} if sources else {})}
    machine.write(instance.path("pending"), seal(values), mode=0o600)


def was_alone(machine: Machine, instance: Instance) -> bool:
    """Whether an earlier run applied the media while IMDS could not be asked."""
    return (read_pending(machine, instance) or {}).get("sources") == ALONE


def read_pending(machine: Machine, instance: Instance) -> dict[str, str] | None:
    values = _read(machine, instance.path("pending"))
    return None if values is None else {key: value for key, value in values.items() if isinstance(value, str)}


def write_verdict(machine: Machine, verdict: str) -> None:
    """For this boot only, before it leaves: whoever cleans up after our death must not contradict it."""
    if machine.rooted:
        return
    machine.make_dirs("/run/azure-init", mode=0o700)
    machine.write(VERDICT, verdict.encode(), mode=0o600, sync=False)


def read_verdict(machine: Machine) -> str | None:
    """None where there is none, or none that can be read."""
    try:
        data = machine.read(VERDICT)
    except LocalError:
        return None
    return None if data is None else data.decode("ascii", "replace")


def clean(machine: Machine, data_dir: str) -> tuple[str, ...]:
    """Forget every VM this machine has been; the paths removed."""
    names = machine.names(data_dir)
    if names is None:
        raise LocalError(f"cannot clean {data_dir}: it does not exist", path=data_dir)
    ours = [name for name in names if _is_ours(name) or is_temporary(name)]
    return tuple(name for name in ours if machine.remove(f"{data_dir.rstrip('/')}/{name}"))


def _is_ours(name: str) -> bool:
    vm_id, _, kind = name.rpartition(".")
    return bool(vm_id) and kind in KINDS


def _read(machine: Machine, path: str) -> dict[str, Any] | None:
    """None where nothing of ours can be read: the run then does without what it remembered."""
    from azureinit.memory.sealed import unseal

    try:
        data = machine.read(path, limit=MOST_BYTES)
    except LocalError:
        return None
    return unseal(data) if data else None
