"""Signatures on a disk: partition tables, RAID and LVM members, file systems, swap. Pure: bytes in, signatures out.

A signature that is not in these tables is still data: a disk with any byte that is not zero is not blank. The tables
give the reason, and the UUIDs by which a set of disks is known again. Magic numbers of two bytes are left out, except
for ext: other file systems have counters in their place.
"""

from __future__ import annotations

from azureinit.record import Record

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HEAD, TAIL = 2 * MIB, 2 * MIB  # nearly all signatures lie in these
ELSEWHERE = (2 * MIB, 4 * MIB, 64 * MIB, 256 * GIB)  # second LUKS2 header; btrfs's copies
PAGES = (4096, 8192, 16384, 32768, 65536)
SWAPS = (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"S2SUSPEND\0", b"ULSUSPEND\0", b"LINHIB0001")
BTRFS = (64 * KIB, 64 * MIB, 256 * GIB)
LVM_UUID = (6, 4, 4, 4, 4, 4, 6)
LVM_METADATA = b" LVM2 x[5A%r0N*>"
MD = 0xA92B4EFC
ZFS = 0x00BAB10C
PROTECTIVE = 0xEE
BOOT_SECTORS = frozenset({"ntfs", "exfat", "vfat", "refs", "bitlocker"})  # they end as a partition table does

# kind, offset (negative: from the end), magic
MAGICS: tuple[tuple[str, int, bytes], ...] = (
    ("ntfs", 3, b"NTFS    "),
    ("exfat", 3, b"EXFAT   "),
    ("bitlocker", 3, b"-FVE-FS-"),
    ("refs", 3, b"ReFS\0\0\0\0"),
    ("vfat", 54, b"FAT12   "),
    ("vfat", 54, b"FAT16   "),
    ("vfat", 82, b"FAT32   "),
    ("luks2 header", 0x4000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x8000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x10000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x20000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x40000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x80000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x100000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x200000, b"SKUL\xba\xbe"),
    ("luks2 header", 0x400000, b"SKUL\xba\xbe"),
    ("iso9660", 32769, b"CD001"),
    *(("udf", 32769 + 2048 * sector, magic) for sector in range(4) for magic in (b"BEA01", b"NSR02", b"NSR03")),
    ("bcache", 4120, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")),
    ("bcachefs", 4120, bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")),
    ("f2fs", 1024, b"\x10\x20\xf5\xf2"),
    ("erofs", 1024, b"\xe2\xe1\xf5\xe0"),
    ("squashfs", 0, b"hsqs"),
    ("squashfs", 0, b"sqsh"),
    ("cramfs", 0, b"\x45\x3d\xcd\x28"),
    ("romfs", 0, b"-rom1fs-"),
    ("jfs", 32768, b"JFS1"),
    ("reiserfs", 8192 + 20, b"ReIsErFs"),
    ("reiserfs", 8192 + 52, b"ReIsErFs"),
    ("reiserfs", 65536 + 52, b"ReIsErFs"),
    ("reiserfs", 65536 + 52, b"ReIsEr2Fs"),
    ("reiserfs", 65536 + 52, b"ReIsEr3Fs"),
    ("reiser4", 65536, b"ReIsEr4"),
    ("apfs", 32, b"NXSB"),
    ("gfs2", 65536, b"\x01\x16\x19\x70"),
    *(("ocfs2", block * KIB, b"OCFSV2") for block in (1, 2, 4, 8)),
    ("vmfs", MIB, b"\x0d\xd0\x01\xc0"),
    ("oracleasm", 32, b"ORCLDISK"),
    ("stratis", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("stratis", 4612, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("vdo", 0, b"dmvdo001"),
    ("lvm1", 0, b"HM\x01\0"),
    ("imsm", -1024, b"Intel Raid ISM Cfg Sig. "),
    ("imsm", -8192, b"Intel Raid ISM Cfg Sig. "),
    ("ddf", -512, b"\xde\x11\xde\x11"),
    ("ddf", -512, b"\x11\xde\x11\xde"),
    ("drbd", -4096 + 60, b"\x83\x74\x02\x6b"),
    ("drbd", -4096 + 60, b"\x83\x74\x02\x6c"),
    ("drbd", -4096 + 60, b"\x83\x74\x02\x6d"),
    ("ldm", 6 * 512, b"PRIVHEAD"),
    ("ldm", -MIB + 1856 * 512, b"PRIVHEAD"),
    ("ldm", -512, b"PRIVHEAD"),
)  # fmt: skip


class Signature(Record):
    """`kind`: ext4, xfs, btrfs, swap, ntfs, gpt, dos, md, lvm2, ... `unfinished`: mkfs was interrupted (XFS, btrfs).

    `pmbr` is a protective MBR without a GPT; beside a GPT it is no signature of its own. An LVM member's `uuid` is its
    own (PV) as LVM writes it, case kept; `label` is the volume group's name, `group` the group's UUID, both empty
    before vgcreate, and `volumes` the names of the group's logical volumes, None where they are not known.
    """

    kind: str
    offset: int
    uuid: str = ""  # lower case, with hyphens; NTFS's serial number is none
    label: str = ""
    unfinished: bool = False
    group: str = ""
    partitions: tuple[str, ...] = ()  # GPT: the UUIDs of its partitions
    volumes: tuple[str, ...] | None = None


class View:
    """The parts of a disk that were read, as (offset, bytes)."""

    def __init__(self, areas: tuple[tuple[int, bytes], ...]) -> None:
        self.areas = areas

    def at(self, offset: int, length: int) -> bytes:
        """Nothing where a byte of it was not read."""
        for start, data in self.areas:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return b""


def probed_regions(size: int) -> tuple[tuple[int, int], ...]:
    """Where signatures can lie on a disk of that size, as (offset, length): sorted, without overlaps."""
    wanted = [(0, HEAD), *((at, 4 * KIB) for at in ELSEWHERE), (max(0, size - TAIL), TAIL)]
    return merged_regions(wanted, size)


def merged_regions(regions: list[tuple[int, int]], size: int) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, length in sorted(regions):
        end = min(start + length, size)
        if start >= end:
            continue
        if merged and start <= sum(merged[-1]):
            merged[-1] = (merged[-1][0], max(sum(merged[-1]), end) - merged[-1][0])
        else:
            merged.append((start, end - start))
    return tuple(merged)


def find_signatures(view: View, size: int) -> tuple[Signature, ...]:
    found = [
        Signature(kind=kind, offset=at)
        for kind, offset, magic in MAGICS
        if view.at(at := offset if offset >= 0 else size + offset, len(magic)) == magic
    ]
    for probe in (_gpt, _md, _lvm2, _luks, _ext, _xfs, _btrfs, _swap, _zfs):
        found += probe(view, size)
    found += _dos(view, {one.kind for one in found})
    kinds: dict[tuple[str, int], Signature] = {}
    for one in found:
        kinds.setdefault((one.kind, one.offset), one)
    return tuple(sorted(kinds.values(), key=lambda one: (one.offset, one.kind)))


def _gpt(view: View, _size: int) -> list[Signature]:
    """Headers at the start of any sector that was read: the backup of a disk that was grown is not at its end."""
    found = []
    for start, data in view.areas:
        at = data.find(b"EFI PART")
        while at >= 0:
            offset = start + at
            if offset % 512 == 0 and offset:
                partitions = _gpt_partitions(view, offset)
                found.append(
                    Signature(kind="gpt", offset=offset, uuid=_guid(view.at(offset + 56, 16)), partitions=partitions)
                )
            at = data.find(b"EFI PART", at + 8)
    return found


def _gpt_partitions(view: View, header: int) -> tuple[str, ...]:
    number, length = _little(view.at(header + 80, 4)), _little(view.at(header + 84, 4))
    own, entries = _little(view.at(header + 24, 8)), _little(view.at(header + 72, 8))
    if not own or header % own or length < 128 or number * length > MIB:
        return ()
    start = entries * (header // own) if header // own in (512, 4096) else 0
    table = view.at(start, number * length)
    each = (table[at : at + length] for at in range(0, len(table), length))
    return tuple(_guid(entry[16:32]) for entry in each if any(entry[:16]))


def _dos(view: View, kinds: set[str]) -> list[Signature]:
    sector = view.at(0, 512)
    if sector[510:] != b"\x55\xaa" or kinds & BOOT_SECTORS:
        return []
    entries = [sector[at : at + 16] for at in range(446, 510, 16)]
    if any(entry[0] not in (0, 0x80) for entry in entries):
        return [Signature(kind="boot sector", offset=0)]
    types = {entry[4] for entry in entries} - {0}
    if types == {PROTECTIVE}:
        return [] if "gpt" in kinds else [Signature(kind="pmbr", offset=0)]
    return [Signature(kind="dos", offset=0)]


def _md(view: View, size: int) -> list[Signature]:
    found = []
    for offset in {0, 4096, (size // 512 - 16 & ~7) * 512}:
        head = view.at(offset, 64)
        if _little(head[:4]) == MD and _little(head[4:8]) == 1:
            found.append(Signature(kind="md", offset=offset, uuid=_uuid(head[16:32]), label=_text(head[32:64])))
    offset = (size & ~0xFFFF) - 0x10000  # 0.90
    head = view.at(offset, 64)
    if head[:8] in (MD.to_bytes(4, "little") + bytes(4), MD.to_bytes(4, "big") + bytes(4)):
        found.append(Signature(kind="md", offset=offset, uuid=_uuid(head[20:24] + head[52:64])))
    return found


def _lvm2(view: View, _size: int) -> list[Signature]:
    found = []
    for offset in range(0, 2048, 512):
        label = view.at(offset, 512)
        if label[:8] != b"LABELONE" or label[24:32] != b"LVM2 001":
            continue
        at = _little(label[20:24])
        header = label[at:]
        letters, cuts = header[:32].decode("ascii", "replace"), [0]
        for length in LVM_UUID:
            cuts.append(cuts[-1] + length)
        uuid = "-".join(letters[start:end] for start, end in zip(cuts, cuts[1:]))
        name, group, volumes = _lvm2_group(view, header[40:])
        found.append(Signature(kind="lvm2", offset=offset, uuid=uuid, label=name, group=group, volumes=volumes))
    return found


def _lvm2_group(view: View, places: bytes) -> tuple[str, str, tuple[str, ...] | None]:
    """Name, UUID and volumes of the volume group, from the newest text of the first metadata area."""
    pairs = [(_little(places[at : at + 8]), _little(places[at + 8 : at + 16])) for at in range(0, len(places) - 15, 16)]
    ends = [index for index, pair in enumerate(pairs) if pair == (0, 0)]
    if not ends or ends[0] + 1 >= len(pairs):
        return "", "", None
    start, length = pairs[ends[0] + 1]
    header = view.at(start, 512)
    if header[4:20] != LVM_METADATA:
        return "", "", None
    offset, size = _little(header[40:48]), _little(header[48:56])
    if not offset or not size or offset >= length:
        return "", "", None
    here = min(size, length - offset)  # the rest of a text that reaches the area's end is at its beginning
    data = view.at(start + offset, here) + view.at(start + 512, size - here)
    text = data.decode("utf-8", "replace")
    name, brace, rest = text.partition(" {")
    _, quote, after = rest.partition('id = "')
    if not brace or not quote:
        return "", "", None
    return name.strip(), after.partition('"')[0], _lvm2_volumes(text) if len(data) == size else None


def _lvm2_volumes(text: str) -> tuple[str, ...] | None:
    """The sections in the section `logical_volumes`. LVM writes each brace at the end of a line or on its own."""
    found: list[str] = []
    depth, inside = 0, 0
    for line in map(str.strip, text.rstrip("\0").split("\n")):
        if line.endswith("{"):
            depth += 1
            name = line[:-1].strip()
            if inside and depth == inside + 1:
                found.append(name)
            elif depth == 2 and name == "logical_volumes":
                inside = depth
        elif line == "}":
            inside = 0 if depth == inside else inside
            depth -= 1
    return tuple(found) if not depth else None


def _luks(view: View, _size: int) -> list[Signature]:
    head = view.at(0, 512)
    if head[:6] != b"LUKS\xba\xbe":
        return []
    return [Signature(kind="luks", offset=0, uuid=_text(head[168:208]).lower())]


def _ext(view: View, _size: int) -> list[Signature]:
    own = view.at(1024, 1024)
    if own[56:58] != b"\x53\xef":
        return []
    compatible, incompatible, read_only = (_little(own[at : at + 4]) for at in (92, 96, 100))
    kind = "ext3" if compatible & 0x4 else "ext2"
    if incompatible & 0x8:
        kind = "jbd"
    elif incompatible & ~0x1F or read_only & ~0x7:
        kind = "ext4"
    return [Signature(kind=kind, offset=1024, uuid=_uuid(own[104:120]), label=_text(own[120:136]))]


def _xfs(view: View, _size: int) -> list[Signature]:
    own = view.at(0, 512)
    if own[:4] != b"XFSB":
        return []
    return [
        Signature(kind="xfs", offset=0, uuid=_uuid(own[32:48]), label=_text(own[108:120]), unfinished=own[126] != 0)
    ]


def _btrfs(view: View, _size: int) -> list[Signature]:
    """mkfs writes the final magic number last."""
    found = []
    for offset in BTRFS:
        own = view.at(offset, 4096)
        if own[64:72] in (b"_BHRfS_M", b"!BHRfS_M"):
            uuid, label, unfinished = _uuid(own[32:48]), _text(own[299:555]), own[64:65] == b"!"
            found.append(Signature(kind="btrfs", offset=offset, uuid=uuid, label=label, unfinished=unfinished))
    return found


def _swap(view: View, _size: int) -> list[Signature]:
    head = view.at(1024, 44)
    for page in PAGES:
        magic = view.at(page - 10, 10)
        if magic not in SWAPS:
            continue
        kind = "swap" if magic in SWAPS[:2] else "suspended system"
        uuid, label = (_uuid(head[12:28]), _text(head[28:44])) if magic == SWAPS[0] else ("", "")
        return [Signature(kind=kind, offset=page - 10, uuid=uuid, label=label)]
    return []


def _zfs(view: View, size: int) -> list[Signature]:
    """One of the two labels at each end is enough: their uberblocks begin after 128 KiB."""
    end = size & ~(256 * KIB - 1)
    for label in (0, 256 * KIB, end - 512 * KIB, end - 256 * KIB):
        ring = view.at(label + 128 * KIB, 128 * KIB)
        for at in range(0, len(ring), KIB):
            magic = ring[at : at + 8]
            if ZFS in (int.from_bytes(magic, "little"), int.from_bytes(magic, "big")):
                return [Signature(kind="zfs", offset=label + 128 * KIB + at)]
    return []


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _uuid(data: bytes) -> str:
    plain = data.hex()
    if len(plain) != 32 or not any(data):
        return ""
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def _guid(data: bytes) -> str:
    """GPT has the first three fields in little-endian order."""
    return _uuid(data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:])
