"""Volumes made by ntfs-3g's tools: only the platform's own, with nothing added, is pristine."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from azureinit.facts.disk_content import Content, read_content, read_device
from azureinit.facts.ntfs import NtfsFinding, examine_ntfs
from azureinit.machine import Machine
from support.bounds import SEED, bounded
from support.need import need
from support.ntfs_volumes import INFORMATION, LABEL, README, WARNING, copy_in, make_volume, mounted, shipped

Change = Callable[[Path], object]


def content_of(volume: Path) -> Content:
    image = Machine().open_image(str(volume))
    try:
        return read_content(image, image.size)
    finally:
        image.close()


def examined(data: bytes, patches: dict[int, int]) -> NtfsFinding:
    def read(offset: int, length: int) -> bytes:
        part = bytearray(data[offset : offset + length])
        for at, value in patches.items():
            if offset <= at < offset + len(part):
                part[at - offset] = value
        return bytes(part)

    return examine_ntfs(read, len(data))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shipped(tmp_path_factory.mktemp("ntfs") / "volume")


@pytest.fixture
def volume(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "volume"))


def test_a_new_volume_with_the_label_is_pristine(tmp_path: Path) -> None:
    content = content_of(make_volume(tmp_path / "volume"))
    assert content.pristine_ntfs and content.ntfs == "" and not content.ntfs_unreadable
    assert [(one.kind, one.label) for one in content.signatures] == [("ntfs", LABEL)]


def test_the_platform_s_volume_is_pristine(original: Path) -> None:
    need("blkid")
    assert content_of(original).pristine_ntfs
    content = read_device(Machine(), str(original), original.stat().st_size)
    assert content.pristine_ntfs and content.ambiguous == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--sector-size", "4096"),
        ("--cluster-size", "512"),
        ("--cluster-size", "65536"),
        ("--sector-size", "1024", "--cluster-size", "1024"),
    ],
)
def test_other_geometries_are_read(tmp_path: Path, options: tuple[str, ...]) -> None:
    volume = make_volume(tmp_path / "volume", mib=32, options=options)
    assert content_of(volume).pristine_ntfs
    copy_in(volume, "mine", b"data")
    assert content_of(volume).ntfs == 'it holds "mine"'


@pytest.mark.parametrize("label", ["", "Temporary storage", "Temporary Storage ", "Data"])
def test_another_label(tmp_path: Path, label: str) -> None:
    content = content_of(make_volume(tmp_path / "volume", label=label))
    assert not content.pristine_ntfs and not content.ntfs_unreadable
    assert content.ntfs == f'its label is "{label}", not "Temporary Storage"'


def many(point: Path) -> None:
    for number in range(3000):
        (point / f"file-{number}").write_bytes(b"x")


def in_a_tree(point: Path) -> None:
    (point / "a" / "b").mkdir(parents=True)
    (point / "a" / "b" / "c").write_bytes(b"x")


FOREIGN: dict[str, tuple[Change, str]] = {
    "a file": (lambda point: (point / "mine").write_bytes(b"x"), 'it holds "mine"'),
    "an empty file": (lambda point: (point / "mine").touch(), 'it holds "mine"'),
    "an empty directory": (lambda point: (point / "mine").mkdir(), 'it holds "mine"'),
    "a tree": (in_a_tree, 'it holds "a"'),
    "many": (many, 'it holds "file-0"'),
    "a dollar name": (lambda point: (point / "$Recycle.Bin").mkdir(), 'it holds "$Recycle.Bin"'),
    "a system file's name elsewhere": (lambda point: (point / "pagefile.sys").touch(), 'it holds "pagefile.sys"'),
    "a link to the platform's file": (lambda point: os.link(point / README, point / "mine"), 'it holds "mine"'),
    "a link from inside": (
        lambda point: os.link(point / INFORMATION / "tracking.log", point / "mine"),
        'it holds "mine"',
    ),
    "moved out": (lambda point: (point / INFORMATION / "deeper").rename(point / "deeper"), 'it holds "deeper"'),
    "a symbolic link": (lambda point: (point / "mine").symlink_to("x"), 'it holds "mine"'),
    "a stream": (
        lambda point: Path(f"{point / README}:mine").write_bytes(b"x"),
        f'its "{README}" has a second stream "mine"',
    ),
    "control characters": (lambda point: (point / "a\x01b").touch(), 'it holds "a?b"'),
    "a long name": (lambda point: (point / ("n" * 255)).touch(), f'it holds "{"n" * 80}"'),
    "a large file of the platform's name": (
        lambda point: (point / README).write_bytes(bytes(1 << 20)),
        f'it holds "{README}"',
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_anything_else_on_it_is_named(volume: Path, name: str) -> None:
    change, why = FOREIGN[name]
    with mounted(volume) as point:
        change(point)
    content = content_of(volume)
    assert not content.pristine_ntfs and not content.ntfs_unreadable
    assert content.ntfs == why


WRONG_KIND: list[Change] = [
    lambda point: (point / README).mkdir(),
    lambda point: (point / INFORMATION).write_bytes(b"x"),
]


@pytest.mark.parametrize("change", WRONG_KIND)
def test_a_directory_or_a_file_of_the_wrong_kind(tmp_path: Path, change: Change) -> None:
    volume = make_volume(tmp_path / "volume")
    with mounted(volume) as point:
        change(point)
    assert content_of(volume).ntfs.startswith("it holds ")


def test_names_in_any_case_and_deleted_files(volume: Path) -> None:
    with mounted(volume) as point:
        (point / README).rename(point / "x")
        (point / "x").rename(point / README.swapcase())
        (point / "gone").write_bytes(b"x")
        (point / "gone").unlink()
    assert content_of(volume).pristine_ntfs


def test_a_file_copied_in_without_a_mount(tmp_path: Path) -> None:
    volume = make_volume(tmp_path / "volume")
    copy_in(volume, README, WARNING)
    assert content_of(volume).pristine_ntfs
    copy_in(volume, "secret.txt", b"data")
    assert content_of(volume).ntfs == 'it holds "secret.txt"'


def make_dirty(volume: Path) -> None:
    data = bytearray(volume.read_bytes())
    at = data.find(b"\x03\x01\x00\x00", data.find("$Volume".encode("utf-16-le")))  # version 3.1, flags
    data[at + 2] |= 1
    volume.write_bytes(data)


def test_a_dirty_volume_is_unreadable_unless_it_shows_a_foreign_file(volume: Path, tmp_path: Path) -> None:
    make_dirty(volume)
    content = content_of(volume)
    assert not content.pristine_ntfs and content.ntfs_unreadable
    assert content.ntfs == "its NTFS cannot be read: the volume is marked as dirty"
    other = make_volume(tmp_path / "other")
    copy_in(other, "mine", b"x")
    make_dirty(other)
    content = content_of(other)
    assert content.ntfs == 'it holds "mine"' and not content.ntfs_unreadable


def log_of(volume: Path) -> int:
    """Where the log begins: the tool fills it with 0xFF."""
    return volume.read_bytes().find(b"\xff" * 8192)


@pytest.mark.parametrize(("flags", "client", "clean"), [(0, 0, False), (2, 0, True), (0, 0xFFFF, True)])
def test_a_log_that_was_not_carried_out_is_unreadable(volume: Path, flags: int, client: int, clean: bool) -> None:
    page = bytearray(4096)
    page[:8] = b"RSTR" + (30).to_bytes(2, "little") + (9).to_bytes(2, "little")
    page[16:28] = (4096).to_bytes(4, "little") * 2 + (0x30).to_bytes(2, "little") + b"\x01\0"
    page[0x30:0x40] = (7).to_bytes(8, "little") + bytes(4) + client.to_bytes(2, "little") + flags.to_bytes(2, "little")
    page[30:48] = bytes(18)
    data = bytearray(volume.read_bytes())
    at = log_of(volume)
    data[at : at + 4096] = page
    volume.write_bytes(data)
    content = content_of(volume)
    assert content.pristine_ntfs == clean
    assert content.ntfs == ("" if clean else "its NTFS cannot be read: its log has changes that were not carried out")


def test_another_signature_on_it(volume: Path) -> None:
    data = bytearray(volume.read_bytes())
    data[-65536:-65528] = b"\xfc\x4e\x2b\xa9\0\0\0\0"  # md 0.90
    volume.write_bytes(data)
    content = content_of(volume)
    assert not content.pristine_ntfs and content.ntfs == "beside NTFS it has signatures of md"


def test_a_volume_that_is_larger_than_its_partition(volume: Path) -> None:
    os.truncate(volume, volume.stat().st_size // 2)
    content = content_of(volume)
    assert content.ntfs_unreadable and "larger than its partition" in content.ntfs


def test_a_volume_that_is_smaller_than_its_partition(volume: Path) -> None:
    """What lies behind it is in no file, and may be data."""
    size = volume.stat().st_size
    for larger, pristine in ((3584, True), (4096, False), (64 << 20, False)):
        os.truncate(volume, size + larger)
        content = content_of(volume)
        assert content.pristine_ntfs is pristine and not content.ntfs_unreadable
        assert ("before its partition" in content.ntfs) is not pristine


def test_damage_never_makes_a_volume_with_another_file_pristine(volume: Path) -> None:
    """Flipped bits and overwritten bytes where the reader looks; nothing but its own verdicts comes out."""
    with mounted(volume) as point:
        (point / "mine").write_bytes(b"x" * 5000)
    data = volume.read_bytes()
    regions = [region for region in content_of(volume).regions if region[1] < 1 << 20 or region[0] == 0]
    table = next(
        (offset, length) for offset, length in regions if data[offset : offset + 4] == b"FILE" and length > 2048
    )
    chance = random.Random(SEED)
    verdicts: dict[str, int] = {}
    for _ in range(bounded(1500, 50_000)):
        patches: dict[int, int] = {}
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            start, length = chance.choice((table, table, table, (0, 96), chance.choice(regions)))
            at = start + chance.randrange(length)
            patches[at] = data[at] ^ 1 << chance.randrange(8) if chance.random() < 0.7 else chance.randrange(256)
        found = examined(data, patches)
        verdict = "pristine" if found.pristine else "unreadable" if found.unreadable else "foreign"
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        assert not found.pristine, found
    assert verdicts["foreign"] > 100 and verdicts["unreadable"] > 10, verdicts


def test_no_single_bit_hides_another_file(volume: Path) -> None:
    """Every bit of its record's header, and of the file table's own record with the places of table and bitmap."""
    with mounted(volume) as point:
        (point / "mine").write_bytes(b"x" * 5000)
    data = volume.read_bytes()
    name = data.find("mine".encode("utf-16-le"), 4 * 4096)
    record, table = name // 1024 * 1024, 4 * 4096
    assert data[record : record + 4] == data[table : table + 4] == b"FILE"
    verdicts = set()
    for at in (*range(record, record + 64), *range(table, table + 64), *range(table + 240, table + 400)):
        for bit in range(8):
            found = examined(data, {at: data[at] ^ 1 << bit})
            assert not found.pristine, (at - table, bit)
            verdicts.add(found.unreadable)
    assert verdicts == {True, False}
    assert examined(data, {record + 22: data[record + 22] & ~1}).why.endswith("it should be in use, and is not")


def test_damage_to_the_platform_s_volume_is_never_an_exception(original: Path) -> None:
    data = original.read_bytes()
    chance = random.Random(SEED)
    for _ in range(bounded(500, 20_000)):
        patches = {}
        for _ in range(3):
            start, length = chance.choice(((0, 96), (4 * 4096, 65536)))
            at = start + chance.randrange(length)
            patches[at] = chance.choice((0, 0xFF, chance.randrange(256)))
        found = examined(data, patches)
        assert found.pristine == (not found.why)


def test_ntfs_3g_agrees_about_the_names(volume: Path) -> None:
    listed = subprocess.run((need("ntfsls"), "-f", str(volume)), capture_output=True, text=True, check=True, timeout=60)
    assert {README, INFORMATION} <= set(listed.stdout.split("\n"))
