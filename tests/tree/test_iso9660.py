"""The ISO 9660 reader on discs of genisoimage, and on damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.errors import MediaUnreadable
from azureinit.sources.iso9660 import MOST_READ, is_iso9660, read_iso_file
from support.images import Memory, genisoimage

NAME = "ovf-env.xml"
LIMIT = 1 << 20
DATA = bytes(range(256)) * 40
SECTOR = 2048
LONG_NAME = "a-name-too-long-for-one-directory-record-" * 6


def read(image: bytes | bytearray, name: str = NAME, *, limit: int = LIMIT) -> bytes | None:
    return read_iso_file(Memory(image), name, limit=limit)


@pytest.fixture(scope="module")
def disc(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return genisoimage(tmp_path_factory.mktemp("iso"), {NAME: DATA, LONG_NAME: b"long"}, "-J", "-R", "-joliet-long")


@pytest.mark.parametrize("options", [(), ("-R",), ("-r",), ("-J",), ("-J", "-R"), ("-J", "-R", "-udf"), ("-l", "-U")])
def test_the_file_is_found_by_every_kind_of_name(tmp_path: Path, options: tuple[str, ...]) -> None:
    image = Memory(genisoimage(tmp_path, {NAME: DATA, "another.txt": b"x"}, *options))
    assert is_iso9660(image)
    assert read_iso_file(image, NAME, limit=LIMIT) == DATA
    assert image.reads < 20
    assert read_iso_file(image, "absent.xml", limit=LIMIT) is None


def test_a_rock_ridge_name_in_a_continuation_area_is_whole(tmp_path: Path) -> None:
    image = genisoimage(tmp_path, {LONG_NAME: b"long", NAME: DATA}, "-R")
    assert read(image, LONG_NAME) == b"long"


def test_a_directory_of_many_sectors_is_read_to_its_end(tmp_path: Path) -> None:
    files = {f"file-{number:03}.txt": b"x" for number in range(300)}
    image = genisoimage(tmp_path, {**files, NAME: DATA}, "-R")
    assert read(image) == DATA
    assert read(image, "file-299.txt") == b"x"


def test_an_empty_file_is_empty_and_not_absent(tmp_path: Path) -> None:
    assert read(genisoimage(tmp_path, {NAME: b""}, "-R")) == b""


def test_a_file_above_the_limit_is_refused(disc: bytes) -> None:
    assert read(disc, limit=len(DATA)) == DATA
    with pytest.raises(MediaUnreadable, match="more than"):
        read(disc, limit=len(DATA) - 1)


def test_joliet_is_read_where_the_primary_root_is_damaged(disc: bytes) -> None:
    image = bytearray(disc)
    image[16 * SECTOR + 158 : 16 * SECTOR + 162] = b"\xff" * 4
    assert read(image) == DATA


def test_the_primary_root_is_read_where_joliets_is_damaged(disc: bytes) -> None:
    image = bytearray(disc)
    assert image[17 * SECTOR] == 2
    image[17 * SECTOR + 158 : 17 * SECTOR + 162] = b"\xff" * 4
    assert read(image) == DATA


def test_a_root_directory_without_entries_is_broken(tmp_path: Path) -> None:
    image = bytearray(genisoimage(tmp_path, {NAME: DATA}))
    image[16 * SECTOR + 166 : 16 * SECTOR + 174] = bytes(8)
    with pytest.raises(MediaUnreadable, match="empty"):
        read(image)


@pytest.mark.parametrize("size", [0, 100, 16 * SECTOR, 17 * SECTOR - 1])
def test_what_is_too_short_is_not_iso9660(size: int) -> None:
    assert not is_iso9660(Memory(bytes(size)))
    with pytest.raises(MediaUnreadable, match="no volume descriptor"):
        read(bytes(size))


def test_a_disc_cut_short_is_broken(disc: bytes) -> None:
    with pytest.raises(MediaUnreadable, match="outside the medium"):
        read(disc[: 20 * SECTOR])


def test_a_short_read_is_broken(disc: bytes) -> None:
    image = Memory(disc)
    image.data = disc[: 20 * SECTOR]
    with pytest.raises(MediaUnreadable, match="short read"):
        read_iso_file(image, NAME, limit=LIMIT)


@pytest.mark.parametrize("flag", [25, 26])
def test_interleaved_and_sectioned_files_are_refused_by_name(tmp_path: Path, flag: int) -> None:
    image = bytearray(genisoimage(tmp_path, {NAME: DATA}))
    at = image.index(b"OVF_ENV.XML;1") - 33
    image[at + flag] |= 0x80
    with pytest.raises(MediaUnreadable, match="several sections"):
        read(image)


@settings(max_examples=300, deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 7)), min_size=1, max_size=16))
def test_flipped_bits_never_hang_nor_read_past_the_cap(disc: bytes, flips: list[tuple[int, int]]) -> None:
    image = bytearray(disc)
    places = [at for at in range(0, len(image), 128) if any(image[at : at + 128])]
    for number, bit in flips:
        image[places[number % len(places)] + number // 97 % 128] ^= 1 << bit
    memory = Memory(image)
    try:
        is_iso9660(memory)
        data = read_iso_file(memory, NAME, limit=LIMIT)
        assert data is None or len(data) <= LIMIT
    except MediaUnreadable:
        pass
    assert memory.total <= 2 * MOST_READ + LIMIT
