"""Real tools on loop devices: what they leave is seen, and they run only on a device that is still as examined."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureinit.apply.executor import perform
from azureinit.errors import AzureInitError, LocalError, LockTimeout, PlanStale, SubprocessFailed, SubprocessTimeout
from azureinit.facts.disk_content import bound
from azureinit.machine import Machine, block
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import OnDevices, Run, Untouched, Write
from azureinit.record import Secret, replace
from support.bounds import SEED
from support.disk_cases import facts, nvme, on_devices, plan
from support.loop_devices import (
    MIB,
    add_partitions,
    content_of,
    detach,
    loop_device,
    numbered_loop,
    run,
    size_of,
    untouched,
)
from support.need import need, unfit

UUID = "0f1e2d3c-4b5a-4968-8776-655443322110"
MAKE: dict[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-E", "nodiscard", "-U", UUID, "-L", "data"),
    "ext2": ("mkfs.ext2", "-q", "-U", UUID, "-L", "data"),
    "xfs": ("mkfs.xfs", "-q", "-K", "-m", f"uuid={UUID}", "-L", "data"),
    "btrfs": ("mkfs.btrfs", "-q", "-K", "-U", UUID, "-L", "data"),
    "swap": ("mkswap", "-U", UUID, "-L", "data"),
    "lvm2": ("pvcreate", "-q", "-y"),
    "vfat": ("mkfs.vfat", "-n", "DATA"),
    "ntfs": ("mkntfs", "--quiet", "--fast", "--force"),
    "luks": ("cryptsetup", "-q", "luksFormat", "--type", "luks1", "--iter-time", "1", "--key-file", "/etc/hostname"),
}
TABLES = {
    "gpt": f"label: gpt\nlabel-id: {UUID}\nstart=2048, size=8192, uuid={UUID}\n",
    "dos": "label: dos\nstart=2048, size=8192, type=7\n",
}
SECTORS = (512, 4096)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture(params=SECTORS)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with loop_device(tmp_path / "disk", mib=400, sector=request.param) as path:
        yield path


def do(machine: Machine, action: OnDevices) -> None:
    journal = MemoryJournal()
    journal.open_run(machine, ())
    perform(machine, action, journal=journal)


def made(kind: str, device: str) -> None:
    need(MAKE[kind][0])
    run(*MAKE[kind], device)


@pytest.mark.parametrize("kind", MAKE)
def test_what_the_tools_make_is_found_with_its_uuid(device: str, kind: str) -> None:
    assert content_of(device).blank
    made(kind, device)
    content = content_of(device)
    found = {one.kind: one for one in content.signatures if one.kind != "luks2 header" and one.offset < MIB}
    assert set(found) == {kind} and not content.blank
    if kind in ("ext4", "ext2", "xfs", "btrfs", "swap"):
        assert (found[kind].uuid, found[kind].label, found[kind].unfinished) == (UUID, "data", False)


def test_lvm_names_its_group(device: str) -> None:
    made("lvm2", device)
    (plain,) = content_of(device).signatures
    assert plain.uuid == run("pvs", "--noheadings", "-o", "pv_uuid", device) and plain.label == ""
    ran = subprocess.run(("vgcreate", "-q", "azinittest", device), capture_output=True, text=True, check=False)
    if ran.returncode:
        unfit(f"vgcreate: {ran.stderr.strip()}")
    try:
        (member,) = content_of(device).signatures
        assert (member.label, member.uuid) == ("azinittest", plain.uuid)
        assert member.group == run("vgs", "--noheadings", "-o", "vg_uuid", "azinittest")
        assert member.volumes == ()
        for name in ("swap", "data"):
            run("lvcreate", "-q", "--driverloaded", "n", "-an", "-Zn", "-Wn", "-L", "8m", "-n", name, "azinittest")
        assert content_of(device).signatures[0].volumes == ("swap", "data")
        run("lvremove", "-q", "--driverloaded", "n", "-y", "azinittest/swap")
        assert content_of(device).signatures[0].volumes == ("data",)
    finally:
        run("vgremove", "-q", "--driverloaded", "n", "-y", "azinittest")


def test_tables_are_found_at_both_ends(device: str) -> None:
    need("sfdisk")
    run("sfdisk", "--quiet", "--no-reread", device, text=TABLES["gpt"])
    content = content_of(device)
    assert [(one.kind, one.uuid, one.partitions) for one in content.signatures] == [("gpt", UUID, (UUID,))] * 2
    with open(device, "r+b") as file:  # only the backup is left
        file.write(bytes(MIB))
    (backup,) = content_of(device).signatures
    assert backup.kind == "gpt" and backup.offset > 300 * MIB and backup.partitions == (UUID,)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "swap", "lvm2"])
def test_a_program_runs_on_a_device_that_did_not_change(machine: Machine, device: str, kind: str) -> None:
    """It would wait for ever if it took the lock that is held while it runs."""
    need(MAKE[kind][0])
    do(machine, OnDevices(devices=(untouched(device),), run=Run(argv=(*MAKE[kind], device), timeout=30)))
    assert kind in {one.kind for one in content_of(device).signatures}
    with block.claim(machine, (device,)):
        pass  # everything was given back


def test_sfdisk_runs_under_the_lock(machine: Machine, device: str) -> None:
    table = Run(argv=("sfdisk", "--quiet", "--wipe", "never", device), stdin=Secret(TABLES["gpt"]), timeout=30)
    do(machine, OnDevices(devices=(untouched(device),), run=table))
    assert [one.kind for one in content_of(device).signatures] == ["gpt", "gpt"]


@pytest.mark.parametrize("offset", [0, 5 * MIB, 399 * MIB])
def test_a_device_that_was_written_to_is_left_alone(machine: Machine, device: str, offset: int) -> None:
    before = untouched(device)
    with open(device, "r+b") as file:
        file.seek(offset)
        file.write(b"data of another program")
    with pytest.raises(PlanStale, match=f"{device} was written to after it was examined"):
        do(machine, OnDevices(devices=(before,), run=Run(argv=(*MAKE["ext4"], device))))
    with open(device, "rb") as file:
        file.seek(offset)
        assert file.read(23) == b"data of another program"
    assert content_of(device).nonzero == offset


def test_the_second_look_is_not_the_cache_s_first(machine: Machine, tmp_path: Path) -> None:
    with loop_device(tmp_path / "disk", mib=64) as device, open(device, "rb") as holder:  # which keeps the cache
        before = untouched(device)
        with (tmp_path / "disk").open("r+b") as file:  # below the device
            file.seek(8192)
            file.write(b"x")
        assert os.pread(holder.fileno(), 1, 8192) == b"\0"
        with pytest.raises(PlanStale):
            do(machine, OnDevices(devices=(before,), run=Run(argv=("true",))))


def test_one_changed_device_stops_all(machine: Machine, tmp_path: Path) -> None:
    with loop_device(tmp_path / "a", mib=64) as first, loop_device(tmp_path / "b", mib=64) as second:
        devices = (untouched(first), untouched(second))
        with open(second, "r+b") as file:
            file.write(b"x")
        mark = Write(path=str(tmp_path / "mark"), data=b"")
        with pytest.raises(PlanStale, match=second):
            do(machine, OnDevices(devices=devices, run=Run(argv=(*MAKE["ext4"], first)), mark=mark))
        assert content_of(first).blank and not (tmp_path / "mark").exists()


def test_the_mark_is_written_before_the_program_starts(machine: Machine, tmp_path: Path) -> None:
    with loop_device(tmp_path / "a", mib=64) as device:
        mark = Write(path=str(tmp_path / "mark"), data=b"begun", mode=0o600)
        check = Run(argv=("grep", "-q", "begun", str(tmp_path / "mark")))
        one = untouched(device)
        do(machine, OnDevices(devices=(one, one), run=check, mark=mark))  # a path may come twice


def test_the_mark_goes_if_another_program_has_the_device_after_a_failure(
    machine: Machine, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opened the device between the check and the program."""
    monkeypatch.setattr(block, "PATIENCE", 0.1)
    path, point = tmp_path / "mark", tmp_path / "point"
    point.mkdir()
    mark, unmark = Write(path=str(path), data=b"begun"), Write(path=str(path), data=b"before")
    taken = Run(argv=("sh", "-c", f"mkfs.ext4 -q {device} && mount {device} {point}; exit 1"))
    try:
        with pytest.raises(AzureInitError):
            do(machine, OnDevices(devices=(untouched(device),), run=taken, mark=mark, unmark=unmark))
        assert os.path.ismount(point)
        assert path.read_bytes() == b"before"
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_the_mark_stays_if_the_program_was_too_late_and_still_has_the_device(
    machine: Machine, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for the disk cannot be killed; here another one holds the device in its place."""
    monkeypatch.setattr(block, "PATIENCE", 0.1)
    path, held = tmp_path / "mark", tmp_path / "held"
    mark, unmark = Write(path=str(path), data=b"begun"), Write(path=str(path), data=b"before")
    hold = f"import os, time; os.open({device!r}, os.O_RDWR | os.O_EXCL); open({str(held)!r}, 'w'); time.sleep(600)"
    write = f"printf x | dd of={device} bs=1 seek=4096 conv=notrunc"
    script = f'{write}; setsid {sys.executable} -c "$1" & echo $! >{tmp_path}/pid; sleep 600'
    slow = Run(argv=("sh", "-c", script, "sh", hold), timeout=3.0)
    try:
        with pytest.raises(SubprocessTimeout):
            do(machine, OnDevices(devices=(untouched(device),), run=slow, mark=mark, unmark=unmark))
        assert held.exists()
        assert path.read_bytes() == b"begun"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_mounted_device_is_in_use(
    machine: Machine, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "PATIENCE", 0.1)
    made("ext4", device)
    (tmp_path / "point").mkdir()
    before = untouched(device)
    run("mount", device, str(tmp_path / "point"))
    try:
        with pytest.raises(LocalError, match=f"{device} is in use"):
            do(machine, OnDevices(devices=(before,), run=Run(argv=("true",))))
    finally:
        run("umount", str(tmp_path / "point"))


def test_a_mounted_partition_holds_its_disk(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "PATIENCE", 0.1)
    need("sfdisk")
    with loop_device(tmp_path / "disk", mib=64) as device:
        run("sfdisk", "--quiet", "--no-reread", device, text="label: dos\nstart=2048, size=40M\n")
        add_partitions(device)
        partition = f"{device}p1"
        if not Path(partition).exists():
            unfit("no partitions on loop devices")
        with block.claim(machine, (partition,)) as claims:
            assert claims.size(partition) == 40 * MIB
            with open(device, "rb") as other, pytest.raises(BlockingIOError):  # udev locks the disk
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with pytest.raises(LocalError, match="in use|locked"), block.claim(machine, (device,)):
                pass
        run("mkfs.ext4", "-q", partition)
        (tmp_path / "point").mkdir()
        run("mount", partition, str(tmp_path / "point"))
        try:
            with pytest.raises(LocalError, match=f"{device} is in use"), block.claim(machine, (device,)):
                pass
        finally:
            run("umount", str(tmp_path / "point"))


def test_a_lock_is_waited_for_and_then_reported(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "PATIENCE", 0.2)
    with loop_device(tmp_path / "disk", mib=64) as device, open(device, "rb") as other:
        before = untouched(device)
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(LockTimeout, match=f"another program has locked {device}"):
            do(machine, OnDevices(devices=(before,), run=Run(argv=("true",))))
        fcntl.flock(other, fcntl.LOCK_UN)
        do(machine, OnDevices(devices=(before,), run=Run(argv=("true",))))


def test_a_device_that_shrinks_is_not_the_one_that_was_seen(machine: Machine, tmp_path: Path) -> None:
    with loop_device(tmp_path / "disk", mib=64) as device:
        before = untouched(device)
        os.truncate(tmp_path / "disk", 32 * MIB)
        run("losetup", "--set-capacity", device)
        with pytest.raises(PlanStale, match=f"{device} has {32 * MIB} bytes now, and had {64 * MIB}"):
            do(machine, OnDevices(devices=(before,), run=Run(argv=("true",))))


def test_a_device_that_disappears_and_a_program_that_fails(machine: Machine, tmp_path: Path) -> None:
    gone = Untouched(path="/dev/no-such-disk", size=1, regions=(), digest="")
    with pytest.raises(LocalError, match="cannot open /dev/no-such-disk: No such file"):
        do(machine, OnDevices(devices=(gone,), run=Run(argv=("true",))))
    with loop_device(tmp_path / "disk", mib=64) as device:
        with pytest.raises(SubprocessFailed):
            do(machine, OnDevices(devices=(untouched(device),), run=Run(argv=("false",))))
        with block.claim(machine, (device,)):
            pass


# ---- random disks

DISKS = 100


def test_random_disks_with_anything_on_them_are_never_formatted(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    kinds = [kind for kind in MAKE if kind != "luks" and _installed(MAKE[kind][0])]
    empty = unseen = 0
    for number in range(DISKS):
        sector, mib = chance.choice(SECTORS), chance.choice((320, 400, 1024, 5000, 100_000))
        what = chance.choice(("nothing", "bytes", "bytes", "table", "tool", "tool", "tool and zeros"))
        case = f"disk {number} of seed {SEED}: {what}, {mib} MiB, sectors of {sector}"
        with loop_device(tmp_path / f"disk{number}", mib=mib, sector=sector) as device:
            seen = what != "nothing"
            if what == "bytes":
                offset = chance.randrange(size_of(device))
                with open(device, "r+b") as file:
                    file.seek(offset)
                    file.write(bytes([chance.randrange(1, 256)]))
                seen = any(start <= offset < start + length for start, length in bound(size_of(device)))
                unseen += not seen
            elif what == "table":
                run("sfdisk", "--quiet", "--no-reread", device, text=TABLES[chance.choice(("gpt", "dos"))])
            elif what.startswith("tool"):
                kind = chance.choice(kinds)
                case += f", {kind}"
                run(*MAKE[kind], device)
                if what == "tool and zeros":  # as after a wipe of the beginning
                    with open(device, "r+b") as file:
                        file.write(bytes(MIB))
                    seen = any(data for data in _bytes_within(device))
            content = content_of(device)
            assert not (content.blank and seen), case
            assert content.blank or what != "nothing", case
            steps = on_devices(plan(facts(nvme(0, content, size=content.size))))
            assert bool(steps) is content.blank, case
            empty += content.blank
        (tmp_path / f"disk{number}").unlink()
    print(f"{DISKS} loop devices: {empty} blank, {unseen} with data only outside the samples")
    assert empty >= 5


def _installed(tool: str) -> bool:
    try:
        Machine().run((tool, "--version"), timeout=10)
    except AzureInitError:
        return False
    return True


def _bytes_within(device: str) -> Iterator[bool]:
    with open(device, "rb") as file:
        for start, length in bound(size_of(device)):
            file.seek(start)
            yield bool(file.read(length).strip(b"\0"))


def test_another_disk_of_the_same_name_size_and_content_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    image = tmp_path / "disk"
    image.touch()
    os.truncate(image, 64 * MIB)
    with numbered_loop(100 + os.getpid() % 100) as path:
        run("losetup", path, str(image))
        place = Path(f"/sys/block/{path.removeprefix('/dev/')}/diskseq")
        if not place.exists():
            unfit("the kernel does not number disks")
        number = int(place.read_text())
        seen = replace(untouched(path), sequence=number)
        make = Run(argv=(*MAKE["ext4"], path))
        detach(path)
        run("losetup", path, str(image))
        with pytest.raises(PlanStale, match="is another disk now"):
            do(machine, OnDevices(devices=(seen,), run=make))
        assert content_of(path).blank
        do(machine, OnDevices(devices=(replace(seen, sequence=int(place.read_text())),), run=make))
        assert not content_of(path).blank
