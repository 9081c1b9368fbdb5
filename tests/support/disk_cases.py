"""Temporary disks as records: what a machine's facts say, for the planner's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azureinit.config.model import Disk
from azureinit.facts.disk_content import Content, Signature
from azureinit.facts.temporary_disks import NVME, SCSI, Assembled, DiskFacts, MountPoint, Partition, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet
from azureinit.plan.actions import Caution, OnDevices, Run, Satisfied, Step, Way, Write
from azureinit.plan.disks import plan_disks
from azureinit.record import replace

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

GIB, MIB = 1 << 30, 1 << 20
SIZE = 100 * GIB
VM = "5f2b1c1e-0000-4000-8000-000000000001"
SETS_PATH = f"/var/lib/azure-init/{VM}.disks"
FRESH = tuple(f"{number}{number}{number}{number}0000-0000-4000-8000-00000000000{number}" for number in range(1, 9))
TOOLS = frozenset({
    "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkswap", "swapon", "swapoff", "mount", "mdadm", "vgcreate", "lvcreate",
    "pvcreate", "vgchange", "sfdisk", "wipefs", "fallocate", "chattr", "systemctl",
})  # fmt: skip
EMPTY_FSTAB = b"UUID=0a1b / ext4 defaults 0 1\n"
LINE = "LABEL=AzureEphmDsk /mnt ext4 defaults,nofail,comment=azure-ephemeral-disk-setup 0 2"


def blank(size: int = SIZE) -> Content:
    return Content(size=size, blank=True, regions=((0, 16 * MIB), (size - 16 * MIB, 16 * MIB)), digest="00ff")


def holding(*signatures: Signature, size: int = SIZE, **more: Any) -> Content:
    values = {"nonzero": 4096, "regions": ((0, 2 * MIB),), "digest": "beef", **more}
    return Content(size=size, blank=False, signatures=signatures, **values)


def sign(kind: str, uuid: str = "", label: str = "", **more: Any) -> Signature:
    return Signature(kind=kind, offset=more.pop("offset", 0), uuid=uuid, label=label, **more)


def nvme(number: int = 0, content: Content | None = None, **more: Any) -> TemporaryDisk:
    values = {"size": SIZE, "content": content if content is not None else blank(more.get("size", SIZE)), **more}
    name = f"nvme{number}n1"
    return TemporaryDisk(
        name=name, path=f"/dev/{name}", kind=NVME, identity=f"serial-{number}", evidence="its model is local", **values
    )


def scsi(content: Content | None = None, **more: Any) -> TemporaryDisk:
    values = {"size": SIZE, "content": content if content is not None else blank(more.get("size", SIZE)), **more}
    return TemporaryDisk(
        name="sdb", path="/dev/sdb", kind=SCSI, identity="f8b3781a:1", evidence="its VMBus id", **values
    )


def part(disk: str, number: int, content: Content | None, *, start: int = MIB, size: int = SIZE - 2 * MIB) -> Partition:
    name = f"{disk}p{number}" if disk[-1].isdigit() else f"{disk}{number}"
    return Partition(name=name, path=f"/dev/{name}", number=number, start=start, size=size, content=content)


def shipped(**inner: Any) -> TemporaryDisk:
    """The resource disk as the platform makes it."""
    values = {"pristine_ntfs": True, "regions": ((0, 512), (4096, 1024)), "digest": "cafe", **inner}
    content = holding(sign("ntfs", label="Temporary Storage"), size=SIZE - 2 * MIB, **values)
    return scsi(holding(sign("dos"), around=(MIB, SIZE - 2 * MIB)), partitions=(part("sdb", 1, content),))


def array(*disks: TemporaryDisk, content: Content | None = None, **more: Any) -> Assembled:
    names = tuple(disk.name for disk in disks)
    size = sum(disk.size for disk in disks)
    values = {"uuid": FRESH[0], "name": "md127", "path": "/dev/md127", **more}
    return Assembled(size=size, members=names, content=content if content is not None else blank(size), **values)


def held(disk: TemporaryDisk, content: Content, **more: Any) -> TemporaryDisk:
    """A member of the running array md127."""
    values = {"holders": ("md127",), "busy": "md127 consists of it", **more}
    return replace(disk, content=content, **values)


def facts(*disks: TemporaryDisk, **more: Any) -> DiskFacts:
    values: dict[str, Any] = {
        "fstab": EMPTY_FSTAB,
        "tools": TOOLS,
        "systemd": True,
        "fresh": FRESH,
        "points": (MountPoint(path="/mnt", state="empty"), MountPoint(path="/mnt/resource", state="absent")),
    }
    return DiskFacts(disks=disks, **{**values, **more})


def mounted(device: str, path: str = "/mnt") -> tuple[MountPoint, ...]:
    return (MountPoint(path=path, state="mounted", source=device),)


def recorded(*disks: TemporaryDisk, **more: Any) -> DiskSet:
    values: dict[str, Any] = {
        "purpose": "data",
        "kind": disks[0].kind,
        "vm_id": VM,
        "members": tuple(disk.identity for disk in disks),
        "sizes": tuple(disk.size for disk in disks),
        "label": "AzureEphmDsk",
        "filesystem_uuid": FRESH[1],
        "begun": "filesystem",
    }
    if len(disks) > 1:
        values.update(aggregation="mdadm", array_uuid=FRESH[0], name="azure-ephemeral-md")
    return DiskSet(**{**values, **more})


def plan(found: DiskFacts, *sets: DiskSet, recreate: bool = False, vm_id: str = VM, **settings: Any) -> Plan:
    return plan_disks(Disk(**settings), found, sets, vm_id=vm_id, sets_path=SETS_PATH, recreate=recreate)


def steps(made: Plan) -> list[Step]:
    return [item for item in made if isinstance(item, Step)]


def cautions(made: Plan) -> dict[str, str]:
    return {item.name: item.why for item in made if isinstance(item, Caution)}


def satisfied(made: Plan) -> dict[str, str]:
    return {item.name: item.why for item in made if isinstance(item, Satisfied)}


def on_devices(made: Plan) -> list[OnDevices]:
    return [action for action in actions(made) if isinstance(action, OnDevices)]


def actions(made: Plan) -> list[Any]:
    ways = [way for step in steps(made) for way in step.ways if isinstance(way, Way)]
    return [action for way in ways for action in way.actions]


def argvs(made: Plan) -> list[tuple[str, ...]]:
    """Every command that the plan may run."""
    found = [action.run if isinstance(action, OnDevices) else action for action in actions(made)]
    return [action.argv for action in found if isinstance(action, Run)]


def step_named(made: Plan, name: str) -> Step:
    return next(step for step in steps(made) if step.name == name)


def data_of(write: Write) -> bytes:
    assert isinstance(write.data, bytes)
    return write.data


# Disks that must never be in a step that writes, and why.
FOREIGN: dict[str, TemporaryDisk] = {
    "busy": nvme(0, busy="mounted at /data"),
    "held": nvme(0, holders=("dm-3",)),
    "mounted": nvme(0, mounts=("/data",)),
    "swap": nvme(0, swaps=("/dev/nvme0n1",)),
    "trouble": nvme(0, trouble="input/output error"),
    "read-only": nvme(0, read_only=True),
    "partitioned": nvme(0, holding(sign("gpt", FRESH[6])), partitions=(part("nvme0n1", 1, blank()),)),
    "a partition on blank content": nvme(0, partitions=(part("nvme0n1", 1, blank()),)),
    "file system of others": nvme(0, holding(sign("ext4", FRESH[6], "data"))),
    "luks": nvme(0, holding(sign("luks", FRESH[6]))),
    "array of others": nvme(0, holding(sign("md", FRESH[6]))),
    "raw bytes": nvme(0, holding(nonzero=7 << 30)),
    "second opinion": nvme(0, replace(blank(), ambiguous="blkid finds a vfat")),
    "called blank with a signature": nvme(0, replace(blank(), signatures=(sign("zfs"),))),
    "unknown content": replace(nvme(0), content=None),
    "not read completely": nvme(0, replace(blank(), digest="")),
    "of another size": nvme(0, blank(SIZE - 4096)),
}
# Of these, those that --recreate does not touch either.
UNUSABLE = ("busy", "held", "mounted", "swap", "trouble", "read-only", "unknown content")
