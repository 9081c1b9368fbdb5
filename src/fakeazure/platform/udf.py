"""UDF 1.02 as a disc image: one read-only partition, one flat directory. Written from ECMA-167 and the OSTA rules.

sector  16..18   volume recognition: BEA01 NSR02 TEA01 (further on in a bridge, where ISO 9660 stands first)
        32, 48   the volume descriptor sequence and its reserve copy
        64       integrity descriptor: closed
        256      anchor; a second one is the last sector
        257..    the partition: file set, root directory, then an entry for each file, then their data
"""

from __future__ import annotations

import struct
from binascii import crc_hqx
from collections.abc import Mapping
from datetime import datetime

SECTOR = 2048
REVISION = 0x0102
MAIN_SEQUENCE, RESERVE_SEQUENCE, SEQUENCE_SECTORS = 32, 48, 16
INTEGRITY = 64
ANCHOR = 256
PARTITION = 257

# blocks inside the partition
FILE_SET, FILE_SET_END, ROOT_ENTRY, ROOT_DIRECTORY = 0, 1, 2, 3
FIRST_FILE_UNIQUE_ID = 16  # lower ones are reserved

READ_EXECUTE, READ = 0x14A5, 0x1084  # for owner, group and others
NO_OWNER = 0xFFFFFFFF
DIRECTORY, REGULAR_FILE = 4, 5
HAS_PARENT, IS_DIRECTORY = 0x08, 0x02

Extent = tuple[int, int]  # first sector of the image, length in bytes


def sectors(length: int) -> int:
    return -(-length // SECTOR)


def recognition(first: int) -> dict[int, bytes]:
    return {first + n: b"\0" + name + b"\1" for n, name in enumerate((b"BEA01", b"NSR02", b"TEA01"))}


def data_start(names: list[str]) -> int:
    """The first sector free for file data, when these files are to be listed."""
    listing = sum(len(directory_entry(name, block=0, entry=0, unique_id=0)) for name in ["", *names])
    return PARTITION + ROOT_DIRECTORY + sectors(listing) + len(names)


def structures(files: Mapping[str, Extent], *, label: str, made: datetime, end: int) -> dict[int, bytes]:
    """Everything but recognition and file data: sector -> bytes. `end` is the first sector after the data."""
    when = timestamp(made)
    result: dict[int, bytes] = {}
    partition_length = end - PARTITION
    for start in (MAIN_SEQUENCE, RESERVE_SEQUENCE):
        result |= volume_sequence(start, label=label, made=made, partition_length=partition_length)
    result[INTEGRITY] = integrity(when, partition_length=partition_length, files=len(files))
    result[INTEGRITY + 1] = descriptor(8, b"\0" * 496, location=INTEGRITY + 1)
    extents = struct.pack("<4I", SEQUENCE_SECTORS * SECTOR, MAIN_SEQUENCE, SEQUENCE_SECTORS * SECTOR, RESERVE_SEQUENCE)
    for anchor in (ANCHOR, end):
        result[anchor] = descriptor(2, extents + b"\0" * 480, location=anchor)
    inside = partition(files, label=label, when=when)
    return result | {PARTITION + block: data for block, data in inside.items()}


def volume_sequence(start: int, *, label: str, made: datetime, partition_length: int) -> dict[int, bytes]:
    bodies = [
        (1, primary_volume(label, made)),
        (4, implementation_use(label)),
        (5, partition_descriptor(partition_length)),
        (6, logical_volume(label)),
        (7, struct.pack("<II", 5, 0)),  # unallocated space: none
        (8, b"\0" * 496),
    ]
    return {start + n: descriptor(tag, body, location=start + n) for n, (tag, body) in enumerate(bodies)}


def primary_volume(label: str, made: datetime) -> bytes:
    serial = f"{int(made.timestamp() * 1_000_000):016x}"  # sixteen characters tell this volume set from all others
    return b"".join((
        struct.pack("<II", 1, 0),
        dstring(label, 32),
        struct.pack("<HHHHII", 1, 1, 2, 3, 1, 1),
        dstring(serial + label, 128),
        CHARSET, CHARSET,
        b"\0" * 16,
        regid(b""),
        timestamp(made),
        IMPLEMENTATION,
        b"\0" * 64,
        struct.pack("<IH", 0, 1),
        b"\0" * 22,
    ))  # fmt: skip


def implementation_use(label: str) -> bytes:
    info = CHARSET + dstring(label, 128) + b"\0" * 108 + IMPLEMENTATION + b"\0" * 128
    return struct.pack("<I", 2) + regid(b"*UDF LV Info", struct.pack("<H", REVISION)) + info


def partition_descriptor(length: int) -> bytes:
    read_only = 1
    return b"".join((
        struct.pack("<IHH", 3, 1, 0),
        regid(b"+NSR02"),
        b"\0" * 128,
        struct.pack("<III", read_only, PARTITION, length),
        IMPLEMENTATION,
        b"\0" * (128 + 156),
    ))  # fmt: skip


def logical_volume(label: str) -> bytes:
    partition_map = struct.pack("<BBHH", 1, 6, 1, 0)
    return b"".join((
        struct.pack("<I", 4),
        CHARSET,
        dstring(label, 128),
        struct.pack("<I", SECTOR),
        DOMAIN,
        long_ad(2 * SECTOR, FILE_SET),  # the file set and the descriptor that ends its sequence
        struct.pack("<II", len(partition_map), 1),
        IMPLEMENTATION,
        b"\0" * 128,
        struct.pack("<II", 2 * SECTOR, INTEGRITY),
        partition_map,
    ))  # fmt: skip


def integrity(when: bytes, *, partition_length: int, files: int) -> bytes:
    closed = 1
    use = IMPLEMENTATION + struct.pack("<IIHHH", files, 1, REVISION, REVISION, REVISION)
    body = b"".join((
        when,
        struct.pack("<III", closed, 0, 0),
        struct.pack("<Q", FIRST_FILE_UNIQUE_ID + files) + b"\0" * 24,
        struct.pack("<IIII", 1, len(use), 0, partition_length),
        use,
    ))  # fmt: skip
    return descriptor(9, body, location=INTEGRITY)


def partition(files: Mapping[str, Extent], *, label: str, when: bytes) -> dict[int, bytes]:
    listing = directory_entry("", block=ROOT_DIRECTORY, entry=ROOT_ENTRY, unique_id=0)
    first_entry = data_start(list(files)) - PARTITION - len(files)
    blocks = {
        FILE_SET: descriptor(256, file_set(label, when), location=FILE_SET),
        FILE_SET_END: descriptor(8, b"\0" * 496, location=FILE_SET_END),
    }
    for n, (name, (sector, length)) in enumerate(files.items()):
        entry, unique_id = first_entry + n, FIRST_FILE_UNIQUE_ID + n
        where = ROOT_DIRECTORY + len(listing) // SECTOR
        listing += directory_entry(name, block=where, entry=entry, unique_id=unique_id)
        blocks[entry] = file_entry(
            REGULAR_FILE, entry, start=sector - PARTITION, length=length, when=when, unique_id=unique_id
        )
    blocks[ROOT_ENTRY] = file_entry(
        DIRECTORY, ROOT_ENTRY, start=ROOT_DIRECTORY, length=len(listing), when=when, unique_id=0
    )
    for n in range(sectors(len(listing))):
        blocks[ROOT_DIRECTORY + n] = listing[n * SECTOR : (n + 1) * SECTOR]
    return blocks


def file_set(label: str, when: bytes) -> bytes:
    return b"".join((
        when,
        struct.pack("<HHIIII", 3, 3, 1, 1, 0, 0),
        CHARSET, dstring(label, 128),
        CHARSET, dstring(label, 32),
        b"\0" * 64,
        long_ad(SECTOR, ROOT_ENTRY),
        DOMAIN,
        b"\0" * (16 + 48),
    ))  # fmt: skip


def file_entry(kind: int, block: int, *, start: int, length: int, when: bytes, unique_id: int) -> bytes:
    allocation = struct.pack("<II", length, start) if length else b""
    icb_tag = struct.pack("<IHHHBB6sH", 0, 4, 0, 1, 0, kind, b"", 0)
    body = b"".join((
        icb_tag,
        struct.pack("<III", NO_OWNER, NO_OWNER, READ_EXECUTE if kind == DIRECTORY else READ),
        struct.pack("<HBBI", 1, 0, 0, 0),
        struct.pack("<QQ", length, sectors(length)),
        when * 3,
        struct.pack("<I", 1),
        b"\0" * 16,
        IMPLEMENTATION,
        struct.pack("<QII", unique_id, 0, len(allocation)),
        allocation,
    ))  # fmt: skip
    return descriptor(261, body, location=block)


def directory_entry(name: str, *, block: int, entry: int, unique_id: int) -> bytes:
    """One file of the listing; no name: the parent directory."""
    flags, identifier = (0, compressed(name)) if name else (HAS_PARENT | IS_DIRECTORY, b"")
    body = struct.pack("<HBB", 1, flags, len(identifier)) + long_ad(SECTOR, entry, unique_id) + b"\0\0" + identifier
    return descriptor(257, body + b"\0" * (-(16 + len(body)) % 4), location=block)


def descriptor(tag: int, body: bytes, *, location: int) -> bytes:
    head = struct.pack("<HHBBHHHI", tag, 2, 0, 0, 1, crc_hqx(body, 0), len(body), location)
    return head[:4] + bytes([sum(head) & 0xFF]) + head[5:] + body


def long_ad(length: int, block: int, unique_id: int = 0) -> bytes:
    return struct.pack("<IIHHI", length, block, 0, 0, unique_id)


def compressed(text: str) -> bytes:
    try:
        return b"\x08" + text.encode("latin-1")
    except UnicodeEncodeError:
        return b"\x10" + text.encode("utf-16-be")


def dstring(text: str, size: int) -> bytes:
    content = compressed(text)[: size - 1]
    return content.ljust(size - 1, b"\0") + bytes([len(content)])


def timestamp(moment: datetime) -> bytes:
    """`moment` in UTC."""
    return struct.pack("<Hh8B", 0x1000, moment.year, moment.month, moment.day,
                       moment.hour, moment.minute, moment.second, 0, 0, 0)  # fmt: skip


def regid(identifier: bytes, suffix: bytes = b"") -> bytes:
    return struct.pack("<B23s8s", 0, identifier, suffix)


CHARSET = b"\0" + b"OSTA Compressed Unicode".ljust(63, b"\0")
DOMAIN = regid(b"*OSTA UDF Compliant", struct.pack("<HB", REVISION, 3))  # 3: write protected, both ways
IMPLEMENTATION = regid(b"*fakeazure")
