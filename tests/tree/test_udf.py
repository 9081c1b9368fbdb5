"""The UDF reader on discs of genisoimage and mkudffs, on filled, modified and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.errors import MediaUnreadable
from azureinit.sources.udf import MOST_READ, is_udf, read_udf_file
from support.images import (
    EMBEDDED,
    EXTENDED,
    LONG,
    SHORT,
    Memory,
    Udf,
    genisoimage,
    mkudffs,
    retagged,
    tagged,
    without_iso,
)

NAME = "ovf-env.xml"
LIMIT = 1 << 20
SMALL = b"<Environment/>\n"
LARGE = bytes(range(256)) * 40  # several blocks
DISCS = [
    ("1.02", "dvd", 2048),
    ("1.02", "hd", 512),
    ("1.50", "dvd", 2048),
    ("2.01", "dvd", 2048),
    ("2.01", "hd", 512),
    ("2.01", "hd", 4096),
    ("2.01", "cdrw", 2048),
    ("2.01", "cdr", 2048),
    ("1.50", "cdr", 2048),
    ("2.50", "bdr", 2048),
    ("2.50", "bdr", 512),
    ("2.50", "cdr", 2048),
    ("2.60", "bdr", 2048),
]


def read(image: bytes | bytearray, name: str = NAME, *, limit: int = LIMIT) -> bytes | None:
    return read_udf_file(Memory(image), name, limit=limit)


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return mkudffs(tmp_path_factory.mktemp("udf"), revision="2.01")


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return genisoimage(tmp_path_factory.mktemp("iso"), {NAME: LARGE, "other": b"x"}, "-udf", "-J", "-R")


def test_a_bridge_disc_is_read_in_a_few_reads(bridge: bytes) -> None:
    image = Memory(bridge)
    assert is_udf(image)
    assert read_udf_file(image, NAME, limit=LIMIT) == LARGE
    assert image.reads < 20
    assert image.total < 256 << 10


def test_a_disc_without_iso_descriptors_is_read(bridge: bytes) -> None:
    image = without_iso(bridge)
    assert is_udf(Memory(image))
    assert read(image) == LARGE


def test_an_iso_disc_is_not_udf(tmp_path: Path) -> None:
    image = genisoimage(tmp_path, {NAME: SMALL}, "-R")
    assert not is_udf(Memory(image))
    with pytest.raises(MediaUnreadable, match="no anchor"):
        read(image)


@pytest.mark.parametrize("image", [b"", b"\0" * 100, b"\0" * 40000, b"\0" * (1 << 20)])
def test_blanks_are_not_udf(image: bytes) -> None:
    assert not is_udf(Memory(image))
    with pytest.raises(MediaUnreadable):
        read(image)


def test_a_disc_is_known_by_its_anchors_alone(blank: bytes) -> None:
    assert is_udf(Memory(bytes(64 << 10) + blank[64 << 10 :]))


@pytest.mark.parametrize(("revision", "media", "block_size"), DISCS)
def test_every_disc_of_mkudffs_is_sound_and_empty(tmp_path: Path, revision: str, media: str, block_size: int) -> None:
    image = Memory(mkudffs(tmp_path, revision=revision, media=media, block_size=block_size))
    assert is_udf(image)
    assert read_udf_file(image, NAME, limit=LIMIT) is None
    assert image.total <= MOST_READ


@pytest.mark.parametrize("option", ["--ad=short", "--ad=long", "--noefe", "--space=freedtable"])
def test_every_layout_of_the_root_directory_is_read(tmp_path: Path, option: str) -> None:
    assert read(mkudffs(tmp_path, option, revision="2.01")) is None


@pytest.mark.parametrize(("revision", "media", "block_size"), DISCS)
def test_a_file_is_read_on_every_disc(tmp_path: Path, revision: str, media: str, block_size: int) -> None:
    disc = Udf(mkudffs(tmp_path, revision=revision, media=media, block_size=block_size), block_size=block_size)
    extended = revision > "2"
    disc.add("other.txt", b"other", allocation=EMBEDDED, extended=extended)
    disc.add(NAME, LARGE, allocation=LONG, extended=extended)
    assert read(disc.image) == LARGE
    assert read(disc.image, "other.txt") == b"other"
    assert read(disc.image, "absent") is None


@pytest.mark.parametrize("allocation", [SHORT, LONG, EMBEDDED])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("extended", [False, True])
def test_every_kind_of_entry_name_and_allocation(blank: bytes, allocation: int, bits: int, extended: bool) -> None:
    disc = Udf(blank)
    data = LARGE if allocation != EMBEDDED else SMALL
    disc.add(NAME, data, allocation=allocation, bits=bits, extended=extended)
    assert read(disc.image) == data


@pytest.mark.parametrize("allocation", [SHORT, LONG, EMBEDDED])
def test_an_empty_file_is_empty_and_not_absent(blank: bytes, allocation: int) -> None:
    disc = Udf(blank)
    disc.add(NAME, b"", allocation=allocation)
    assert read(disc.image) == b""


def test_a_name_of_16_bits_need_not_be_latin(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add("снимок.xml", SMALL, bits=16)
    assert read(disc.image, "снимок.xml") == SMALL


def test_the_exact_name_wins_over_one_that_differs_in_case(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add("OVF-ENV.XML", b"upper")
    assert read(disc.image) == b"upper"
    disc.add(NAME, b"exact")
    assert read(disc.image) == b"exact"


@pytest.mark.parametrize("characteristics", [2, 4, 8])
def test_directories_and_deleted_and_parent_entries_are_passed_over(blank: bytes, characteristics: int) -> None:
    disc = Udf(blank)
    disc.add(NAME, SMALL, characteristics=characteristics)
    assert read(disc.image) is None


def test_holes_read_as_zeros_and_continuations_are_followed(blank: bytes) -> None:
    disc = Udf(blank)
    piece = disc.store(b"a" * 2048)
    rest = disc.store(b"b" * 10)
    more = disc.free
    disc.free += 1
    descriptors = struct.pack("<2I", 10, rest)
    disc.put(disc.start + more, tagged(258, more, struct.pack("<2I", 0, len(descriptors)) + descriptors))
    first = struct.pack("<6I", 2048, piece, 2 << 30 | 2048, 0, 3 << 30 | 2048, more)
    disc.add(NAME, b"", descriptors=first, length=4106)
    assert read(disc.image) == b"a" * 2048 + bytes(2048) + b"b" * 10


def test_a_continuation_that_leads_to_itself_ends(blank: bytes) -> None:
    disc = Udf(blank)
    more = disc.free
    disc.free += 1
    descriptors = struct.pack("<2I", 3 << 30 | 2048, more)
    disc.put(disc.start + more, tagged(258, more, struct.pack("<2I", 0, len(descriptors)) + descriptors))
    disc.add(NAME, b"", descriptors=descriptors, length=10)
    with pytest.raises(MediaUnreadable, match="no end"):
        read(disc.image)


def test_extended_allocation_is_refused_by_name(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, LARGE, allocation=EXTENDED)
    with pytest.raises(MediaUnreadable, match="extended allocation"):
        read(disc.image)


def test_a_file_above_the_limit_is_refused(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, LARGE)
    assert read(disc.image, limit=len(LARGE)) == LARGE
    with pytest.raises(MediaUnreadable, match="more than"):
        read(disc.image, limit=len(LARGE) - 1)


@pytest.mark.parametrize("length", [1 << 20, 1 << 63])
def test_a_file_that_ends_before_its_length_is_broken(blank: bytes, length: int) -> None:
    disc = Udf(blank)
    disc.add(NAME, SMALL, length=length)
    with pytest.raises(MediaUnreadable, match=r"ends after|more than"):
        read(disc.image)


def test_a_directory_in_the_files_place_is_broken(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, SMALL, kind=4)
    with pytest.raises(MediaUnreadable, match="plain file"):
        read(disc.image)


def test_a_metadata_partition_is_read_and_its_mirror_where_the_first_is_broken(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, LARGE, allocation=LONG, extended=True)
    disc.into_metadata_partition()
    assert read(disc.image) == LARGE


def test_a_spared_packet_is_read_where_it_was_moved_to(tmp_path: Path) -> None:
    disc = Udf(mkudffs(tmp_path, revision="2.01", media="cdrw"))
    disc.add(NAME, LARGE)
    logical = disc.block(disc.logical_at)
    packet, tables = struct.unpack_from("<HB", logical, 480)
    locations = struct.unpack_from("<4I", logical, 488)[:tables]
    original = disc.root - disc.root % packet
    count = struct.unpack_from("<H", disc.block(locations[0]), 48)[0]
    spare = struct.unpack_from("<I", disc.block(locations[0]), 60)[0]
    assert count > 0
    for offset in range(packet):
        disc.put(spare + offset, disc.block(disc.start + original + offset))
        disc.put(disc.start + original + offset, b"\xee" * disc.size)
    for location in locations:
        disc.put(location, retagged(disc.block(location)[:56] + struct.pack("<2I", original, spare)))
    assert read(disc.image) == LARGE
    torn = bytearray(disc.block(locations[0]))
    torn[60] ^= 1
    disc.put(locations[0], bytes(torn))
    assert read(disc.image) == LARGE, "a damaged table gives way to its copy"
    disc.put(locations[0], bytes(disc.size))
    assert read(disc.image) == LARGE
    for location in locations:
        disc.put(location, bytes(disc.size))
    with pytest.raises(MediaUnreadable, match="no sparing table"):
        read(disc.image)


def test_a_hole_is_no_larger_than_the_limit(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, b"", descriptors=struct.pack("<2I", 2 << 30 | 0x3FFFFFFF, 0), length=LIMIT)
    assert read(disc.image) == bytes(LIMIT)
    disc.add("large", b"", descriptors=struct.pack("<2I", 2 << 30 | 0x3FFFFFFF, 0), length=0x3FFFFFFF)
    with pytest.raises(MediaUnreadable, match="more than"):
        read(disc.image, "large")


def test_the_reserve_sequence_is_read_where_the_main_one_is_damaged(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, LARGE)
    disc.put(disc.logical_at, b"\xff" * 100)
    assert read(disc.image) == LARGE


def test_the_last_anchor_is_read_where_the_others_are_damaged(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, LARGE)
    last = len(disc.image) // disc.size - 1
    for block in (256, last - 256):
        disc.put(block, bytes(512))
    assert read(disc.image) == LARGE


@pytest.mark.parametrize("missing", [1, 4096, 1 << 20, 6 << 20])
def test_a_disc_cut_short_is_read_or_broken(bridge: bytes, missing: int) -> None:
    cut = bridge[: max(0, len(bridge) - missing)]
    try:
        assert read(cut) in (LARGE, None)
    except MediaUnreadable:
        pass


def test_a_short_read_is_broken(bridge: bytes) -> None:
    image = Memory(bridge)
    image.data = bridge[: 257 * 2048 + 100]
    with pytest.raises(MediaUnreadable, match="short read"):
        read_udf_file(image, NAME, limit=LIMIT)


def test_a_changed_byte_in_an_entry_is_found_by_its_crc(blank: bytes) -> None:
    disc = Udf(blank)
    disc.add(NAME, LARGE)
    at = (disc.start + disc.root) * disc.size + 60
    disc.image[at] ^= 1
    with pytest.raises(MediaUnreadable, match="damaged"):
        read(disc.image)


def test_an_unknown_strategy_is_told(blank: bytes) -> None:
    disc = Udf(blank)
    root = bytearray(disc.block(disc.start + disc.root)[:512])
    struct.pack_into("<H", root, 20, 4096)
    disc.put(disc.start + disc.root, retagged(bytes(root)))
    with pytest.raises(MediaUnreadable, match="strategy 4096"):
        read(disc.image)


FLIPS = st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 7)), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory, blank: bytes, bridge: bytes) -> list[bytes]:
    plain, meta = Udf(blank), Udf(blank)
    plain.add(NAME, LARGE, allocation=LONG)
    meta.add(NAME, LARGE, allocation=LONG)
    meta.into_metadata_partition()
    spared = Udf(mkudffs(tmp_path_factory.mktemp("cdrw"), revision="2.01", media="cdrw"))
    spared.add(NAME, LARGE)
    virtual = Udf(mkudffs(tmp_path_factory.mktemp("bdr"), revision="2.50", media="bdr"))
    virtual.add(NAME, LARGE, allocation=LONG)
    return [bytes(disc.image) for disc in (plain, meta, spared, virtual)] + [without_iso(bridge)]


def interesting(image: bytes) -> list[int]:
    """Offsets of blocks that hold anything, so that flips hit descriptors and not blanks."""
    return [at for at in range(0, len(image), 2048) if any(image[at : at + 512])]


@pytest.fixture(scope="module")
def places(discs: list[bytes]) -> list[list[int]]:
    return [interesting(disc) for disc in discs]


def sealed(image: bytearray, at: int) -> None:
    """The tag's checksum and CRC made right again, so that a flip gets past them."""
    kind, covered, location = struct.unpack_from("<H8xHI", image, at)
    if kind in (2, 5, 6, 256, 257, 258, 261, 266) and covered <= 2032:
        image[at : at + 16 + covered] = tagged(kind, location, bytes(image[at + 16 : at + 16 + covered]))


@pytest.mark.parametrize("seal", [False, True])
@settings(max_examples=150, deadline=None)
@given(which=st.integers(0, 4), flips=FLIPS)
def test_flipped_bits_never_hang_nor_read_past_the_cap(
    discs: list[bytes], places: list[list[int]], seal: bool, which: int, flips: list[tuple[int, int]]
) -> None:
    image = bytearray(discs[which])
    for number, bit in flips:
        at = places[which][number % len(places[which])]
        image[at + number // 97 % 512] ^= 1 << bit
        if seal:
            sealed(image, at)
    memory = Memory(image)
    try:
        is_udf(memory)
        data = read_udf_file(memory, NAME, limit=LIMIT)
        assert data is None or len(data) <= LIMIT
    except MediaUnreadable:
        pass
    assert memory.total <= 2 * MOST_READ + LIMIT


@settings(max_examples=100, deadline=None)
@given(noise=st.binary(max_size=4096), at=st.integers(0, 400 * 2048))
def test_noise_is_never_more_than_unreadable(noise: bytes, at: int) -> None:
    image = bytearray(1 << 20)
    image[at : at + len(noise)] = noise
    with pytest.raises(MediaUnreadable):
        read(image)
