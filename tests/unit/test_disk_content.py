"""Blank or not: signatures, the bound of zeros, and what the digest covers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.errors import LocalError
from azureinit.facts.disk_content import (
    EDGE,
    SAMPLE,
    SAMPLES,
    Content,
    bound,
    contradicted,
    first_nonzero,
    parse_blkid,
    read_content,
)
from azureinit.facts.signatures import Signature
from azureinit.machine.block import Digest
from support.sparse_disks import GIB, GUID_TEXT, KIB, MIB, SIGNED, TIB, UUID_TEXT, SparseDisk, at, md1

SIZES = st.one_of(
    st.integers(1, 200 * MIB),
    st.integers(32 * MIB, 100 * MIB),
    st.integers(96 * MIB - 5, 97 * MIB),
    st.integers(1, 9 * TIB),
)


def content_of(disk: SparseDisk) -> Content:
    return read_content(disk, disk.size)


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("size", [MIB, 40 * MIB, 100 * MIB + 512, 1862 * GIB])
def test_every_signature_is_found_on_a_disk_of_any_size(name: str, size: int) -> None:
    disk = SparseDisk(size)
    kind, sign = SIGNED[name]
    sign(disk)
    content = content_of(disk)
    assert {one.kind for one in content.signatures} == {kind}
    assert not content.blank and not content.pristine_ntfs


@pytest.mark.parametrize(
    "name", ["md 1.0", "md 1.1", "md 1.2", "ext2", "ext3", "ext4", "xfs", "btrfs", "swap 4096", "luks"]
)
def test_uuids_are_read(name: str) -> None:
    disk = SparseDisk(GIB)
    SIGNED[name][1](disk)
    (one,) = content_of(disk).signatures
    assert one.uuid == UUID_TEXT
    assert one.label == {"md": "host:name", "luks": ""}.get(one.kind, "data")


def test_mdadm_writes_uuids_in_another_way() -> None:
    disk = SparseDisk(GIB)
    disk.write(4096, md1(4096))
    (one,) = content_of(disk).signatures
    assert one.mdadm_uuid == "10111213:14151617:18191a1b:1c1d1e1f"


@pytest.mark.parametrize("name", ["gpt 512", "gpt 4096"])
def test_a_gpt_has_its_own_uuid_and_those_of_its_partitions(name: str) -> None:
    disk = SparseDisk(GIB)
    SIGNED[name][1](disk)
    SIGNED["protective"][1](disk)
    (one,) = content_of(disk).signatures  # the protective MBR belongs to it
    assert (one.uuid, one.partitions) == (GUID_TEXT, (GUID_TEXT,))


def test_a_backup_gpt_is_found_where_the_disk_was_grown_a_little() -> None:
    disk = SparseDisk(GIB)
    disk.write(GIB - MIB - 512, b"EFI PART")
    (one,) = content_of(disk).signatures
    assert (one.kind, one.offset, one.uuid, one.partitions) == ("gpt", GIB - MIB - 512, "", ())


def test_unfinished_file_systems_say_so() -> None:
    for name in ("unfinished xfs", "unfinished btrfs", "xfs", "btrfs"):
        disk = SparseDisk(GIB)
        SIGNED[name][1](disk)
        (one,) = content_of(disk).signatures
        assert one.unfinished == name.startswith("unfinished")


@pytest.mark.parametrize("copy", [64 * MIB, 256 * GIB])
def test_the_copies_of_a_btrfs_superblock_are_found(copy: int) -> None:
    disk = SparseDisk(TIB)
    at(copy + 64, b"_BHRfS_M")(disk)
    (one,) = content_of(disk).signatures
    assert (one.kind, one.offset) == ("btrfs", copy)


def test_boot_sectors_are_no_partition_tables() -> None:
    for name in ("ntfs", "exfat", "fat32"):
        disk = SparseDisk(GIB)
        SIGNED[name][1](disk)
        disk.write(510, b"\x55\xaa")
        assert [one.kind for one in content_of(disk).signatures] == [SIGNED[name][0]]
    disk = SparseDisk(GIB)
    disk.write(0, b"\xeb\x63\x90" + b"\x11" * 507 + b"\x55\xaa")
    assert [one.kind for one in content_of(disk).signatures] == ["boot sector"]


# ---- the bound


@given(SIZES)
def test_the_bound_lies_on_the_disk_without_overlaps(size: int) -> None:
    end = 0
    for start, length in bound(size):
        assert start >= end and length > 0
        end = start + length
    assert end == size
    assert bound(size)[0][0] == 0


@given(st.integers(200 * MIB, 9 * TIB))
def test_the_bound_is_both_edges_and_64_samples_at_equal_distances(size: int) -> None:
    regions = bound(size)
    assert regions[0] == (0, EDGE) and regions[-1] == (size - EDGE, EDGE)
    samples = regions[1:-1]
    assert len(samples) == SAMPLES and {length for _, length in samples} == {SAMPLE}
    gaps = [after[0] - sum(before) for before, after in zip(regions, regions[1:])]
    assert max(gaps) - min(gaps) <= 2 * 4096


@given(st.integers(1, 2 * EDGE + SAMPLES * SAMPLE))
def test_a_small_disk_is_read_as_a_whole(size: int) -> None:
    assert bound(size) == ((0, size),)


@settings(deadline=None)
@given(SIZES)
def test_a_blank_disk_is_read_once_and_its_regions_cover_the_bound(size: int) -> None:
    disk = SparseDisk(size)
    content = content_of(disk)
    assert content.blank and content.nonzero is None and content.signatures == ()
    read = sorted(disk.reads)
    assert read == sorted(content.regions)
    assert all(sum(before) <= after[0] for before, after in zip(read, read[1:]))
    assert all(
        any(start <= at < start + length for start, length in read)
        for part in bound(size)
        for at in (part[0], sum(part) - 1)
    )
    assert sum(length for _, length in read) >= sum(length for _, length in bound(size))


@settings(deadline=None)
@given(SIZES, st.data())
def test_a_single_byte_within_the_bound_is_found(size: int, data: st.DataObject) -> None:
    start, length = data.draw(st.sampled_from(bound(size)))
    offset = start + data.draw(st.one_of(st.integers(0, length - 1), st.sampled_from((0, length - 1))))
    disk = SparseDisk(size)
    disk.write(offset, bytes([data.draw(st.integers(1, 255))]))
    content = content_of(disk)
    assert not content.blank and content.nonzero == offset
    assert any(start <= offset < start + length for start, length in content.regions)


def test_the_first_nonzero_byte_is_named() -> None:
    assert first_nonzero(b"") is None
    assert first_nonzero(bytes(3 * MIB)) is None
    assert first_nonzero(bytes(2 * MIB + 5) + b"x") == 2 * MIB + 5


# ---- the digest


def test_the_digest_is_over_the_regions_in_their_order() -> None:
    disk = SparseDisk(3 * GIB)
    SIGNED["ext4"][1](disk)
    content = content_of(disk)
    again = Digest()
    for offset, length in content.regions:
        again.add(disk.read(offset, length))
    assert again.text() == content.digest


@given(st.lists(st.sampled_from([b"", b"\0", b"\0\0", b"\0x", b"x\0", b"x", bytes(600)]), max_size=5), st.data())
def test_digests_differ_where_pieces_differ(pieces: list[bytes], data: st.DataObject) -> None:
    other = data.draw(st.permutations(pieces))
    first, second = Digest(), Digest()
    for piece in pieces:
        first.add(piece)
    for piece in other:
        second.add(piece)
    assert (first.text() == second.text()) == (pieces == other)


@settings(deadline=None)
@given(st.sampled_from([MIB, 50 * MIB, GIB]), st.data())
def test_any_change_within_the_regions_changes_the_digest(size: int, data: st.DataObject) -> None:
    disk = SparseDisk(size)
    for name in data.draw(st.lists(st.sampled_from(sorted(SIGNED)), max_size=2)):
        SIGNED[name][1](disk)
    before = content_of(disk)
    start, length = data.draw(st.sampled_from(before.regions))
    offset = start + data.draw(st.integers(0, length - 1))
    (old,) = disk.read(offset, 1)
    disk.write(offset, bytes([old ^ data.draw(st.integers(1, 255))]))
    after = Digest()
    for start, length in before.regions:
        after.add(disk.read(start, length))
    assert after.text() != before.digest


# ---- disks that cannot be read


class Failing(SparseDisk):
    def __init__(self, size: int, bad: int) -> None:
        super().__init__(size)
        self.bad = bad

    def read(self, offset: int, length: int) -> bytes:
        if offset <= self.bad < offset + length:
            raise LocalError("cannot read /dev/nvme0n1: Input/output error")
        return super().read(offset, length)


class Short(SparseDisk):
    """Returns at most 1000 bytes at once."""

    def read(self, offset: int, length: int) -> bytes:
        return super().read(offset, min(length, 1000))


@pytest.mark.parametrize("bad", [0, 1 * MIB, 10 * MIB, GIB - 1])
def test_an_error_in_the_bound_is_an_error(bad: int) -> None:
    with pytest.raises(LocalError, match="Input/output error"):
        content_of(Failing(GIB, bad))


def test_a_disk_that_is_shorter_than_its_size_is_an_error() -> None:
    with pytest.raises(LocalError, match="ends at byte 1048576"):
        read_content(SparseDisk(MIB), 2 * MIB)
    with pytest.raises(LocalError, match="no bytes"):
        read_content(SparseDisk(0), 0)


def test_short_reads_are_continued() -> None:
    short, whole = Short(2 * MIB), SparseDisk(2 * MIB)
    for disk in (short, whole):
        SIGNED["xfs"][1](disk)
    assert content_of(short) == content_of(whole)


@settings(deadline=None)
@given(st.binary(max_size=6000), st.integers(0, 70_000), st.sampled_from([70_000 + 6000, MIB, 5 * MIB]))
def test_no_bytes_break_the_probes(data: bytes, offset: int, size: int) -> None:
    disk = SparseDisk(size)
    disk.write(offset, data)
    assert content_of(disk).blank == (not data.strip(b"\0"))


@settings(deadline=None)
@given(
    st.sampled_from(sorted(SIGNED)),
    st.lists(st.tuples(st.integers(0, 8 * KIB), st.binary(min_size=1, max_size=9)), max_size=9),
)
def test_damaged_signatures_break_nothing(name: str, patches: list[tuple[int, bytes]]) -> None:
    disk = SparseDisk(MIB)
    SIGNED[name][1](disk)
    for offset, patch in patches:
        disk.write(offset, patch)
        assert content_of(disk).blank == (not any(True for _ in disk.nonzero()))


# ---- NTFS that is none


@settings(deadline=None)
@given(st.binary(max_size=1024), st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=20))
def test_a_boot_sector_alone_is_never_pristine(tail: bytes, patches: list[tuple[int, int]]) -> None:
    boot = bytearray(512)
    boot[3:11], boot[510:512] = b"NTFS    ", b"\x55\xaa"
    boot[11:14], boot[40:48], boot[48:56], boot[64] = (
        b"\0\x02\x08",
        (2047).to_bytes(8, "little"),
        b"\x01" + bytes(7),
        0xF6,
    )
    data = bytearray(bytes(boot) + bytes(3584) + b"FILE" + tail).ljust(8192, b"\0")
    for at_byte, value in patches:
        data[at_byte + (4096 if value & 1 else 0)] = value
    disk = SparseDisk(MIB)
    disk.write(0, bytes(data))
    content = content_of(disk)
    assert not content.pristine_ntfs and not content.blank
    assert (
        content.ntfs_unreadable
        or not any(one.kind == "ntfs" for one in content.signatures)
        or len(content.signatures) > 1
    )


# ---- the second opinion


def test_blkid_answers() -> None:
    assert parse_blkid(2, b"", "") == ""
    assert parse_blkid(8, b"", "") == "signatures that contradict each other"
    assert parse_blkid(0, b"DEVNAME=/dev/sdb1\nPART_ENTRY_SCHEME=dos\nPART_ENTRY_TYPE=0x7\n", "") == ""
    assert parse_blkid(0, b"DEVNAME=/dev/sdb\nPTUUID=1\nPTTYPE=dos\n", "") == "dos"
    assert parse_blkid(0, b"LABEL=a=b\nTYPE=minix\nUSAGE=filesystem\n", "") == "minix"
    assert parse_blkid(4, b"", "blkid ended with 4") == "nothing certain (blkid ended with 4)"


def test_a_second_opinion_against_blank_wins() -> None:
    blank = Content(size=1, blank=True)
    assert contradicted(blank, "") == blank
    assert contradicted(blank, "minix") == Content(size=1, blank=False, ambiguous="blkid finds: minix")
    signatures = (Signature(kind="ntfs", offset=3),)
    ntfs = Content(size=1, blank=False, signatures=signatures, pristine_ntfs=True)
    assert contradicted(ntfs, "ntfs") == ntfs
    assert not contradicted(ntfs, "ext4").pristine_ntfs
