"""The plan for temporary disks: what is formatted, what is kept, what is left alone, and the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from azureinit.facts.temporary_disks import DiskFacts, TemporaryDisk
from azureinit.memory.disk_sets import parse_disk_sets
from azureinit.plan.actions import Caution, OnDevices, Untouched, Way, Write
from azureinit.plan.disks import refusals
from azureinit.plan.show import as_text
from azureinit.record import replace
from support.disk_cases import (
    FOREIGN,
    FRESH,
    LINE,
    MIB,
    SETS_PATH,
    SIZE,
    TOOLS,
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
    satisfied,
    scsi,
    shipped,
    sign,
    steps,
)

EXT4 = sign("ext4", FRESH[1], "AzureEphmDsk")
MD = sign("md", FRESH[0])


# ---- new sets


def test_one_blank_disk_is_recorded_formatted_entered_mounted_and_marked() -> None:
    made = plan(facts(nvme()))
    assert [step.name for step in steps(made)] == [
        "record of the local NVMe disks",
        "file system on the local NVMe disks",
        "/etc/fstab entry",
        "mount of /mnt",
        "device at /mnt",
        "notice in /mnt",
    ]
    assert argvs(made)[0] == (
        "mkfs.ext4", "-q", "-E", "nodiscard", "-U", FRESH[0], "-L", "AzureEphmDsk", "/dev/nvme0n1",
    )  # fmt: skip
    assert not cautions(made)
    assert not refusals(made)


def test_the_record_is_written_before_the_disk_and_names_what_begins() -> None:
    made = plan(facts(nvme()))
    record, filesystem = steps(made)[:2]
    assert isinstance(record.ways[0], Way)
    assert isinstance(filesystem.ways[0], Way)
    (before,) = [action for action in record.ways[0].actions if isinstance(action, Write)]
    assert before.path == SETS_PATH
    assert before.mode == 0o600
    format_, after = filesystem.ways[0].actions
    assert isinstance(format_, OnDevices)
    assert isinstance(format_.mark, Write)
    assert isinstance(after, Write)
    stages = [parse_disk_sets(data_of(write))[0] for write in (before, format_.mark, after)]
    assert [(one.begun, one.finished) for one in stages] == [("", False), ("filesystem", False), ("filesystem", True)]
    assert {one.members for one in stages} == {("serial-0",)}
    assert {one.filesystem_uuid for one in stages} == {FRESH[0]}
    assert format_.devices == (Untouched(path="/dev/nvme0n1", size=SIZE, regions=blank().regions, digest="00ff"),)


def test_two_disks_become_one_array_and_nothing_else_in_the_first_plan() -> None:
    made = plan(facts(nvme(0), nvme(1)))
    assert [step.name for step in steps(made)] == [
        "record of the local NVMe disks",
        "RAID 0 array of the local NVMe disks",
    ]
    assert steps(made)[1].why.endswith("temporary disks and blank; the file system is made on it next")
    assert argvs(made) == [(
        "mdadm", "--create", "/dev/md/azure-ephemeral-md", "--uuid=11110000:00004000:80000000:00000001",
        "--metadata=1.2", "--level=0", "--chunk=512", "--raid-devices=2", "--name=azure-ephemeral-md",
        "--homehost=any", "/dev/nvme0n1", "/dev/nvme1n1",
    )]  # fmt: skip


def test_two_disks_take_one_mkfs_and_one_mount() -> None:
    """The plans of all rounds together."""
    disks = nvme(0), nvme(1)
    first = plan(facts(*disks))
    members = tuple(held(disk, holding(MD)) for disk in disks)
    begun = recorded(*disks, begun="array")
    second = plan(facts(*members, assembled=(array(*disks),)), begun)
    done = array(*disks, content=holding(EXT4), mounts=("/mnt",), busy="mounted at /mnt")
    third = plan(
        facts(
            *members,
            assembled=(done,),
            points=mounted("/dev/md127"),
            fstab=LINE.encode() + b"\n",
            entries=(),
            notices=("/mnt/DATALOSS_WARNING_README.txt",),
            fstab_writable=False,
        ),
        replace(begun, begun="filesystem", finished=True),
    )
    assert not steps(third)
    programs = [argv[0] for made in (first, second) for argv in argvs(made)]
    assert [one for one in programs if one.startswith("mkfs")] == ["mkfs.ext4"]
    assert len([step for step in steps(second) if step.name.startswith("mount of")]) == 1
    assert "sleep" not in programs
    assert on_devices(second)[0].devices[0].path == "/dev/md127"


def test_lvm_stripes_where_mdadm_is_missing() -> None:
    made = plan(facts(nvme(0), nvme(1), tools=TOOLS - {"mdadm"}))
    (argv,) = argvs(made)
    assert argv[3:] == (
        "lvm", "azure-ephemeral-md", "data", "512k", "", "swap", "0", "111100-0000-0040-0080-0000-0000-000000",
        "/dev/nvme0n1", "111100-0000-0040-0080-0000-0000-000001", "/dev/nvme1n1",
    )  # fmt: skip


def test_without_any_tool_only_the_first_disk_is_used_and_said() -> None:
    made = plan(facts(nvme(0), nvme(1), tools=TOOLS - {"mdadm", "vgcreate"}))
    assert on_devices(made)[0].devices[0].path == "/dev/nvme0n1"
    assert cautions(made) == {"local NVMe disks": "only the first disk is used: neither mdadm nor lvm2 is installed"}
    assert satisfied(made)["/dev/nvme1n1"] == "not used: nothing here combines disks, so only the first disk is"


@pytest.mark.parametrize(("asked", "tool"), [("mdadm", "mdadm"), ("lvm", "vgcreate")])
@pytest.mark.parametrize("count", [1, 2])
def test_a_tool_that_is_asked_for_and_missing_is_a_refusal(asked: str, tool: str, count: int) -> None:
    made = plan(facts(*map(nvme, range(count)), tools=TOOLS - {tool}), aggregation=asked)
    assert not steps(made)
    assert [one.why for one in refusals(made)] == [f"[disk] aggregation is {asked}, and {tool} is not installed"]


def test_aggregation_none_uses_the_first_of_several() -> None:
    made = plan(facts(nvme(0), nvme(1)), aggregation="none")
    assert on_devices(made)[0].devices[0].path == "/dev/nvme0n1"
    assert satisfied(made)["/dev/nvme1n1"] == "not used: [disk] aggregation is none, so only the first disk is"


@pytest.mark.parametrize(
    ("kind", "argv"),
    [
        ("xfs", ("mkfs.xfs", "-q", "-K", "-m", f"uuid={FRESH[0]}", "-L", "AzureEphmDsk", "/dev/nvme0n1")),
        (
            "btrfs",
            ("mkfs.btrfs", "--quiet", "--nodiscard", "--uuid", FRESH[0], "--label", "AzureEphmDsk", "/dev/nvme0n1"),
        ),
    ],
)
def test_other_file_systems(kind: str, argv: tuple[str, ...]) -> None:
    assert argvs(plan(facts(nvme()), filesystem=kind))[0] == argv


def test_a_label_that_xfs_cannot_have_is_refused_before_anything_is_written() -> None:
    made = plan(facts(nvme()), filesystem="xfs", label="thirteen-long")
    assert not steps(made)
    assert refusals(made)[0].why == "the label thirteen-long is longer than the 12 bytes that xfs allows"
    assert steps(plan(facts(nvme()), filesystem="ext4", label="thirteen-long"))


def test_a_missing_mkfs_is_a_refusal() -> None:
    made = plan(facts(nvme(), tools=TOOLS - {"mkfs.ext4"}))
    assert not steps(made)
    assert refusals(made)[0].why == "mkfs.ext4 is not installed"


def test_without_a_vm_id_nothing_is_done() -> None:
    made = plan(facts(nvme()), vm_id="")
    assert not steps(made)
    assert "id is not known" in refusals(made)[0].why


def test_without_fresh_uuids_nothing_is_done() -> None:
    made = plan(facts(nvme(), fresh=()))
    assert not steps(made)
    assert refusals(made)


# ---- the platform's NTFS


def test_the_shipped_ntfs_is_formatted_after_both_looks_are_repeated() -> None:
    made = plan(facts(shipped()), scsi="fallback")
    (format_,) = on_devices(made)
    assert format_.devices == (
        Untouched(path="/dev/sdb", size=SIZE, regions=((0, 2 * MIB),), digest="beef"),
        Untouched(path="/dev/sdb", size=SIZE, regions=((MIB, 512), (MIB + 4096, 1024)), digest="cafe"),
    )
    assert format_.run.argv[3:7] == ("wipefs", "/dev/sdb", str(SIZE), "--")
    assert format_.run.argv[7] == "mkfs.ext4"
    assert "-F" in format_.run.argv
    assert steps(made)[1].why == "/dev/sdb holds only the NTFS that the platform ships"


def test_an_unreadable_ntfs_is_left_alone_unless_it_is_trusted() -> None:
    disk = shipped(pristine_ntfs=False, ntfs="it is dirty", ntfs_unreadable=True)
    made = plan(facts(disk), scsi="fallback")
    assert not steps(made)
    assert "it is dirty" in cautions(made)["/dev/sdb"]
    assert on_devices(plan(facts(disk), scsi="fallback", trust_unreadable_ntfs=True))


def _ntfs(**changes: Any) -> TemporaryDisk:
    return replace(shipped(), **changes)


OTHER_NTFS = {
    "with a file of a user": shipped(pristine_ntfs=False, ntfs="it has the file a.txt"),
    "with two partitions": _ntfs(partitions=(*shipped().partitions, part("sdb", 2, blank(MIB)))),
    "on a GPT": _ntfs(content=holding(sign("gpt", FRESH[5]))),
    "with md metadata too": _ntfs(content=holding(sign("dos"), sign("md", FRESH[5]))),
    "ambiguous": _ntfs(content=holding(sign("dos"), ambiguous="blkid says otherwise")),
    "in use": _ntfs(busy="mounted at /media"),
    "whole disk": scsi(holding(sign("ntfs", label="Temporary Storage"), pristine_ntfs=True)),
    "on NVMe": nvme(0, holding(sign("dos")), partitions=shipped().partitions),
}


@pytest.mark.parametrize("disk", OTHER_NTFS.values(), ids=OTHER_NTFS)
@pytest.mark.parametrize("trust", [False, True])
def test_any_other_ntfs_is_left_alone(disk: TemporaryDisk, trust: bool) -> None:
    made = plan(facts(disk), scsi="data", trust_unreadable_ntfs=trust)
    assert not steps(made)
    assert refusals(made)
    assert cautions(made)[disk.path].startswith("left alone: ")


# ---- disks that are left alone


@pytest.mark.parametrize("disk", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("settings", [{}, {"table": "gpt"}, {"nvme": "swap"}, {"aggregation": "lvm"}], ids=str)
def test_a_disk_in_doubt_is_left_alone_and_so_are_its_siblings(
    disk: TemporaryDisk, others: int, settings: dict[str, Any]
) -> None:
    siblings = [nvme(number) for number in range(1, 1 + others)]
    made = plan(facts(disk, *siblings), **settings)
    assert not steps(made)
    assert refusals(made)
    said = cautions(made)
    assert said["/dev/nvme0n1"].startswith("left alone: ")
    for sibling in siblings:
        assert said[sibling.path] == "left alone: the set needs /dev/nvme0n1 too, which cannot be used"


def test_reasons_are_specific() -> None:
    reasons = {name: cautions(plan(facts(disk)))["/dev/nvme0n1"] for name, disk in FOREIGN.items()}
    assert reasons["busy"] == "left alone: it is in use: mounted at /data"
    assert reasons["trouble"] == "left alone: it cannot be read: input/output error"
    assert reasons["file system of others"] == "left alone: it holds ext4 labelled data"
    assert reasons["partitioned"] == "left alone: it has a partition: nvme0n1p1 (blank)"
    assert reasons["raw bytes"] == f"left alone: it is not blank: there is data at byte {7 << 30}"
    assert reasons["second opinion"] == "left alone: what it holds is ambiguous: blkid finds a vfat"


# ---- which disks are used


def test_nothing_temporary_is_nothing_to_say() -> None:
    assert plan(facts()) == ()


def test_settings_that_use_no_disk_are_said() -> None:
    made = plan(facts(nvme(), scsi()), nvme="off")
    assert satisfied(made) == {
        "/dev/nvme0n1": "not used: [disk] nvme is off",
        "/dev/sdb": "not used: [disk] scsi is off",
    }
    assert len(made) == 2


def test_nvme_comes_before_scsi() -> None:
    made = plan(facts(scsi(), nvme()), scsi="fallback")
    assert [one.devices[0].path for one in on_devices(made)] == ["/dev/nvme0n1"]
    assert satisfied(made)["/dev/sdb"] == "not used: there are local NVMe disks"


def test_the_resource_disk_takes_the_mount_point_where_there_is_no_nvme() -> None:
    made = plan(facts(scsi()), scsi="fallback")
    assert "mount of /mnt" in [step.name for step in steps(made)]


def test_both_kinds_at_once_are_two_sets() -> None:
    made = plan(facts(nvme(), scsi()), scsi="data")
    assert [one.devices[0].path for one in on_devices(made)] == ["/dev/nvme0n1", "/dev/sdb"]
    assert [step.name for step in steps(made) if step.name.startswith("mount")] == [
        "mount of /mnt",
        "mount of /mnt/resource",
    ]
    last = [action for step in steps(made) for way in step.ways if isinstance(way, Way) for action in way.actions]
    written = [action for action in last if isinstance(action, Write) and action.path == SETS_PATH]
    sets = parse_disk_sets(data_of(written[-1]))
    assert [(one.kind, one.finished) for one in sets] == [("nvme", True), ("scsi", True)]
    assert len({one.label for one in sets}) == 2
    assert len({one.filesystem_uuid for one in sets}) == 2


def test_one_mount_point_for_both_is_a_refusal_for_the_second() -> None:
    made = plan(facts(nvme(), scsi()), scsi="data", scsi_mount_point="/mnt")
    assert [one.devices[0].path for one in on_devices(made)] == ["/dev/nvme0n1"]
    assert refusals(made)[0].name == "refused: resource disk"


# ---- other programs


@pytest.mark.parametrize(
    "found",
    [
        facts(shipped(), waagent_formats="/etc/waagent.conf"),
        facts(shipped(), cloud_init="enabled: /run/cloud-init/enabled"),
    ],
    ids=["WALinuxAgent", "cloud-init"],
)
def test_a_resource_disk_that_another_program_sets_up_is_refused(found: DiskFacts) -> None:
    made = plan(found, scsi="data")
    assert not steps(made)
    assert refusals(made)


def test_local_nvme_disks_do_not_concern_other_programs() -> None:
    made = plan(facts(nvme(), scsi(), waagent_formats="/etc/waagent.conf", cloud_init="enabled: x"))
    assert [one.devices[0].path for one in on_devices(made)] == ["/dev/nvme0n1"]
    assert not refusals(made)


# ---- what an operator sees


def test_the_plan_as_text() -> None:
    text = as_text(plan(facts(nvme(0, holding(sign("ext4", FRESH[6], "data"))), nvme(1))), privileged=True)
    assert text == (
        "! not set up: local NVMe disks: nothing is formatted: not every disk is blank; azure-init disk setup"
        " --recreate formats disks that are free, and destroys what is on them\n"
        "! /dev/nvme0n1: left alone: it holds ext4 labelled data\n"
        "! /dev/nvme1n1: left alone: the set needs /dev/nvme0n1 too, which cannot be used\n"
        "0 to do, 0 as asked, 3 not possible\n"
    )


def test_every_item_is_told_with_its_reason() -> None:
    for item in plan(facts(nvme(), scsi()), scsi="data"):
        assert item.why
        assert not isinstance(item, Caution)
