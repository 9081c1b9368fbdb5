"""The disk sets that this VM made on its temporary disks: `<vm id>.disks` in the data directory, one sealed line each.

A set is recorded durably before the first write to a disk: with the VM's id, the disks' identities and the UUIDs that
were chosen. So a later run knows its own unfinished work from data of others. A line that is damaged, or of another
shape, is ignored: its disks are then left alone unless they are blank.
"""

from __future__ import annotations

from azureinit.memory.sealed import seal, unseal
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.memory.instance import Instance

MOST_BYTES = 1 << 20
MOST_SETS = 16
MOST_MEMBERS = 64


class DiskSet(Record):
    """One file system or swap area and the disks under it.

    `begun`: the last thing whose writing began, after the disks had been checked: array, table, filesystem. Before that
    the disks hold nothing of this set. `finished`: the program that makes the file system has succeeded.

    With `aggregation` mdadm, `table` is on the array. With lvm, each disk has one, which is made first, and the
    physical volume is its partition; the last two digits of its UUIDs are the disk's number in `members`.
    """

    purpose: str  # data, swap
    kind: str  # nvme, scsi
    vm_id: str
    members: tuple[str, ...]  # identities of the disks
    sizes: tuple[int, ...]
    aggregation: str = "none"  # none, mdadm, lvm
    table: str = "none"
    filesystem: str = "ext4"  # or swap
    label: str = ""
    array_uuid: str = ""  # of the md array; LVM's physical volumes have it with their number at its end
    table_uuid: str = ""  # GPT's own
    partition_uuid: str = ""
    filesystem_uuid: str = ""
    finished: bool = False
    begun: str = ""
    name: str = ""  # of the array or the volume group
    over: str = ""  # what was on the disks before: ntfs (the platform's), data (--recreate); bytes of it may be left
    swap_mib: int = 0  # of a swap partition beside the file system
    swap_uuid: str = ""
    swap_partition_uuid: str = ""
    chunk_kib: int = 0  # of the array or the volumes; 0 in a record of an older version


CHOICES: dict[str, tuple[str, ...]] = {
    "purpose": ("data", "swap"),
    "kind": ("nvme", "scsi"),
    "aggregation": ("none", "mdadm", "lvm"),
    "table": ("none", "gpt"),
    "filesystem": ("ext4", "xfs", "btrfs", "swap"),
    "over": ("", "ntfs", "data"),
    "begun": ("", "array", "table", "filesystem"),
}


def read_disk_sets(machine: Machine, instance: Instance) -> tuple[DiskSet, ...]:
    """Those of this VM. Without a readable file there are none."""
    from azureinit.errors import LocalError

    try:
        data = machine.read(instance.path("disks"), limit=MOST_BYTES) or b""
    except LocalError:
        return ()
    return tuple(one for one in parse_disk_sets(data) if one.vm_id == instance.vm_id)


def encode_disk_sets(sets: tuple[DiskSet, ...]) -> bytes:
    return b"".join(seal(one.as_dict()) + b"\n" for one in sets)


def parse_disk_sets(data: bytes) -> tuple[DiskSet, ...]:
    lines = [line for line in data.split(b"\n") if line][:MOST_SETS]
    return tuple(one for line in lines if (one := _parse(line)) is not None)


def _parse(line: bytes) -> DiskSet | None:
    """Stricter than other records: a line without a checksum, or with anything unknown, is none."""
    values = unseal(line) if b'"crc32"' in line else None
    values = None if values is None else {"chunk_kib": 0, **values}
    if values is None or {*values} != {*DiskSet.fields_}:
        return None
    for name, value in values.items():
        if type(value) is not _kind(name) or (name in CHOICES and value not in CHOICES[name]):
            return None
    members, sizes = values["members"], values["sizes"]
    texts = all(type(one) is str and one for one in members)
    numbers = all(type(one) is int and one > 0 for one in sizes)
    if (
        not texts
        or not numbers
        or not 0 < len(members) == len(sizes) <= MOST_MEMBERS
        or len({*members}) != len(members)
    ):
        return None
    return DiskSet(**{**values, "members": tuple(members), "sizes": tuple(sizes)})


def _kind(name: str) -> type:
    if name in ("members", "sizes"):
        return list
    return {"finished": bool, "swap_mib": int, "chunk_kib": int}.get(name, str)
