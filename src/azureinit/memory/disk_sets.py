"""The disk sets that this VM made on its temporary disks, in `<vm id>.disks` of the data directory.

A set is recorded durably before the first write to a disk: with the VM's id, the disks' identities and the UUIDs that were chosen.
So a later run knows its own unfinished work from data of others.
"""

from __future__ import annotations

from azureinit.record import Record


class DiskSet(Record):
    """One file system or swap area and the disks under it."""

    purpose: str  # data, swap
    kind: str  # nvme, scsi
    vm_id: str
    members: tuple[str, ...]  # identities of the disks
    sizes: tuple[int, ...]
    aggregation: str = "none"  # none, mdadm, lvm
    table: str = "none"
    filesystem: str = "ext4"  # or swap
    label: str = ""
    array_uuid: str = ""  # of the md array, or of LVM's volume group
    table_uuid: str = ""  # GPT's own
    partition_uuid: str = ""
    filesystem_uuid: str = ""
    finished: bool = False
