"""Disks, media that are mounted already, and media that the configuration names."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from azureinit.errors import MediaAbsent, MediaUnreadable, OvfInvalid
from azureinit.sources.media import AGAIN_SECS, read_media, unescaped
from support.images import genisoimage, without_iso
from support.media_bench import OVF, SECRET, Bench, told


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    files = {"ovf-env.xml": OVF.format("udf").encode()}
    return without_iso(genisoimage(tmp_path_factory.mktemp("udf"), files, "-udf"))


@pytest.fixture(scope="module")
def iso(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return genisoimage(tmp_path_factory.mktemp("iso"), {"ovf-env.xml": OVF.format("iso").encode()}, "-R")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return genisoimage(tmp_path_factory.mktemp("other"), {"readme.txt": b"drivers"}, "-R", "-udf")


@pytest.fixture(scope="module")
def invalid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return genisoimage(tmp_path_factory.mktemp("invalid"), {"ovf-env.xml": SECRET.encode()}, "-R")


@pytest.mark.parametrize("name", ["sdc", "vdb", "hdc", "nvme1n1"])
def test_a_small_disk_with_the_signature_is_read_but_not_ejected(bench: Bench, azure: bytes, name: str) -> None:
    bench.disk(name, azure)
    assert told(bench.media()) == ("udf", None, "udf")


@pytest.mark.parametrize("name", ["loop0", "dm-0", "ram0"])
def test_other_kinds_of_block_device_are_left_alone(bench: Bench, azure: bytes, name: str) -> None:
    bench.disk(name, azure)
    with pytest.raises(MediaAbsent):
        bench.media()


def test_a_large_disk_is_not_even_opened(bench: Bench, azure: bytes) -> None:
    bench.disk("sda", azure, size=30 << 30)
    with pytest.raises(MediaAbsent, match="no optical drive"):
        bench.media()


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_small_disk_that_cannot_be_read_is_nobodys_failure(bench: Bench, azure: bytes, number: int) -> None:
    bench.disk("sdb", azure)
    bench.refusing["/dev/sdb"] = number
    with pytest.raises(MediaAbsent):
        bench.media()


def test_a_damaged_small_disk_is_never_mounted_and_does_not_end_the_wait(bench: Bench, azure: bytes) -> None:
    bench.disk("sdb", azure[: 256 * 2048] + bytes(len(azure) - 256 * 2048))
    bench.steps.due = [(3.0, lambda: bench.optical("sr0", azure))]
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")
    assert bench.mounts == []


def test_an_optical_drive_wins_over_a_disk(bench: Bench, azure: bytes, iso: bytes) -> None:
    bench.disk("sda", iso)
    bench.optical("sr0", azure)
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")


@pytest.mark.parametrize("seconds", [0.5, 3.0, 15.0, 55.0])
def test_a_disk_that_looks_like_the_medium_does_not_win_against_a_drive_that_is_late(
    bench: Bench, azure: bytes, iso: bytes, seconds: float
) -> None:
    bench.disk("sdc", iso)
    bench.optical("sr0", None)
    bench.steps.due.append((bench.steps.time + seconds, lambda: bench.put("dev/sr0", azure)))
    assert told(bench.media(wait=300.0)) == ("udf", "/dev/sr0", "udf")


def test_a_disk_does_not_win_against_a_drive_that_appears_late(bench: Bench, azure: bytes, iso: bytes) -> None:
    bench.disk("sdc", iso)
    bench.steps.due.append((bench.steps.time + 5.0, lambda: bench.optical("sr0", None)))
    bench.steps.due.append((bench.steps.time + 20.0, lambda: bench.put("dev/sr0", azure)))
    assert told(bench.media(wait=300.0)) == ("udf", "/dev/sr0", "udf")


@pytest.mark.parametrize(("drive", "wait", "after"), [(True, 300.0, 60.0), (True, 5.0, 5.0), (False, 300.0, 10.0)])
def test_a_disk_is_looked_at_where_no_drive_has_it_in_its_time(
    bench: Bench, iso: bytes, drive: bool, wait: float, after: float
) -> None:
    bench.disk("sdc", iso)
    if drive:
        bench.optical("sr0", None)
    started = bench.steps.time
    assert told(bench.media(wait=wait)) == ("iso", None, "iso9660")
    assert after <= bench.steps.time - started <= after + 1.0


def test_before_the_network_only_the_drive_counts(bench: Bench, iso: bytes) -> None:
    bench.disk("sdc", iso)
    with pytest.raises(MediaAbsent):
        read_media(bench, path="", deadline=bench.steps.time + 100.0, optical_only=True)


def test_a_medium_that_cannot_be_understood_is_not_replaced_by_a_disk(bench: Bench, invalid: bytes, iso: bytes) -> None:
    bench.disk("sdc", iso)
    bench.optical("sr0", invalid)
    with pytest.raises(OvfInvalid):
        bench.media(wait=300.0)


def test_a_drive_that_somebody_has_mounted_counts_as_the_drive(bench: Bench, iso: bytes) -> None:
    bench.disk("sdc", iso)
    bench.optical("sr0", None)
    bench.refusing["/dev/sr0"] = errno.EACCES
    bench.put("proc/self/mounts", "/dev/sr0 /mnt/dvd udf ro 0 0\n")
    bench.put("mnt/dvd/ovf-env.xml", OVF.format("mounted"))
    assert told(bench.media()) == ("mounted", "/dev/sr0", "mounted at /mnt/dvd")
    assert bench.steps.naps == []


@pytest.mark.parametrize("name", ["ovf-env.xml", "ovf_env.xml"])
@pytest.mark.parametrize("kind", ["udf", "iso9660"])
def test_a_medium_mounted_by_somebody_else_is_read_there(bench: Bench, name: str, kind: str) -> None:
    bench.put("proc/self/mounts", f"/dev/sda1 / ext4 rw 0 0\n/dev/sr0 /media/a\\040b {kind} ro 0 0\n")
    bench.put(f"media/a b/{name}", OVF.format("mounted"))
    assert told(bench.media()) == ("mounted", "/dev/sr0", "mounted at /media/a b")


def test_a_mounted_file_system_of_another_kind_is_left_alone(bench: Bench) -> None:
    bench.put("proc/self/mounts", "/dev/sda1 /media ext4 rw 0 0\n")
    bench.put("media/ovf-env.xml", OVF.format("mounted"))
    with pytest.raises(MediaAbsent):
        bench.media()


def test_a_mounted_medium_whose_file_is_no_file_is_refused(bench: Bench) -> None:
    bench.put("proc/self/mounts", "/dev/sr0 /media udf ro 0 0\n")
    (bench.tree / "media").mkdir()
    os.mkfifo(bench.tree / "media/ovf-env.xml")
    with pytest.raises(MediaUnreadable, match="regular file"):
        bench.media()


def test_a_mounted_file_too_large_is_refused(bench: Bench) -> None:
    bench.put("proc/self/mounts", "/dev/sr0 /media udf ro 0 0\n")
    bench.put("media/ovf-env.xml", b"x" * ((1 << 20) + 1))
    with pytest.raises(MediaUnreadable, match="too large"):
        bench.media()


def test_a_named_directory_is_read(bench: Bench) -> None:
    bench.put("srv/media/ovf-env.xml", OVF.format("dir"))
    assert told(bench.media("/srv/media")) == ("dir", None, "directory")
    assert told(bench.media("/srv/media/")) == ("dir", None, "directory")


def test_a_named_image_file_is_read_and_not_ejected(bench: Bench, azure: bytes) -> None:
    bench.put("srv/media.img", azure)
    assert told(bench.media("/srv/media.img")) == ("udf", None, "udf")


def test_a_named_device_is_read_and_ejected(bench: Bench, azure: bytes) -> None:
    bench.put("dev/anything", azure)
    assert told(bench.media("/dev/anything")) == ("udf", "/dev/anything", "udf")


def test_what_is_named_alone_is_looked_at(bench: Bench, azure: bytes) -> None:
    bench.optical("sr0", azure)
    with pytest.raises(MediaAbsent, match="/srv/nothing"):
        bench.media("/srv/nothing")


def test_a_named_path_may_lie_outside_the_root(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    host = tmp_path_factory.mktemp("host")
    with pytest.raises(MediaAbsent, match=r"no ovf-env\.xml"):
        bench.media(str(host))
    (host / "ovf-env.xml").write_text(OVF.format("host"))
    assert told(bench.media(str(host))) == ("host", None, "directory")


def test_a_named_image_that_is_none_is_unreadable_after_a_second_look(bench: Bench) -> None:
    bench.put("srv/media.img", b"\xff" * 100000)
    started = bench.steps.time
    with pytest.raises(MediaUnreadable, match="neither UDF nor ISO 9660"):
        bench.media("/srv/media.img", wait=60.0)
    assert bench.steps.time - started <= AGAIN_SECS + 1


def test_what_was_judged_is_observed_once(bench: Bench, other: bytes) -> None:
    seen: list[tuple[str, dict[str, str]]] = []
    bench.optical("sr0", other)

    def observe(event: str, **data: str) -> None:
        seen.append((event, data))

    with pytest.raises(MediaAbsent):
        read_media(bench, path="", deadline=5.0, observe=observe)
    assert seen == [("media", {"place": "/dev/sr0", "found": "no ovf-env.xml"})]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (b"/mnt", "/mnt"),
        (b"/a\\040b", "/a b"),
        (b"/a\\134b", "/a\\b"),
        (b"\\011", "\t"),
        (b"/a\\", "/a\\"),
        (b"/a\\9", "/a\\9"),
        (b"/a\\777x", "/a\\777x"),
        (b"/\xff", "/\udcff"),
    ],
)
def test_mount_fields_are_unescaped(field: bytes, expected: str) -> None:
    assert unescaped(field) == expected
