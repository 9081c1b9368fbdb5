"""Finding the medium on a machine whose /sys, /dev and /proc are a temporary directory, with a test clock."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from azureinit.errors import AzureInitError, LocalError, MediaAbsent, MediaUnreadable, OvfInvalid
from azureinit.machine import ImageFile
from azureinit.sources.media import AGAIN_SECS, GUESSED_SIZE, read_media
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


def test_azures_medium_is_read_at_once(bench: Bench, azure: bytes) -> None:
    bench.optical("sr0", azure)
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")
    assert bench.steps.naps == []
    assert bench.mounts == []


def test_an_iso_medium_is_read(bench: Bench, iso: bytes) -> None:
    bench.optical("sr0", iso)
    assert told(bench.media()) == ("iso", "/dev/sr0", "iso9660")


def test_a_drive_is_found_by_its_type_whatever_its_name(bench: Bench, azure: bytes) -> None:
    bench.optical("cdrom7", azure)
    assert told(bench.media()) == ("udf", "/dev/cdrom7", "udf")


def test_a_drive_is_found_by_its_name_without_scsi(bench: Bench, azure: bytes) -> None:
    (bench.tree / "sys/block/sr0").mkdir()
    bench.put("dev/sr0", azure)
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")


def test_a_device_is_waited_for_until_its_node_is_there(bench: Bench, azure: bytes) -> None:
    bench.put("sys/bus/scsi/devices/0:0:0:1/type", "5\n")
    bench.steps.due = [
        (1.0, lambda: (bench.tree / "sys/bus/scsi/devices/0:0:0:1/block/sr0").mkdir(parents=True)),
        (2.0, lambda: bench.put("dev/sr0", azure)),
    ]
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")
    assert 2.0 <= bench.steps.time < 4.0


def test_a_drive_that_appears_late_is_found(bench: Bench, azure: bytes) -> None:
    bench.steps.due = [(3.0, lambda: bench.optical("sr0", azure))]
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")


@pytest.mark.parametrize("number", [errno.ENOMEDIUM, errno.EIO])
def test_a_drive_without_a_medium_is_asked_again(bench: Bench, azure: bytes, number: int) -> None:
    bench.optical("sr0", azure)
    bench.refusing["/dev/sr0"] = number
    bench.steps.due = [(2.0, bench.refusing.clear)]
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")


def test_a_drive_that_stays_empty_is_an_absent_medium(bench: Bench) -> None:
    bench.optical("sr0", b"")
    with pytest.raises(MediaAbsent, match=r"sr0 \(no medium\)"):
        bench.media()
    assert bench.steps.time == 10.0
    assert max(bench.steps.naps) <= 1.0
    assert bench.steps.naps[0] == pytest.approx(0.1)


def test_a_drive_of_the_kernels_guessed_size_that_gives_no_byte_is_empty(bench: Bench) -> None:
    bench.optical("sr0", b"")

    class Empty(ImageFile):
        def read(self, offset: int, length: int) -> bytes:
            error = LocalError("cannot read /dev/sr0: Input/output error")
            error.errno = errno.EIO
            raise error

    def open_image(path: str) -> ImageFile:
        image = Empty(bench.real(path), path)
        image.size = GUESSED_SIZE
        return image

    bench.open_image = open_image  # type: ignore[method-assign]
    with pytest.raises(MediaAbsent, match=r"sr0 \(no medium\)"):
        bench.media()


def test_a_drive_that_stays_out_of_order_is_unreadable(bench: Bench) -> None:
    bench.optical("sr0", b"")
    bench.refusing["/dev/sr0"] = errno.EIO
    with pytest.raises(MediaUnreadable, match="/dev/sr0: cannot open"):
        bench.media()
    assert bench.steps.time == 10.0


def test_a_drive_that_is_forbidden_is_not_waited_for(bench: Bench) -> None:
    bench.optical("sr0", b"")
    bench.refusing["/dev/sr0"] = errno.EACCES
    with pytest.raises(MediaUnreadable, match="/dev/sr0: cannot open"):
        bench.media()
    assert bench.steps.naps == []


def test_nothing_at_all_is_an_absent_medium(bench: Bench) -> None:
    with pytest.raises(MediaAbsent, match="no optical drive"):
        bench.media()


def test_a_deadline_that_has_passed_still_gives_one_look(bench: Bench, azure: bytes) -> None:
    with pytest.raises(MediaAbsent):
        bench.media(wait=-5.0)
    bench.optical("sr0", azure)
    assert told(bench.media(wait=-5.0)) == ("udf", "/dev/sr0", "udf")
    assert bench.steps.naps == []


def test_the_drive_with_the_file_wins_over_one_without(bench: Bench, azure: bytes, other: bytes) -> None:
    bench.optical("sr0", other)
    bench.optical("sr1", azure, address="0:0:0:2")
    assert told(bench.media()) == ("udf", "/dev/sr1", "udf")


def test_the_drive_with_a_valid_file_wins_over_broken_ones(bench: Bench, azure: bytes, invalid: bytes) -> None:
    bench.optical("sr0", b"\xff" * 100000)
    bench.optical("sr1", invalid, address="0:0:0:2")
    bench.optical("sr2", azure, address="0:0:0:3")
    assert told(bench.media()) == ("udf", "/dev/sr2", "udf")


def test_a_disc_without_the_file_is_noted_and_waited_beyond(bench: Bench, other: bytes) -> None:
    bench.optical("sr0", other)
    with pytest.raises(MediaAbsent, match=r"sr0 \(no ovf-env\.xml\)"):
        bench.media()


def test_the_text_of_absence_is_short_however_many_devices(bench: Bench) -> None:
    for number in range(50):
        bench.optical(f"sr{number}", b"", address=f"0:0:0:{number}")
    with pytest.raises(MediaAbsent) as raised:
        bench.media()
    assert len(str(raised.value)) <= 200


def test_an_invalid_document_is_read_once_more_and_then_told_as_such(bench: Bench, invalid: bytes) -> None:
    bench.optical("sr0", invalid)
    noted: list[AzureInitError] = []
    started = bench.steps.time
    with pytest.raises(OvfInvalid, match="not XML") as raised:
        read_media(bench, path="", deadline=started + 60.0, note=noted.append)
    assert "hunter2" not in str(raised.value)
    assert [str(error) for error in noted] == [str(raised.value)], "told before the second reading, too"
    assert AGAIN_SECS <= bench.steps.time - started <= AGAIN_SECS + 1


def test_a_medium_that_is_whole_when_it_is_read_again_counts(bench: Bench, invalid: bytes, azure: bytes) -> None:
    bench.optical("sr0", invalid)
    bench.steps.due.append((bench.steps.time + 1.0, lambda: bench.put("dev/sr0", azure)))
    assert told(bench.media()) == ("udf", "/dev/sr0", "udf")


def test_where_there_is_no_time_to_read_it_again_the_first_failure_is_told(bench: Bench, invalid: bytes) -> None:
    bench.optical("sr0", invalid)
    with pytest.raises(OvfInvalid, match="not XML"):
        bench.media(wait=1.0)


def test_what_our_readers_cannot_read_is_mounted(bench: Bench) -> None:
    bench.optical("sr0", b"\xff" * 100000)
    bench.mountable["/dev/sr0"] = OVF.format("kernel").encode()
    assert told(bench.media()) == ("kernel", "/dev/sr0", "mounted")


def test_both_causes_are_kept_where_mounting_fails_too(bench: Bench, azure: bytes) -> None:
    bench.optical("sr0", azure[: 256 * 2048] + bytes(len(azure) - 256 * 2048))
    with pytest.raises(MediaUnreadable, match=r"/dev/sr0: not readable as UDF.*mounting it: cannot mount"):
        bench.media()
    assert bench.mounts == ["/dev/sr0"] * 2


@pytest.mark.parametrize(("form", "why"), [("iso", "both byte orders"), ("udf", "is damaged")])
def test_a_medium_that_contradicts_itself_is_not_mounted(bench: Bench, tmp_path: Path, form: str, why: str) -> None:
    """The kernel verifies less than our readers do, and could read other content."""
    text = OVF.format("x").encode()
    made = genisoimage(tmp_path, {"ovf-env.xml": text}, *(("-udf",) if form == "udf" else ()))
    image = bytearray(without_iso(made) if form == "udf" else made)
    for start in range(0, len(image) - 64, 2):  # the length of the file, wherever it is recorded
        if form == "iso" and image[start : start + 4] == struct.pack("<I", len(text)):
            image[start] ^= 1
        elif form == "udf" and start % 2048 == 0 and image[start : start + 2] == struct.pack("<H", 261):
            image[start + 56] ^= 1
    bench.optical("sr0", bytes(image))
    bench.mountable["/dev/sr0"] = OVF.format("kernel").encode()
    with pytest.raises(MediaUnreadable, match=why) as refused:
        bench.media()
    assert bench.mounts == []
    assert len(str(refused.value)) < 1000


def test_every_broken_drive_is_told(bench: Bench, invalid: bytes) -> None:
    bench.optical("sr0", b"\xff" * 100000)
    bench.optical("sr1", invalid, address="0:0:0:2")
    with pytest.raises(MediaUnreadable, match=r"/dev/sr0: neither.*/dev/sr1: .*not XML"):
        bench.media()
