"""What a disk holds: signatures, and whether it is blank or exactly the NTFS that the platform ships."""

from __future__ import annotations

from azureinit.record import Record

MIB = 1 << 20
EDGE = 16 * MIB  # of the beginning and of the end, which must read as zeros
SAMPLES, SAMPLE = 64, MIB  # evenly spaced between them


class Signature(Record):
    """`kind`: ext4, xfs, btrfs, swap, ntfs, gpt, dos, md, lvm2, ... `unfinished`: mkfs was interrupted (XFS, btrfs)."""

    kind: str
    offset: int
    uuid: str = ""  # lower case, with hyphens; NTFS's serial number is none
    label: str = ""
    unfinished: bool = False


class Content(Record):
    """`blank`: no signature, and every byte of the bound is zero. `regions`: everything that was read, as (offset, length);
    `digest` is over the bytes of these regions in that order, for the check under the exclusive open before a write."""

    size: int
    blank: bool
    signatures: tuple[Signature, ...] = ()
    nonzero: int | None = None  # the first offset that is not zero
    ambiguous: str = ""  # what a second probe (blkid) says against the first
    pristine_ntfs: bool = False
    ntfs: str = ""  # why an NTFS is not the pristine one, or cannot be read
    ntfs_unreadable: bool = False
    regions: tuple[tuple[int, int], ...] = ()
    digest: str = ""
