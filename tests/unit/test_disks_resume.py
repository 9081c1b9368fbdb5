"""Temporary disks that hold work of our own: finished, unfinished, partial, partitioned."""

from __future__ import annotations

from typing import Any

import pytest

from azureinit.backends.filesystem import TABLE
from azureinit.facts.disk_content import Content
from azureinit.memory.disk_sets import DiskSet
from azureinit.plan.actions import Satisfied
from azureinit.plan.disks import refusals
from azureinit.record import replace
from support.disk_cases import (
    FOREIGN,
    FRESH,
    LINE,
    MIB,
    SIZE,
    UNUSABLE,
    argvs,
    array,
    blank,
    cautions,
    facts,
    held,
    holding,
    mounted,
    nvme,
    on_devices,
    part,
    plan,
    recorded,
    sign,
    steps,
)

EXT4 = sign("ext4", FRESH[1], "AzureEphmDsk")
MD = sign("md", FRESH[0])


# ---- our own work: finished


def test_a_recorded_file_system_is_kept_and_mounted() -> None:
    disk = nvme(0, holding(EXT4))
    made = plan(facts(disk), recorded(disk, finished=True))
    assert not on_devices(made)
    assert "mount of /mnt" in [step.name for step in steps(made)]
    assert not refusals(made)


def test_a_finished_file_system_counts_although_the_record_does_not_say_so() -> None:
    """A crash between mkfs and the record."""
    disk = nvme(0, holding(EXT4))
    assert not on_devices(plan(facts(disk), recorded(disk)))


def test_our_label_is_enough_to_keep_and_mount() -> None:
    disk = nvme(0, holding(sign("xfs", FRESH[7], "AzureEphmDsk")))
    made = plan(facts(disk))
    assert not on_devices(made)
    assert ("mount", "-t", "xfs", "/dev/nvme0n1", "/mnt") in argvs(made)


@pytest.mark.parametrize(("first", "kept"), [(65536, True), (64 * MIB, False)])
def test_btrfs_without_its_first_superblock_is_not_mounted(first: int, kept: bool) -> None:
    copies = [sign("btrfs", FRESH[1], "AzureEphmDsk", offset=offset) for offset in (first, 64 * MIB)]
    disk = nvme(0, holding(*copies))
    made = plan(facts(disk), recorded(disk, filesystem="btrfs", finished=True))
    assert not on_devices(made)
    assert bool(refusals(made)) is not kept


def test_another_file_system_with_array_metadata_behind_it_is_not_mounted() -> None:
    disk = nvme(0, holding(EXT4, sign("md", FRESH[6])))
    made = plan(facts(disk), recorded(disk, finished=True))
    assert not steps(made)
    assert refusals(made)


def test_a_recorded_array_is_assembled_and_not_made_again() -> None:
    disks = nvme(0, holding(MD)), nvme(1, holding(MD))
    for made in (plan(facts(*disks), recorded(*disks, finished=True)), plan(facts(*disks), recorded(*disks))):
        assert argvs(made) == [(
            "mdadm", "--assemble", "/dev/md/azure-ephemeral-md", "--uuid=11110000:00004000:80000000:00000001",
            "/dev/nvme0n1", "/dev/nvme1n1",
        )]  # fmt: skip


@pytest.mark.parametrize("over", ["", "ntfs", "data"])
def test_a_complete_array_that_was_interrupted_is_looked_at_before_it_is_made_again(over: str) -> None:
    """An operator may have made a file system on it meanwhile."""
    disks = nvme(0, holding(MD)), nvme(1, holding(MD))
    made = plan(facts(*disks), recorded(*disks, begun="array", over=over))
    assert [argv[:2] for argv in argvs(made)] == [("mdadm", "--assemble")]
    assert not on_devices(made)


def test_an_interrupted_array_gets_the_recorded_chunk() -> None:
    disks = nvme(0, holding(MD)), nvme(1)
    (argv,) = argvs(plan(facts(*disks), recorded(*disks, begun="array", chunk_kib=64), chunk_kib=256))
    assert "--chunk=64" in argv


def test_another_partition_that_is_mounted_does_not_count_for_ours() -> None:
    first = replace(part("nvme0n1", 1, holding(sign("ext4", FRESH[5], "mine"))), mounts=("/srv",))
    second = part("nvme0n1", 2, holding(EXT4))
    table = holding(sign("gpt", FRESH[3]))
    disk = nvme(0, table, partitions=(first, second), mounts=("/srv",), busy="mounted at /srv")
    made = plan(facts(disk))
    assert not refusals(made)
    assert ("mount", "-t", "ext4", "/dev/nvme0n1p2", "/mnt") in argvs(made)


def test_an_array_keeps_the_recorded_order_of_its_disks() -> None:
    disks = nvme(0, holding(MD)), nvme(1, holding(MD))
    made = plan(facts(*disks), recorded(*reversed(disks), finished=True))
    assert argvs(made)[0][-2:] == ("/dev/nvme1n1", "/dev/nvme0n1")


def test_a_mounted_file_system_is_as_asked() -> None:
    disk = nvme(0, holding(EXT4), busy="mounted at /mnt", mounts=("/mnt",))
    from azureinit.facts.temporary_disks import FstabEntry

    entry = FstabEntry(
        line=LINE,
        source="LABEL=AzureEphmDsk",
        point="/mnt",
        filesystem="ext4",
        options="defaults,nofail,comment=azure-ephemeral-disk-setup",
    )
    found = facts(
        disk,
        points=mounted("/dev/nvme0n1"),
        fstab=f"{LINE}\n".encode(),
        entries=(entry,),
        notices=("/mnt/DATALOSS_WARNING_README.txt",),
    )
    made = plan(found, recorded(disk, finished=True))
    assert all(isinstance(item, Satisfied) for item in made)


def test_a_file_system_that_is_mounted_elsewhere_is_not_mounted_twice() -> None:
    disk = nvme(0, holding(EXT4), busy="mounted at /data", mounts=("/data",))
    made = plan(facts(disk), recorded(disk, finished=True))
    assert "mount of /mnt" not in [step.name for step in steps(made)]
    assert "mounted at /data" in refusals(made)[0].why


def test_redeployment_gives_blank_disks_that_are_formatted_again() -> None:
    old = recorded(nvme(0), finished=True)
    made = plan(facts(nvme(0)), old)
    assert on_devices(made)
    assert steps(made)[0].name == "record of the local NVMe disks"
    assert FRESH[0] in argvs(made)[0]


# ---- our own work: unfinished


def test_an_interrupted_mkfs_goes_on_with_the_recorded_uuid() -> None:
    disk = nvme(0, holding())
    made = plan(facts(disk), recorded(disk))
    (argv, *_) = argvs(made)
    assert argv == (
        "mkfs.ext4", "-q", "-E", "nodiscard", "-U", FRESH[1], "-L", "AzureEphmDsk", "-F", "/dev/nvme0n1",
    )  # fmt: skip
    assert steps(made)[0].why == "it is unfinished work of this VM on /dev/nvme0n1"


def test_a_record_whose_write_never_began_proves_nothing() -> None:
    """Another program wrote to the disk, so the check before mkfs failed: these bytes are not ours."""
    disk = nvme(0, holding())
    made = plan(facts(disk), recorded(disk, begun=""))
    assert not steps(made)
    assert refusals(made)


def test_a_copy_of_the_superblock_that_is_behind_the_first_one_does_not_matter() -> None:
    """The kernel mounts by the first one: it may be in use."""
    first, copy = sign("btrfs", FRESH[1], "AzureEphmDsk"), sign("btrfs", FRESH[1], offset=64 * MIB, unfinished=True)
    disk = nvme(0, holding(copy, first))
    made = plan(facts(disk), recorded(disk, filesystem="btrfs"))
    assert not on_devices(made)
    assert "mount of /mnt" in [step.name for step in steps(made)]
    older = nvme(0, holding(replace(first, unfinished=True), replace(copy, unfinished=False)))
    assert not steps(plan(facts(older), recorded(older, filesystem="btrfs")))


UNFINISHED: dict[str, tuple[Content, dict[str, Any], bool]] = {
    "XFS in progress": (holding(sign("xfs", FRESH[1], unfinished=True)), {"filesystem": "xfs"}, True),
    "XFS in progress of others": (holding(sign("xfs", FRESH[6], unfinished=True)), {"filesystem": "xfs"}, False),
    "another kind": (holding(sign("btrfs", FRESH[1], unfinished=True)), {"filesystem": "xfs"}, False),
    "with a signature of others": (holding(sign("luks", FRESH[6])), {}, False),
    "ambiguous": (holding(ambiguous="blkid finds two"), {}, False),
    "with an NTFS": (holding(ntfs="it cannot be read"), {}, False),
    "of another VM": (holding(), {"vm_id": "another"}, False),
    "of another disk": (holding(), {"members": ("serial-9",)}, False),
    "of another size": (holding(), {"sizes": (SIZE + 4096,)}, False),
    "finished before": (holding(), {"finished": True}, False),
    "of the other kind": (holding(), {"kind": "scsi"}, False),
}


@pytest.mark.parametrize(("content", "values", "ours"), UNFINISHED.values(), ids=UNFINISHED)
def test_only_exactly_our_unfinished_work_goes_on(content: Content, values: dict[str, Any], ours: bool) -> None:
    disk = nvme(0, content)
    assert bool(on_devices(plan(facts(disk), recorded(disk, **values)))) is ours


def test_unfinished_work_on_a_disk_in_use_waits() -> None:
    disk = nvme(0, holding(), busy="dd (pid 12) has it open for writing")
    assert not steps(plan(facts(disk), recorded(disk)))


def test_a_finished_set_whose_array_is_empty_now_is_left_alone() -> None:
    disks = nvme(0), nvme(1)
    members = tuple(held(disk, holding(MD)) for disk in disks)
    made = plan(facts(*members, assembled=(array(*disks),)), recorded(*disks, finished=True))
    assert not steps(made)
    assert refusals(made)


@pytest.mark.parametrize("group", ["", "azure-ephemeral-md", "another"])
def test_physical_volumes_are_activated_only_in_their_own_group(group: str) -> None:
    uuids = [f"111100-0000-0040-0080-0000-0000-00000{number}" for number in range(2)]
    disks = tuple(nvme(number, holding(sign("lvm2", uuid, group))) for number, uuid in enumerate(uuids))
    made = plan(facts(*disks), recorded(*disks, aggregation="lvm", finished=True))
    expected = [("vgchange", "--quiet", "--activate", "y", "azure-ephemeral-md")]
    assert argvs(made) == ([] if group == "another" else expected)


def test_an_array_that_was_half_made_is_made_again_with_its_uuid() -> None:
    disks = nvme(0, holding(MD)), nvme(1)
    made = plan(facts(*disks), recorded(*disks, begun="array"))
    (argv,) = argvs(made)
    assert "--run" in argv
    assert "--uuid=11110000:00004000:80000000:00000001" in argv


def test_a_member_that_was_replaced_after_mkfs_began_is_not_made_again() -> None:
    disks = nvme(0, holding(MD)), nvme(1)
    made = plan(facts(*disks), recorded(*disks, begun="filesystem"))
    assert not steps(made)
    assert refusals(made)


@pytest.mark.parametrize(
    ("content", "begun", "works"),
    [
        (blank(2 * SIZE), "array", True),
        (blank(2 * SIZE), "filesystem", True),
        (holding(size=2 * SIZE), "filesystem", True),
        (holding(size=2 * SIZE), "array", False),
        (holding(sign("ext4", FRESH[6], "data"), size=2 * SIZE), "filesystem", False),
    ],
)
def test_the_file_system_of_an_assembled_array(content: Content, begun: str, works: bool) -> None:
    disks = nvme(0), nvme(1)
    members = tuple(held(disk, holding(MD)) for disk in disks)
    made = plan(facts(*members, assembled=(array(*disks, content=content),)), recorded(*disks, begun=begun))
    assert bool(on_devices(made)) is works
    assert bool(refusals(made)) is not works


def test_an_array_is_the_same_one_when_it_is_written_to() -> None:
    disks = nvme(0), nvme(1)
    members = tuple(held(disk, holding(MD)) for disk in disks)
    made = plan(facts(*members, assembled=(array(*disks, sequence=42),)), recorded(*disks, begun="array"))
    assert on_devices(made)[0].devices[0].sequence == 42


@pytest.mark.parametrize("changes", [{"uuid": FRESH[6]}, {"mounts": ("/x",)}, {"busy": "claimed"}], ids=str)
def test_an_array_of_others_is_left_alone(changes: dict[str, Any]) -> None:
    disks = nvme(0), nvme(1)
    members = tuple(held(disk, holding(MD)) for disk in disks)
    made = plan(facts(*members, assembled=(array(*disks, **changes),)), recorded(*disks, begun="array"))
    assert not steps(made)


# ---- sets with missing or new members


def test_a_set_with_a_missing_member_is_left_alone() -> None:
    disks = nvme(0, holding(MD)), nvme(1)
    made = plan(facts(disks[0]), recorded(*disks, finished=True))
    assert not steps(made)
    assert "holds md" in cautions(made)["/dev/nvme0n1"]


def test_a_new_disk_beside_a_finished_set_is_left_alone_and_the_set_is_used() -> None:
    old = nvme(0, holding(EXT4))
    made = plan(facts(old, nvme(1)), recorded(old, finished=True))
    assert not on_devices(made)
    assert "mount of /mnt" in [step.name for step in steps(made)]
    assert cautions(made)["/dev/nvme1n1"] == "left alone: it is blank; /dev/nvme0n1 is used"


def test_every_present_disk_blank_is_formatted_whatever_was_recorded() -> None:
    made = plan(facts(nvme(0), nvme(2)), recorded(nvme(0), nvme(1), finished=True))
    assert argvs(made)[0][-2:] == ("/dev/nvme0n1", "/dev/nvme2n1")


def test_recreate_says_what_it_destroys() -> None:
    disks = nvme(0, holding(sign("md", FRESH[6]))), nvme(1)
    made = plan(facts(*disks), recreate=True)
    assert steps(made)[1].why == "--recreate destroys what is there: /dev/nvme0n1: it holds md"
    (format_,) = on_devices(made)
    assert format_.run.argv[3:8] == ("wipefs", "/dev/nvme0n1", str(SIZE), "--", "sh")
    assert {device.path for device in format_.devices} == {"/dev/nvme0n1", "/dev/nvme1n1"}


@pytest.mark.parametrize("name", UNUSABLE)
def test_recreate_does_not_touch_a_disk_that_is_used_or_unreadable(name: str) -> None:
    made = plan(facts(FOREIGN[name]), recreate=True)
    assert not steps(made)
    assert "--recreate destroys only disks that are free" in refusals(made)[0].why


def test_recreate_keeps_a_set_that_can_be_used() -> None:
    disk = nvme(0, holding(EXT4))
    assert not on_devices(plan(facts(disk), recorded(disk, finished=True), recreate=True))


# ---- partition tables


def test_a_partition_table_is_made_first_with_recorded_uuids() -> None:
    made = plan(facts(nvme()), table="gpt")
    assert argvs(made) == [(
        "sh", "-c", TABLE, "sfdisk", "/dev/nvme0n1", "label: gpt", f"label-id: {FRESH[0]}",
        f"type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, uuid={FRESH[1]}",
    )]  # fmt: skip


def _cut(begun: str, **more: Any) -> DiskSet:
    values = {"table": "gpt", "table_uuid": FRESH[2], "partition_uuid": FRESH[3], "begun": begun, **more}
    return recorded(nvme(0), **values)


GPT = holding(sign("gpt", FRESH[2]), sign("gpt", FRESH[2], offset=SIZE - 512))
MIXED = holding(sign("gpt", FRESH[2]), sign("gpt", FRESH[6]))
INNER = SIZE - 2 * MIB
TABLES: dict[str, tuple[Content, tuple[Content, ...], DiskSet, str]] = {
    "then its file system": (GPT, (blank(INNER),), _cut("table"), "/dev/nvme0n1p1"),
    "no partition yet": (GPT, (), _cut("table"), "/dev/nvme0n1"),
    "no signature yet": (holding(nonzero=SIZE - 4096), (), _cut("table"), "/dev/nvme0n1"),
    "bytes that sfdisk does not leave": (holding(), (), _cut("table"), ""),
    "mkfs was interrupted": (GPT, (holding(size=INNER),), _cut("filesystem"), "/dev/nvme0n1p1"),
    "bytes that are not ours": (GPT, (holding(size=INNER),), _cut("table"), ""),
    "bytes that the NTFS left": (GPT, (holding(size=INNER),), _cut("table", over="ntfs"), "/dev/nvme0n1p1"),
    "a file system of others": (GPT, (holding(sign("ext4", FRESH[6]), size=INNER),), _cut("filesystem"), ""),
    "a table of others": (holding(sign("gpt", FRESH[6])), (blank(INNER),), _cut("table"), ""),
    "a copy of another table": (MIXED, (blank(INNER),), _cut("table"), ""),
    "two partitions": (GPT, (blank(INNER), blank(INNER)), _cut("table"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("content", "inner", "made", "device"), TABLES.values(), ids=TABLES)
def test_a_partitioned_disk(content: Content, inner: tuple[Content, ...], made: DiskSet, device: str) -> None:
    parts = tuple(part("nvme0n1", number, one) for number, one in enumerate(inner, 1))
    found = plan(facts(nvme(0, content, partitions=parts)), made, table="gpt")
    assert [one.devices[0].path for one in on_devices(found)] == ([device] if device else [])
    assert bool(refusals(found)) is not bool(device)
