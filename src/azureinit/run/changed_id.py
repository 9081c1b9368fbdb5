"""A machine that was provisioned under another VM id and keeps its state."""

from __future__ import annotations

from azureinit.errors import ImdsInvalid, ImdsUnavailable, MediaAbsent
from azureinit.plan.changed_id import KEPT
from azureinit.plan.waagent import plan_waagent, spellings
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.errors import AzureInitError
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.run.state import Asked, Context, Identity, Memory

NOTHING_ASKED = "no source has anything to provision it from"


def kept_id(context: Context, identity: Identity, memory: Memory) -> str | None:
    """The id under which this machine was provisioned, where platform.changed_vm_id says that it keeps its state.

    "" where an earlier run decided so and removed the evidence; None where the machine is to be provisioned.
    """
    if context.config.platform.changed_vm_id != "keep" or identity.vm_id is None or not memory.readable:
        return None
    from azureinit.facts.changed_id import read_earlier_id

    found = read_earlier_id(
        context.machine,
        vm_id=identity.vm_id,
        spellings=spellings(identity.vm_id),
        data_dir=context.config.azure_init_data_dir.path,
        lib_dir=context.config.waagent.lib_dir,
    )
    if found is None and KEPT in memory.journal.done:
        found = ""
    if found is not None:
        who = f"VM {found}" if found else "another VM"
        context.events.tell(
            INFO,
            "changed VM id",
            f"this machine was {who}: it keeps its state, and the platform is not asked (platform.changed_vm_id)",
        )
    return found


def is_evidence(context: Context, identity: Identity, marker: bytes) -> bool:
    """Whether WALinuxAgent's marker may be the only record that this machine was another VM."""
    if identity.vm_id is not None and marker.strip().lower() in spellings(identity.vm_id):
        return False
    if identity.instance is None:
        return True
    from azureinit.memory.journal import read_journal

    return KEPT not in read_journal(context.machine, identity.instance.path("journal")).done


def kept_for_want(
    context: Context, identity: Identity, memory: Memory, failures: Mapping[str, AzureInitError]
) -> str | None:
    """The id of the VM that this machine was, where no source has anything to provision it from now.

    None if a source gave an unreadable answer, which may be meant for this machine, or if a run of this VM has begun
    to change it.
    """
    if identity.instance is None or not memory.readable:
        return None
    from azureinit.memory.instance import other_marked_vm

    other = other_marked_vm(context.machine, identity.instance)
    begun = memory.journal.begun and KEPT not in memory.journal.done
    if other is None or begun or not all(_is_silence(error) for error in failures.values()):
        return None
    context.events.tell(WARN, KEPT, f"this was VM {other}, and {NOTHING_ASKED}: the machine keeps its state")
    return other


def _is_silence(error: AzureInitError) -> bool:
    unanswered = isinstance(error, ImdsUnavailable) and not isinstance(error, ImdsInvalid)
    return unanswered or isinstance(error, MediaAbsent)


def plan_kept(context: Context, asked: Asked, facts: Facts) -> Plan:
    from azureinit.facts.changed_id import EarlierVm, read_earlier_vm
    from azureinit.plan.changed_id import plan_changed_id

    library, previous = context.config.waagent.lib_dir, asked.previous_id or ""
    if context.config.platform.changed_vm_id == "keep":
        earlier, because = read_earlier_vm(context.machine, vm_id=previous, lib_dir=library), "platform.changed_vm_id"
    else:
        earlier, because = EarlierVm(vm_id=previous), NOTHING_ASKED  # nothing asked for anything to be removed
    return (
        *plan_changed_id(earlier=earlier, because=because, done=asked.memory.journal.done),
        *plan_waagent(vm_id=asked.identity.vm_id, waagent=facts.waagent, lib_dir=library),
    )
