"""Whether a temporary disk may be written to: the rules, as pure functions. Anything in doubt is left alone.

A disk may be written to if it is free and blank, if it is exactly the NTFS that the platform ships, or if it is
recorded as unfinished work of this VM, the write had begun, and it holds no signature but those with recorded UUIDs.
"""

from __future__ import annotations

from azureinit.backends.array import member_uuid
from azureinit.facts.temporary_disks import SCSI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disk_content import Content, Signature
    from azureinit.facts.temporary_disks import Partition, TemporaryDisk
    from azureinit.memory.disk_sets import DiskSet

FILESYSTEMS = ("ext4", "xfs", "btrfs")
ARRAY, TABLE, FILESYSTEM = "array", "table", "filesystem"  # DiskSet.begun
TABLES = ("gpt", "dos", "pmbr")
SHIPPED = "Temporary Storage"  # the label of the platform's NTFS
# No program that makes a file system or a table leaves bytes before this offset without its signature. Interrupted at
# each write, mkfs.ext4 has left them from 2048 on, mkfs.btrfs from 1 MiB on, sfdisk at the end, and the others none.
BEGINNING = 1024
BTRFS_FIRST = 64 << 10  # where its superblock is
MEMBERS = {"mdadm": "md", "lvm": "lvm2"}


def same_uuid(one: str, other: str) -> bool:
    """Compared by their digits: tools write one UUID in several ways. An empty one equals none."""
    return bool(_digits(one)) and _digits(one) == _digits(other)


def _digits(uuid: str) -> str:
    return "".join(filter(str.isalnum, uuid.lower()))


def in_the_way(disk: TemporaryDisk) -> str:
    """Why nothing may be written to it, whatever it holds."""
    if disk.trouble:
        return f"it cannot be read: {disk.trouble}"
    if disk.read_only:
        return "it is read-only"
    if disk.busy:
        return f"it is in use: {disk.busy}"
    uses = (*disk.holders, *disk.mounts, *disk.swaps)
    if uses:
        return f"it is in use: {', '.join(uses)}"
    if disk.content is None:
        return "its content is not known"
    read = disk.content.size == disk.size and disk.content.regions and disk.content.digest
    return "" if read else "its content was not read completely"


def holds_nothing(content: Content | None) -> bool:
    """Blank by every way of looking."""
    return (
        content is not None
        and content.blank
        and not content.signatures
        and content.nonzero is None
        and not content.ambiguous
        and not content.ntfs
        and bool(content.digest)
    )


def is_blank(disk: TemporaryDisk) -> bool:
    return not in_the_way(disk) and not disk.partitions and holds_nothing(disk.content)


def is_shipped_ntfs(disk: TemporaryDisk, *, trust: bool) -> bool:
    """A resource disk as the platform makes it: a DOS table, one partition, and in it the NTFS with only its notice.

    Beside the partition everything is zero, but for the table.
    """
    if disk.kind != SCSI or in_the_way(disk) or len(disk.partitions) != 1 or disk.content is None:
        return False
    if disk.content.ambiguous or {signature.kind for signature in disk.content.signatures} != {"dos"}:
        return False
    part = disk.partitions[0]
    content = part.content
    if disk.content.around != (part.start, part.size) or disk.content.beside is not None:
        return False
    return content is not None and is_pristine(content, trust=trust)


def is_pristine(content: Content, *, trust: bool) -> bool:
    only_ntfs = {(one.kind, one.label) for one in content.signatures} == {("ntfs", SHIPPED)}
    accepted = content.pristine_ntfs or (trust and content.ntfs_unreadable)
    return accepted and only_ntfs and not content.ambiguous and bool(content.regions) and bool(content.digest)


def describe_content(disk: TemporaryDisk) -> str:
    """What is on a disk that is not blank."""
    if disk.content is None:
        return "its content is not known"
    if disk.content.ambiguous:
        return f"what it holds is ambiguous: {disk.content.ambiguous}"
    if disk.content.ntfs:
        return f"its NTFS is not the one that the platform ships: {disk.content.ntfs}"
    inner = [_partition(part) for part in disk.partitions]
    if inner:
        beside = "" if disk.content.beside is None else f"; outside of it there is data at byte {disk.content.beside}"
        return f"it has {'a partition' if len(inner) == 1 else f'{len(inner)} partitions'}: {', '.join(inner)}{beside}"
    if disk.content.signatures:  # two headers of one table are one thing
        return "it holds " + " and ".join(dict.fromkeys(map(_named, disk.content.signatures)))
    if disk.content.nonzero is not None:
        return f"it is not blank: there is data at byte {disk.content.nonzero}"
    return "it is blank" if disk.content.blank else "it is not known to be blank"


def _partition(part: Partition) -> str:
    if part.content is None:
        return f"{part.name} (unknown content)"
    if part.content.ntfs:
        return f"{part.name} (NTFS that is not as the platform ships it: {part.content.ntfs})"
    held = " and ".join(dict.fromkeys(map(_named, part.content.signatures)))
    return f"{part.name} ({held or ('blank' if part.content.blank else 'unknown data')})"


def _named(signature: Signature) -> str:
    return f"{signature.kind}{f' labelled {signature.label}' if signature.label else ''}"


# ---- our own work


def finished_on(content: Content | None, *, uuid: str, kind: str, label: str, swap: bool) -> Signature | None:
    """The complete file system or swap area, by the recorded UUID or by our label, if it is that and nothing else."""
    if content is None or content.ambiguous or len({(one.kind, one.uuid) for one in content.signatures}) != 1:
        return None
    found = min(content.signatures, key=lambda one: one.offset)  # btrfs has copies, which are written after it
    if found.unfinished or (found.kind == "btrfs" and found.offset > BTRFS_FIRST):  # a copy, and the first one is gone
        return None
    if same_uuid(found.uuid, uuid) and found.kind == kind:
        return found
    kinds = ("swap",) if swap else FILESYSTEMS
    return found if label and found.label == label and found.kind in kinds else None


def has_only(content: Content | None, *, kind: str, uuid: str, over: str) -> bool:
    """No signature but those that the set has recorded, none of which is complete.

    Other bytes do not count where something was there before (`over`). Where the device was blank, data of others that
    begin at its first bytes are not taken for those of an interrupted program.
    """
    if content is None or content.ambiguous or content.ntfs or content.pristine_ntfs:
        return False
    raw = not content.signatures and content.nonzero is not None and content.nonzero < BEGINNING
    if raw and not over:
        return False
    return all(one.kind == kind and same_uuid(one.uuid, uuid) and one.unfinished for one in content.signatures)


def has_no_signature(content: Content | None, *, over: str) -> bool:
    """Bytes of an interrupted write may be there."""
    return has_only(content, kind="", uuid="", over=over)


def has_table(content: Content | None, made: DiskSet) -> bool:
    """The recorded partition table, one or both of its copies, and nothing else."""
    if content is None or content.ambiguous or not content.signatures:
        return False
    tables = [one for one in content.signatures if one.kind == "gpt"]
    ours = bool(tables) and all(same_uuid(one.uuid, made.table_uuid) for one in tables)
    parts = [uuid for one in tables for uuid in one.partitions]  # other programs keep a table's UUID
    known = (made.partition_uuid, made.swap_partition_uuid)
    ours = ours and all(any(same_uuid(uuid, own) for own in known) for uuid in parts)
    return ours and all(one.kind in TABLES for one in content.signatures)


def is_member(disk: TemporaryDisk, made: DiskSet, number: int) -> bool:
    """It carries the recorded array's superblock, or the recorded physical volume, and nothing else.

    The array's own partition table shows through: its copy lies at the end of the last disk.
    """
    uuid = made.array_uuid if made.aggregation == "mdadm" else member_uuid(made.array_uuid, number)
    content = disk.content
    if content is None or content.ambiguous or not content.signatures or disk.partitions:
        return False
    kind = MEMBERS.get(made.aggregation, "")
    if made.aggregation == "lvm" and any(one.label not in ("", made.name) for one in content.signatures):
        return False  # in another volume group by now
    through = [one for one in content.signatures if one.kind == "gpt" and same_uuid(one.uuid, made.table_uuid)]
    own = [one for one in content.signatures if one not in through]
    return bool(own) and all(one.kind == kind and same_uuid(one.uuid, uuid) for one in own)
