"""Finding the medium on a machine whose /sys, /dev and /proc are a temporary directory, with a test clock."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from azureinit.errors import AzureInitError, LocalError, MediaAbsent, MediaUnreadable, OvfInvalid
from azureinit.machine import Clock, ImageFile, Machine
from azureinit.sources.media import AGAIN_SECS, GUESSED_SIZE, Medium, read_media, unescaped
from support.images import genisoimage, without_iso

OVF = (
    "<Environment><ProvisioningSection><LinuxProvisioningConfigurationSet><HostName>{}</HostName>"
    "</LinuxProvisioningConfigurationSet></ProvisioningSection></Environment>"
)
SECRET = "<Environment><UserPassword>hunter2</UserPassword></Wrong>"


class SteppingClock(Clock):
    """Sleeping takes no time; what is due at a moment happens when the clock gets there."""

    def __init__(self) -> None:
        self.time = 0.0
        self.naps: list[float] = []
        self.due: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.naps.append(seconds)
        self.time += seconds
        for entry in [entry for entry in self.due if entry[0] <= self.time]:
            self.due.remove(entry)
            entry[1]()


class Bench(Machine):
    """The real machine on a temporary tree, with drives that can refuse and a kernel that can mount."""

    def __init__(self, tree: Path) -> None:
        self.steps = SteppingClock()
        super().__init__(root=str(tree), kernel=str(tree), clock=self.steps)
        self.tree = tree
        self.refusing: dict[str, int] = {}
        self.mountable: dict[str, bytes] = {}
        self.mounts: list[str] = []
        for directory in ("dev", "proc/self", "sys/block", "sys/bus/scsi/devices"):
            (tree / directory).mkdir(parents=True)

    def open_image(self, path: str) -> ImageFile:
        if path in self.refusing:
            error = LocalError(f"cannot open {path}: refused")
            error.errno = self.refusing[path]
            raise error
        return super().open_image(path)

    def mount_and_read(self, device: str, name: str, *, limit: int) -> bytes | None:
        self.mounts.append(device)
        if device not in self.mountable:
            raise LocalError(f"cannot mount {device}: no")
        return self.mountable[device]

    def put(self, path: str, data: bytes | str) -> None:
        where = self.tree / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(data.encode() if isinstance(data, str) else data)

    def optical(self, name: str, data: bytes | None, *, address: str = "0:0:0:1") -> None:
        self.put(f"sys/bus/scsi/devices/{address}/type", "5\n")
        (self.tree / f"sys/bus/scsi/devices/{address}/block/{name}").mkdir(parents=True)
        (self.tree / f"sys/block/{name}").mkdir()
        if data is not None:
            self.put(f"dev/{name}", data)

    def disk(self, name: str, data: bytes, *, size: int | None = None) -> None:
        self.put(f"sys/block/{name}/size", f"{(size or len(data)) // 512}\n")
        self.put(f"dev/{name}", data)

    def media(self, path: str = "", *, wait: float = 10.0) -> Medium:
        return read_media(self, path=path, deadline=self.steps.time + wait)


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


def told(medium: Medium) -> tuple[str | None, str | None, str]:
    return medium.ovf.hostname, medium.device, medium.how


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
