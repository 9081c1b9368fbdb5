"""Temporary disks whose records, labels or names say one thing and whose content may be somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from azureinit.facts.temporary_disks import MountPoint
from azureinit.memory.disk_sets import parse_disk_sets
from azureinit.plan.actions import Write
from azureinit.plan.disks import refusals
from azureinit.record import replace
from support.disk_cases import (
    FRESH,
    LINE,
    MIB,
    SETS_PATH,
    SIZE,
    actions,
    argvs,
    array,
    blank,
    cautions,
    data_of,
    facts,
    held,
    holding,
    mounted,
    nvme,
    on_devices,
    part,
    plan,
    recorded,
    scsi,
    shipped,
    sign,
    steps,
)

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

EXT4 = sign("ext4", FRESH[1], "AzureEphmDsk")
MD = sign("md", FRESH[0])
GPT = {"table": "gpt", "table_uuid": FRESH[2], "partition_uuid": FRESH[3]}

# ---- a record that was never completed


@pytest.mark.parametrize("uuid", [FRESH[1], FRESH[7]], ids=["ours", "of others, with our label"])
def test_a_finished_file_system_completes_the_record(uuid: str) -> None:
    """Otherwise raw data that are on the disk much later would be taken for the interrupted work."""
    disk = nvme(0, holding(sign("ext4", uuid, "AzureEphmDsk")))
    made = plan(facts(disk), recorded(disk))
    (write,) = [one for one in actions(made) if isinstance(one, Write) and one.path == SETS_PATH]
    (after,) = parse_disk_sets(data_of(write))
    assert after == recorded(disk, finished=True)
    raw = nvme(0, holding(nonzero=4096))
    assert not steps(plan(facts(raw), after))
    assert not any(isinstance(one, Write) and one.path == SETS_PATH for one in actions(plan(facts(disk), after)))


def test_a_failure_before_the_first_write_takes_the_mark_back() -> None:
    (work,) = on_devices(plan(facts(nvme())))
    assert work.mark is not None and work.unmark is not None
    begun, before = parse_disk_sets(data_of(work.mark)), parse_disk_sets(data_of(work.unmark))
    assert (begun[0].begun, before[0].begun) == ("filesystem", "")
    (work,) = on_devices(plan(facts(nvme(0), nvme(1))))
    assert work.unmark is None  # mdadm may leave an array
    disk = nvme(0, holding(nonzero=4096))
    (work,) = on_devices(plan(facts(disk), recorded(disk)))
    assert work.unmark is None  # begun before


# ---- raw data beside the record of unfinished work


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs", "swap"])
@pytest.mark.parametrize(("nonzero", "goes_on"), [(0, False), (1023, False), (2048, True), (1 << 20, True)])
def test_raw_data_from_the_first_byte_on_are_not_unfinished_work(filesystem: str, nonzero: int, goes_on: bool) -> None:
    """A program of others uses the disk without a file system, after mkfs was interrupted."""
    disk = nvme(0, holding(nonzero=nonzero))
    made = plan(
        facts(disk),
        recorded(disk, filesystem=filesystem),
        filesystem="ext4",
        nvme="swap" if filesystem == "swap" else "data",
    )
    assert bool(on_devices(made)) is goes_on
    assert bool(refusals(made)) is not goes_on


def test_raw_data_are_not_an_unfinished_table() -> None:
    disk = nvme(0, holding(nonzero=0))
    assert not steps(plan(facts(disk), recorded(disk, begun="table", **GPT), table="gpt"))


def test_raw_data_in_our_partition_are_not_an_unfinished_file_system() -> None:
    disk = nvme(0, holding(sign("gpt", FRESH[2])), partitions=(part("nvme0n1", 1, holding(nonzero=0)),))
    assert not steps(plan(facts(disk), recorded(disk, **GPT), table="gpt"))


def test_raw_data_on_our_array_are_not_an_unfinished_file_system() -> None:
    disks = tuple(held(nvme(number), holding(MD)) for number in range(2))
    raw = array(*disks, content=holding(nonzero=0, size=sum(disk.size for disk in disks)))
    assert not steps(plan(facts(*disks, assembled=(raw,)), recorded(*disks)))


@pytest.mark.parametrize("nonzero", [0, 4096, 7 << 30])
def test_a_disk_with_raw_data_does_not_become_the_missing_member_of_an_array(nonzero: int) -> None:
    """mdadm was interrupted after the first disk; it writes nothing but superblocks."""
    disks = nvme(0, holding(MD)), nvme(1, holding(nonzero=nonzero))
    made = plan(facts(*disks), recorded(*disks, begun="array"))
    assert not steps(made)
    assert refusals(made)


def test_a_blank_disk_becomes_the_missing_member_of_an_array() -> None:
    disks = nvme(0, holding(MD)), nvme(1)
    made = plan(facts(*disks), recorded(*disks, begun="array"))
    assert [argv[:2] for argv in argvs(made)] == [("mdadm", "--create")]


def test_a_partition_of_others_in_our_table_is_not_ours() -> None:
    """fdisk keeps the UUID of the table in which it makes partitions."""

    def planned(uuid: str, **more: Any) -> Any:
        inner = part("nvme0n1", 1, more.get("content", holding(nonzero=4096)))
        disk = nvme(0, holding(sign("gpt", FRESH[2], partitions=(uuid,))), partitions=(inner,))
        return plan(facts(disk), recorded(disk, **GPT), table="gpt")

    assert on_devices(planned(FRESH[3].upper()))
    assert not steps(planned(FRESH[4]))
    assert not steps(planned(FRESH[4], content=blank()))


# ---- labels


def entry_of(made: Plan) -> str:
    (write,) = [one for one in actions(made) if isinstance(one, Write) and one.path == "/etc/fstab"]
    return data_of(write).decode().splitlines()[-1]


def test_a_label_that_another_disk_has_too_is_not_in_fstab() -> None:
    """systemd would mount whichever of the two it finds, and a data disk could be at the mount point."""
    others = (("/dev/sdc1", "AzureEphmDsk"), ("/dev/nvme0n1", "AzureEphmDsk"))
    made = plan(facts(nvme(), labels=others))
    assert entry_of(made) == LINE.replace("LABEL=AzureEphmDsk", f"UUID={FRESH[0]}")
    assert cautions(made)["label AzureEphmDsk"].startswith("/dev/sdc1 has it too")
    assert not refusals(made)
    made = plan(facts(nvme(), labels=(("/dev/sdc1", "data"), others[1])))
    assert entry_of(made) == LINE
    assert not cautions(made)


@pytest.mark.parametrize("label", ["my data", "x /y", "x\n/dev/sda1 / ext4", "a\tb", "#", 'a"b', "\\040"])
def test_a_label_with_other_characters_does_not_break_fstab(label: str) -> None:
    disk = nvme(0, holding(sign("ext4", FRESH[1], label)))
    made = plan(facts(disk), recorded(disk, finished=True))
    assert entry_of(made) == LINE.replace("LABEL=AzureEphmDsk", f"UUID={FRESH[1]}")


def test_nothing_is_written_to_what_systemd_mounted_before_it_is_known_to_be_ours() -> None:
    names = [step.name for step in steps(plan(facts(nvme()), owner="web"))]
    assert names[-4:] == ["mount of /mnt", "device at /mnt", "owner of /mnt", "notice in /mnt"]


# ---- a mount point in another file system


def test_a_mount_point_in_a_file_system_that_is_not_mounted_yet_waits_for_the_next_plan() -> None:
    """The top directory of the outer one may belong to a user, who can put a link there."""
    kept = nvme(0, holding(EXT4))
    made = plan(facts(kept, scsi()), scsi="data")
    assert [argv[-1] for argv in argvs(made) if argv[0] in ("mount", "mkfs.ext4")] == ["/dev/sdb", "/mnt"]
    assert not any("/mnt/resource" in step.name and step.name.startswith("mount") for step in steps(made))
    there = nvme(0, holding(EXT4), mounts=("/mnt",), busy="mounted at /mnt")
    made = plan(facts(there, scsi(), points=mounted("/dev/nvme0n1")), scsi="data")
    assert ("mount", "-t", "ext4", "/dev/sdb", "/mnt/resource") in argvs(made)
    link = (*mounted("/dev/nvme0n1"), MountPoint(path="/mnt/resource", state="a symbolic link"))
    made = plan(facts(there, scsi(), points=link), scsi="data")
    assert not on_devices(made)
    assert not any("/dev/sdb" in argv for argv in argvs(made))


# ---- the platform's NTFS


@pytest.mark.parametrize(
    ("start", "size"), [(17 * MIB, SIZE - 18 * MIB), (MIB, SIZE - 18 * MIB), (MIB, SIZE // 2)], ids=str
)
def test_a_pristine_ntfs_beside_unexamined_space_is_left_alone(start: int, size: int) -> None:
    """The platform's partition covers the disk. In a space beside a smaller one there may be raw data."""
    disk = shipped()
    assert on_devices(plan(facts(disk), scsi="data"))
    moved = replace(disk, partitions=(replace(disk.partitions[0], start=start, size=size),))
    assert not steps(plan(facts(moved), scsi="data"))


# ---- --recreate of an array


def test_an_older_file_system_that_shows_through_on_a_recreated_array_is_not_used() -> None:
    """One disk of two was replaced: the older file system's beginning is on the other one, with our label."""
    old = nvme(0, holding(sign("md", FRESH[6]))), nvme(1)
    (work,) = on_devices(plan(facts(*old), recreate=True))
    assert work.run.argv[3:8] == ("wipefs", "/dev/nvme0n1", str(SIZE), "--", "sh")
    assert work.run.argv[11:14] == ("/dev/md/azure-ephemeral-md", "mdadm", "--create")
    disks = tuple(held(nvme(number), holding(MD)) for number in range(2))
    size = sum(disk.size for disk in disks)
    begun = recorded(*disks, begun="array", over="data")
    through = array(*disks, content=holding(sign("ext4", FRESH[6], "AzureEphmDsk"), size=size))
    for made in (plan(facts(*disks, assembled=(through,)), begun, recreate=again) for again in (False, True)):
        assert not steps(made)
        assert refusals(made)
    wiped = array(*disks, content=holding(nonzero=0, size=size))
    assert argvs(plan(facts(*disks, assembled=(wiped,)), begun))[0][0] == "mkfs.ext4"
    done = array(*disks, content=holding(EXT4, size=size))
    assert not on_devices(plan(facts(*disks, assembled=(done,)), begun))
    assert not on_devices(plan(facts(*disks, assembled=(wiped,)), recorded(*disks, begun="array")))
