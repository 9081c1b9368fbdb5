"""A VM that was provisioned under another id, on its way past the corridor's rooms."""

from __future__ import annotations

from azureinit.errors import ImdsInvalid, ImdsUnavailable, MediaAbsent
from azureinit.facts.changed_id import EarlierVm, read_earlier_id, read_earlier_vm
from azureinit.plan.changed_id import KEPT, plan_changed_id
from azureinit.plan.waagent import plan_waagent, spellings
from azureinit.telemetry.events import INFO, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.errors import AzureInitError
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.run.engine import Walk

WANT = "no source has anything to provision it from"


def stays(walk: Walk) -> bool:
    """Whether this machine was another VM, and so is to be left as it is."""
    if walk.vm_id is None or not walk.remembers:
        return False
    walk.former = read_earlier_id(
        walk.machine,
        vm_id=walk.vm_id,
        spellings=spellings(walk.vm_id),
        data_dir=walk.config.azure_init_data_dir.path,
        lib_dir=walk.config.waagent.lib_dir,
    )
    if walk.former is None and decided(walk):
        walk.former = ""  # by an earlier run, which has taken the reasons away
    if walk.former is None:
        return False
    who = f"VM {walk.former}" if walk.former else "another VM"
    walk.events.tell(
        INFO,
        "changed VM id",
        f"this machine was {who}: it stays as it is, and the platform is not asked (platform.changed_vm_id)",
    )
    return True


def decided(walk: Walk) -> bool:
    return walk.journal is not None and KEPT in walk.journal.done


def is_witness(walk: Walk, marker: bytes) -> bool:
    """WALinuxAgent's marker may be all that says that this machine was another VM."""
    own = walk.vm_id is not None and marker.strip().lower() in spellings(walk.vm_id)
    return not own and not decided(walk)


def stays_for_want(walk: Walk, failures: Mapping[str, AzureInitError], *, other: str) -> bool:
    """Whether nobody has anything to provision this machine from, which was in order as that other VM.

    A source that says something which cannot be read has something for us; and what a run of this VM has begun to
    make of the machine is no longer what it was.
    """
    assert walk.instance is not None
    silent = all(_is_silence(error) for error in failures.values())
    begun = walk.journal is not None and walk.journal.begun and not decided(walk)
    if not silent or begun:
        return False
    walk.former, walk.metadata = other, None
    walk.events.tell(WARN, KEPT, f"this was VM {other}, and {WANT}: the machine stays as it is")
    return True


def _is_silence(error: AzureInitError) -> bool:
    unanswered = isinstance(error, ImdsUnavailable) and not isinstance(error, ImdsInvalid)
    return unanswered or isinstance(error, MediaAbsent)


def plan_stay(walk: Walk, facts: Facts) -> Plan:
    assert walk.former is not None and walk.journal is not None
    library = walk.config.waagent.lib_dir
    if walk.config.platform.changed_vm_id == "keep":
        former, because = read_earlier_vm(walk.machine, vm_id=walk.former, lib_dir=library), "platform.changed_vm_id"
    else:
        former, because = EarlierVm(vm_id=walk.former), WANT  # nobody has asked for anything to go
    return (
        *plan_changed_id(earlier=former, because=because, done=walk.journal.done),
        *plan_waagent(vm_id=walk.vm_id, waagent=facts.waagent, lib_dir=library),
    )
