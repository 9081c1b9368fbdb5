"""Temporary disks: the SCSI resource disk and local NVMe disks, how each is known to be one, and who uses it."""

from __future__ import annotations

from azureinit.facts.disk_content import Content
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Disk
    from azureinit.machine import Machine
    from azureinit.memory.disk_sets import DiskSet

NVME, SCSI = "nvme", "scsi"


class Partition(Record):
    name: str
    path: str
    number: int
    start: int
    size: int
    mounts: tuple[str, ...] = ()  # also of what is made of it
    swaps: tuple[str, ...] = ()
    content: Content | None = None


class TemporaryDisk(Record):
    """A disk that is provably temporary. All sizes are in bytes.

    `identity`: what the disk set in the data directory calls it: the NVMe serial, or the VMBus id and the LUN.
    `busy`: why it is in use (holders, mounts, swap, an exclusive claim, a program that writes to it); empty if it is
    free. `trouble`: why its content cannot be read. `content` is read for a disk that is mounted or part of an array
    too, for its label and its UUIDs; such a disk is never called blank or pristine.
    """

    name: str
    path: str
    kind: str
    identity: str
    size: int
    evidence: str
    model: str = ""
    serial: str = ""
    sector: int = 512
    sequence: int = 0  # the kernel's number of this disk, in this boot; 0 before Linux 5.15
    partitions: tuple[Partition, ...] = ()
    holders: tuple[str, ...] = ()  # kernel names: md127, dm-0
    mounts: tuple[str, ...] = ()  # mount points of the disk, its partitions and its holders
    swaps: tuple[str, ...] = ()  # active swap on them: device or file paths
    read_only: bool = False
    busy: str = ""
    trouble: str = ""
    content: Content | None = None


class OtherDisk(Record):
    """A disk that is never set up, and why: the OS disk, a data disk, an unknown one."""

    name: str
    path: str
    size: int
    why: str
    mounts: tuple[str, ...] = ()  # mount points of the disk, its partitions and its holders
    swaps: tuple[str, ...] = ()


class Assembled(Record):
    """A device made of disks: md array, LVM volume. `members`: kernel names of the disks (not partitions) under it.

    `parent`: kernel name of the array that it is a partition of.
    """

    name: str
    path: str
    size: int
    members: tuple[str, ...]
    uuid: str = ""  # of the array or the volume
    mounts: tuple[str, ...] = ()
    swaps: tuple[str, ...] = ()
    content: Content | None = None
    busy: str = ""  # as of a disk; empty if it is free
    parent: str = ""
    number: int = 0  # of the partition
    start: int = 0
    mapped: str = ""  # device mapper's name: group-volume
    sequence: int = 0  # as of a disk; a partition has that of its array


class FstabEntry(Record):
    line: str  # as it stands in the file
    source: str
    point: str
    filesystem: str
    options: str


class MountPoint(Record):
    """`state`: absent, empty, not empty, a symbolic link, below a symbolic link, not a directory, mounted, or
    hidden: it cannot be read."""

    path: str
    state: str
    source: str = ""  # the device that is mounted there; for one below a link, its path without links
    label: str = ""


class DiskFacts(Record):
    disks: tuple[TemporaryDisk, ...] = ()
    others: tuple[OtherDisk, ...] = ()
    assembled: tuple[Assembled, ...] = ()
    fstab: bytes | None = None
    entries: tuple[FstabEntry, ...] = ()
    fstab_writable: bool = True
    points: tuple[MountPoint, ...] = ()  # those that the configuration names
    labels: tuple[tuple[str, str], ...] = ()  # of file systems on all disks, as udev knows them: device path, label
    tools: frozenset[str] = frozenset()
    systemd: bool = False
    waagent_formats: str = ""  # the waagent.conf that has ResourceDisk.Format=y, if WALinuxAgent is installed
    cloud_init: str = ""  # cloud-init is enabled and would set up the resource disk: how that is known
    fresh: tuple[str, ...] = ()  # new UUIDs for what is going to be made
    free_space: tuple[tuple[str, int], ...] = ()  # by mount point: free bytes
    swap_files: tuple[tuple[str, int], ...] = ()  # path and size of swap files that exist on our file systems
    other_swap_files: tuple[str, ...] = ()  # paths of swap files where something else is: a link, a file with data
    active_swaps: tuple[str, ...] = ()  # devices and files in use as swap, links resolved
    notices: tuple[str, ...] = ()  # paths of the data-loss notices that exist
    mount_units: tuple[tuple[str, bool], ...] = ()  # mount units of this machine's administrator, and which we wrote
    wrong_owner: tuple[str, ...] = ()  # mount points whose file system does not belong to the configured owner


def read_disk_facts(machine: Machine, settings: Disk, sets: tuple[DiskSet, ...]) -> DiskFacts:
    """`sets`: those that this VM recorded."""
    from azureinit.facts.disk_reading import read_all

    return read_all(machine, settings, frozenset(member for one in sets for member in one.members))
