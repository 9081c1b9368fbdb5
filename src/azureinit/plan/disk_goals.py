"""What the settings ask of the temporary disks: one goal for the local NVMe disks, one for the SCSI resource disk."""

from __future__ import annotations

from azureinit.facts.temporary_disks import NVME, SCSI
from azureinit.plan.actions import Satisfied
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.facts.temporary_disks import DiskFacts, TemporaryDisk
    from azureinit.plan.actions import Item

NAMES = {NVME: "local NVMe disks", SCSI: "resource disk"}
# A second file system and swap areas have labels of their own: a label in fstab must name one device.
SCSI_LABEL, SWAP_LABEL = "AzureResDisk", "AzureEphmSwap"
SWAP = "swap"


class Goal(Record):
    """One file system or swap area that is asked for. `swap_mib`: of the swap file or the swap partition on it."""

    name: str
    kind: str
    purpose: str
    disks: tuple[TemporaryDisk, ...]
    filesystem: str
    label: str
    point: str = ""
    swap_mib: int = 0


def goals(settings: Disk, facts: DiskFacts) -> tuple[tuple[Goal, ...], tuple[Item, ...]]:
    """The goals, and what is said about disks that no goal uses."""
    nvme = tuple(disk for disk in facts.disks if disk.kind == NVME)
    scsi = tuple(disk for disk in facts.disks if disk.kind == SCSI)
    use, unused = settings.scsi, f"not used: [disk] scsi is {settings.scsi}"
    if use == "fallback":
        use, unused = ("off", "not used: there are local NVMe disks") if nvme else ("data", "")
    found: list[Goal] = []
    if nvme and settings.nvme != "off":
        found.append(_goal(settings, NVME, settings.nvme, nvme, settings.mount_point))
    if scsi and use != "off":
        point = settings.mount_point if settings.scsi == "fallback" else settings.scsi_mount_point
        found.append(_goal(settings, SCSI, use, scsi, point))
    remarks = [_unused(disk, f"not used: [disk] nvme is {settings.nvme}") for disk in nvme if settings.nvme == "off"]
    remarks += [_unused(disk, unused) for disk in scsi if use == "off"]
    return _with_swap(settings, found), tuple(remarks)


def _goal(settings: Disk, kind: str, use: str, disks: tuple[TemporaryDisk, ...], point: str) -> Goal:
    if use == SWAP and (settings.swap == "partition" or not settings.swap_mib):
        return Goal(name=NAMES[kind], kind=kind, purpose=SWAP, disks=disks, filesystem=SWAP, label=SWAP_LABEL)
    label = settings.label if point == settings.mount_point else SCSI_LABEL
    return Goal(
        name=NAMES[kind], kind=kind, purpose=use, disks=disks, filesystem=settings.filesystem, label=label, point=point
    )


def _with_swap(settings: Disk, found: list[Goal]) -> tuple[Goal, ...]:
    """The size goes to the goal whose purpose is swap, otherwise to the first one."""
    if not settings.swap_mib or not found:
        return tuple(found)
    chosen = next((goal for goal in found if goal.purpose == SWAP), found[0])
    with_size = Goal(**{**chosen.as_dict(), "swap_mib": settings.swap_mib})
    return tuple(with_size if goal is chosen else goal for goal in found)


def _unused(disk: TemporaryDisk, why: str) -> Satisfied:
    return Satisfied(name=disk.path, why=why)
