"""Arrays with a partition table, and arrays with a swap area beside the file system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from azureinit.backends.array import COMPLETE, STRIPED
from azureinit.backends.filesystem import TABLE
from azureinit.facts.disk_content import Content
from azureinit.facts.temporary_disks import Assembled, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet, parse_disk_sets
from azureinit.plan.actions import Satisfied, Write
from azureinit.plan.disk_status import disk_status
from azureinit.plan.disks import refusals
from azureinit.record import replace
from support.disk_cases import (
    FRESH,
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
    nvme,
    on_devices,
    plan,
    recorded,
    satisfied,
    sign,
    steps,
)

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

INNER, SWAP = 2 * SIZE - 70 * MIB, 64 * MIB
LINUX, SWAP_TYPE = "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
MD = holding(sign("md", FRESH[0]))
EXT4 = holding(sign("ext4", FRESH[1], "AzureEphmDsk"), size=INNER)
SWAP_AREA = holding(sign("swap", FRESH[4], "AzureEphmSwap"), size=SWAP)
GPT = holding(
    sign("gpt", FRESH[2], partitions=(FRESH[3],)), sign("gpt", FRESH[2], offset=2 * SIZE - 512), size=2 * SIZE
)
GPT_OF_TWO = holding(sign("gpt", FRESH[2], partitions=(FRESH[5], FRESH[3])), size=2 * SIZE)
ASKED: dict[str, Any] = {"table": "gpt", "swap": "partition", "swap_mib": 64}
LVM: dict[str, Any] = {"aggregation": "lvm", "swap": "partition", "swap_mib": 64}
GROUP = "azure-ephemeral-md"


def cut(**more: Any) -> DiskSet:
    """RAID 0, GPT, one partition."""
    values = {"table": "gpt", "table_uuid": FRESH[2], "partition_uuid": FRESH[3], "begun": "table", **more}
    return recorded(nvme(0), nvme(1), **values)


def beside(**more: Any) -> DiskSet:
    """The same with a swap partition."""
    return cut(**{"swap_mib": 64, "swap_uuid": FRESH[4], "swap_partition_uuid": FRESH[5], **more})


def volumes(**more: Any) -> DiskSet:
    values = {"aggregation": "lvm", "swap_mib": 64, "swap_uuid": FRESH[4], "begun": "array", **more}
    return recorded(nvme(0), nvme(1), **values)


def partition(number: int, content: Content, **more: Any) -> Assembled:
    name = f"md127p{number}"
    made = array(nvme(0), nvme(1), content=content, name=name, path=f"/dev/{name}", **more)
    return replace(made, parent="md127", number=number, size=content.size)


def raid(content: Content, *parts: Assembled, **more: Any) -> tuple[tuple[TemporaryDisk, ...], tuple[Assembled, ...]]:
    disks = nvme(0), nvme(1)
    whole = array(*disks, content=content, **more)
    return tuple(held(disk, MD) for disk in disks), (whole, *parts)


def volume(name: str, content: Content, **more: Any) -> Assembled:
    number = 0 if name == "swap" else 1
    made = array(nvme(0), nvme(1), content=content, name=f"dm-{number}", path=f"/dev/dm-{number}", **more)
    return replace(made, mapped=f"azure--ephemeral--md-{name}", uuid=f"LVM-{name}", size=content.size)


def group(
    *arrays: Assembled, volumes: tuple[str, ...] | None = None
) -> tuple[tuple[TemporaryDisk, ...], tuple[Assembled, ...]]:
    names = tuple(one.name for one in arrays)
    uuids = [f"111100-0000-0040-0080-0000-0000-00000{number}" for number in range(2)]
    contents = [holding(sign("lvm2", uuid, GROUP, volumes=volumes)) for uuid in uuids]
    disks = (held(nvme(number), content, holders=names) for number, content in enumerate(contents))
    return tuple(disks), arrays


def planned(found: tuple[tuple[TemporaryDisk, ...], tuple[Assembled, ...]], made: DiskSet, **settings: Any) -> Plan:
    return plan(facts(*found[0], assembled=found[1]), made, **settings)


def written(made: Plan) -> list[str]:
    return [one.devices[0].path for one in on_devices(made)]


# ---- what is made


def test_the_uuids_of_everything_are_recorded_before_the_first_write() -> None:
    made = plan(facts(nvme(0), nvme(1)), **ASKED)
    write = next(one for one in actions(made) if isinstance(one, Write) and one.path == SETS_PATH)
    (one,) = parse_disk_sets(data_of(write))
    assert (one.aggregation, one.table, one.swap_mib, one.begun) == ("mdadm", "gpt", 64, "")
    uuids = (one.array_uuid, one.table_uuid, one.partition_uuid, one.filesystem_uuid)
    assert {*uuids, one.swap_uuid, one.swap_partition_uuid} == {*FRESH[:6]}
    assert argvs(made)[0][:2] == ("mdadm", "--create")
    assert steps(made)[-1].why.endswith("; the partition table is made on it next")
    assert not cautions(made)


def test_the_table_of_a_new_array() -> None:
    made = planned(raid(blank(2 * SIZE)), beside(begun="array"), **ASKED)
    assert argvs(made) == [(
        "sh", "-c", TABLE, "sfdisk", "/dev/md127", "label: gpt", f"label-id: {FRESH[2]}",
        f"size=64MiB, type={SWAP_TYPE}, uuid={FRESH[5]}", f"type={LINUX}, uuid={FRESH[3]}",
    )]  # fmt: skip
    assert written(made) == ["/dev/md127"]


def test_swap_and_file_system_of_a_partitioned_array() -> None:
    parts = partition(1, blank(SWAP)), partition(2, blank(INNER))
    made = planned(raid(GPT_OF_TWO, *parts), beside(), **ASKED)
    assert written(made) == ["/dev/md127p1", "/dev/md127p2"]
    assert argvs(made)[0] == ("mkswap", "--uuid", FRESH[4], "--label", "AzureEphmSwap", "/dev/md127p1")
    assert argvs(made)[-1] == ("swapon", "/dev/md127p1")


def test_the_whole_array_as_swap_in_a_partition() -> None:
    made = planned(raid(GPT, partition(1, blank(INNER))), cut(filesystem="swap"), table="gpt", nvme="swap")
    assert written(made) == ["/dev/md127p1"]
    assert argvs(made)[-1] == ("swapon", "/dev/md127p1")


def test_lvm_has_a_volume_for_swap() -> None:
    made = plan(facts(nvme(0), nvme(1)), **LVM)
    (argv,) = argvs(made)
    assert argv[2] == STRIPED
    assert argv[4:10] == (GROUP, "data", "512k", "", "swap", "64")
    made = planned(group(volume("swap", blank(SWAP)), volume("data", blank(INNER))), volumes(), **LVM)
    assert written(made) == ["/dev/dm-0", "/dev/dm-1"]
    assert argvs(made)[0][-1] == "/dev/dm-0"
    assert argvs(made)[-1] == ("swapon", "/dev/dm-0")


def test_a_swap_area_on_a_larger_volume_has_the_size_asked_for() -> None:
    made = planned(group(volume("swap", blank(72 * MIB)), volume("data", blank(INNER))), volumes(), **LVM)
    assert argvs(made)[0][-2:] == ("/dev/dm-0", "65536")


@pytest.mark.parametrize("settings", [{}, {"table": "gpt"}], ids=str)
def test_a_swap_partition_of_an_array_needs_a_table(settings: dict[str, Any]) -> None:
    made = plan(facts(nvme(0), nvme(1)), swap="partition", swap_mib=64, **settings)
    expected = {} if settings else {"local NVMe disks": "no swap partition is made: it needs [disk] table = gpt"}
    assert cautions(made) == expected


@pytest.mark.parametrize("settings", [ASKED, LVM], ids=["mdadm", "lvm"])
@pytest.mark.parametrize(("taken", "fits"), [(0, False), (16 + 400, False), (16 + 404 + 8, True)])
def test_swap_that_does_not_fit_on_the_array_is_refused(settings: dict[str, Any], taken: int, fits: bool) -> None:
    asked = {**settings, "swap_mib": 2 * SIZE // MIB - taken}
    made = plan(facts(nvme(0), nvme(1)), **asked)
    assert bool(on_devices(made)) is fits
    assert bool(refusals(made)) is not fits


def test_stripes_are_as_long_as_the_smallest_disk() -> None:
    disks = nvme(0), nvme(1, size=10 * SIZE)
    assert on_devices(plan(facts(*disks), **{**ASKED, "swap_mib": 3 * SIZE // MIB}))
    assert not on_devices(plan(facts(*disks), **{**LVM, "swap_mib": 3 * SIZE // MIB}))


# ---- what was interrupted


OLD = holding(size=2 * SIZE)
OTHER = holding(sign("gpt", FRESH[6]), size=2 * SIZE)
WIDER = holding(sign("gpt", FRESH[2], partitions=(FRESH[3], FRESH[6])), size=2 * SIZE)
BYTES = holding(size=INNER)
CASES: dict[str, tuple[Content, tuple[Content, ...], DiskSet, list[str]]] = {
    "killed before sfdisk wrote": (blank(2 * SIZE), (), cut(), ["/dev/md127"]),
    "killed inside sfdisk": (holding(size=2 * SIZE, nonzero=2 * SIZE - 4096), (), cut(), ["/dev/md127"]),
    "bytes that sfdisk does not leave": (OLD, (), cut(), []),
    "bytes before sfdisk": (OLD, (), cut(begun="array"), []),
    "bytes of what was there before": (OLD, (), cut(begun="array", over="data"), ["/dev/md127"]),
    "a table, no partition yet": (GPT, (), cut(), ["/dev/md127"]),
    "a table of others": (OTHER, (blank(INNER),), cut(), []),
    "a table of others before ours": (OTHER, (), cut(begun="array", over="data"), []),
    "a table with a partition of others": (WIDER, (blank(INNER),), cut(), []),
    "then the file system": (GPT, (blank(INNER),), cut(), ["/dev/md127p1"]),
    "killed inside mkfs": (GPT, (BYTES,), cut(begun="filesystem"), ["/dev/md127p1"]),
    "bytes before mkfs": (GPT, (BYTES,), cut(), []),
    "a file system of others": (GPT, (holding(sign("xfs", FRESH[6]), size=INNER),), cut(begun="filesystem"), []),
    "a partition too many": (GPT, (blank(INNER), blank(SWAP)), cut(), []),
    "the table is gone": (blank(2 * SIZE), (), cut(begun="filesystem"), []),
    "finished, and empty now": (blank(2 * SIZE), (), cut(begun="filesystem", finished=True), []),
    "finished, without its file system": (GPT, (blank(INNER),), cut(begun="filesystem", finished=True), []),
    "of another VM": (GPT, (blank(INNER),), cut(vm_id="another"), []),
}


@pytest.mark.parametrize(("content", "inner", "made", "paths"), CASES.values(), ids=CASES)
def test_an_array_with_a_table(content: Content, inner: tuple[Content, ...], made: DiskSet, paths: list[str]) -> None:
    parts = (partition(number, one) for number, one in enumerate(inner, 1))
    found = planned(raid(content, *parts), made, table="gpt")
    assert written(found) == paths
    assert bool(refusals(found)) is not bool(paths)


@pytest.mark.parametrize("begun", ["table", "filesystem"])
def test_an_array_that_does_not_run_is_started_and_its_partitions_are_read(begun: str) -> None:
    disks = nvme(0, MD), nvme(1, MD)
    for made in (cut(begun=begun), cut(begun="filesystem", finished=True)):
        first, second = argvs(plan(facts(*disks), made, table="gpt"))
        assert first[:3] == ("mdadm", "--assemble", f"/dev/md/{GROUP}")
        assert second == ("blockdev", "--getsz", f"/dev/md/{GROUP}")


def test_partitions_that_the_kernel_has_not_read_yet() -> None:
    made = planned(raid(GPT), cut(begun="filesystem", finished=True), table="gpt")
    assert argvs(made) == [("blockdev", "--getsz", "/dev/md127")]
    assert not on_devices(made)


USES: dict[str, dict[str, Any]] = {
    "mounted": {"mounts": ("/x",)},
    "claimed": {"busy": "claimed"},
    "of another array": {"uuid": FRESH[6]},
}


@pytest.mark.parametrize("changes", USES.values(), ids=USES)
@pytest.mark.parametrize("which", ["whole", "partition"])
def test_an_array_in_use_is_left_alone(changes: dict[str, Any], which: str) -> None:
    whole, inner = (changes, {}) if which == "whole" else ({}, changes)
    if "mounts" in inner or "uuid" in inner:
        whole = changes  # as facts have it: what uses a partition uses its array
    made = planned(raid(GPT, partition(1, blank(INNER), **inner), **whole), cut(), table="gpt")
    assert not steps(made)
    assert refusals(made)


LEFT = holding(size=SWAP)
VOLUMES: dict[str, tuple[tuple[Assembled, ...], DiskSet, list[str]]] = {
    "only the first volume": ((volume("swap", blank(SWAP)),), volumes(), ["/dev/dm-0"]),
    "only the first volume, with bytes": ((volume("swap", LEFT),), volumes(), []),
    "with bytes of what was there before": ((volume("swap", LEFT),), volumes(over="data"), ["/dev/dm-0"]),
    "only the first volume, in use": ((volume("swap", blank(SWAP), busy="claimed"),), volumes(), []),
    "both": ((volume("swap", SWAP_AREA), volume("data", blank(INNER))), volumes(), ["/dev/dm-1"]),
    "killed inside mkfs": (
        (volume("swap", SWAP_AREA), volume("data", BYTES)), volumes(begun="filesystem"), ["/dev/dm-1"]
    ),
    "bytes before mkfs": ((volume("swap", SWAP_AREA), volume("data", BYTES)), volumes(), []),
    "a third one": (
        (volume("swap", SWAP_AREA), volume("data", blank(INNER)), volume("other", blank(INNER))), volumes(), []
    ),
    "finished, without its file system": (
        (volume("swap", SWAP_AREA), volume("data", blank(INNER))), volumes(begun="filesystem", finished=True), []
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arrays", "made", "paths"), VOLUMES.values(), ids=VOLUMES)
def test_a_group_with_a_volume_for_swap(arrays: tuple[Assembled, ...], made: DiskSet, paths: list[str]) -> None:
    found = planned(group(*arrays), made, **LVM)
    assert written(found) == paths
    assert bool(refusals(found)) is not bool(paths)


def test_the_missing_volume_is_made_and_nothing_else() -> None:
    (argv,) = argvs(planned(group(volume("swap", blank(SWAP))), volumes(), **LVM))
    assert argv == ("sh", "-c", COMPLETE, "lvm", GROUP, "data", "2", "512k")


@pytest.mark.parametrize("begun", ["filesystem", "array"])
@pytest.mark.parametrize("there", ["swap", "data"])
def test_a_volume_that_is_not_active_is_activated(there: str, begun: str) -> None:
    """LVM's own activation at boot may not be complete."""
    content = SWAP_AREA if there == "swap" else EXT4
    made = planned(group(volume(there, content)), volumes(begun=begun, finished=begun == "filesystem"), **LVM)
    assert ("vgchange", "--quiet", "--activate", "y", GROUP) in argvs(made)
    assert not on_devices(made)
    assert not refusals(made)


def test_a_swap_volume_that_was_removed_is_not_activated_for_ever() -> None:
    disks, arrays = group(volume("data", EXT4), volumes=("data",))
    made = plan(facts(*disks, assembled=arrays), volumes(begun="filesystem", finished=True), **LVM)
    assert not any(argv[0] == "vgchange" for argv in argvs(made))
    assert "mount of /mnt" in [step.name for step in steps(made)]
    assert "no logical volume swap any more" in cautions(made)["swap on the local NVMe disks"]
    assert not refusals(made)


@pytest.mark.parametrize("volumes_left", [("swap",), ("swap", "data")])
def test_a_data_volume_that_was_removed_is_not_activated_for_ever(volumes_left: tuple[str, ...]) -> None:
    disks, arrays = group(volume("swap", SWAP_AREA), volumes=volumes_left)
    made = plan(facts(*disks, assembled=arrays), volumes(begun="filesystem", finished=True), **LVM)
    activated = any(argv[0] == "vgchange" for argv in argvs(made))
    assert activated is ("data" in volumes_left)
    assert not on_devices(made)


@pytest.mark.parametrize("use", [{"mounts": ("/data",)}, {"busy": "dm-7 consists of it"}], ids=str)
def test_a_swap_volume_in_use_is_left_alone(use: dict[str, Any]) -> None:
    made = planned(group(volume("swap", blank(SWAP), **use), volume("data", blank(INNER))), volumes(), **LVM)
    assert written(made) == ["/dev/dm-1"]
    assert [item.why for item in refusals(made)] == [
        "left alone: /dev/dm-0 is mounted at /data" if "mounts" in use else "left alone: dm-7 consists of it"
    ]


def test_a_swap_volume_that_holds_something_else_is_left_alone() -> None:
    foreign = holding(sign("ext4", FRESH[6]), size=SWAP)
    made = planned(group(volume("swap", foreign), volume("data", blank(INNER))), volumes(), **LVM)
    assert written(made) == ["/dev/dm-1"]
    assert not any(argv[0] == "swapon" for argv in argvs(made))
    assert refusals(made)


# ---- what is finished


@pytest.mark.parametrize(("table", "ours"), [(FRESH[2], True), (FRESH[6], False)])
def test_the_table_of_the_array_shows_through_at_the_end_of_its_last_disk(table: str, ours: bool) -> None:
    last = holding(sign("md", FRESH[0]), sign("gpt", table, offset=SIZE - 512))
    made = plan(facts(nvme(0, MD), nvme(1, last)), cut(begun="filesystem", finished=True), table="gpt")
    assert bool(argvs(made)) is ours
    made = plan(facts(nvme(0, MD), nvme(1, holding(sign("gpt", FRESH[2])))), cut(finished=True), table="gpt")
    assert not argvs(made)  # a table and no superblock


def test_a_finished_array_is_mounted_and_its_swap_is_used() -> None:
    parts = partition(1, SWAP_AREA), partition(2, EXT4)
    made = planned(raid(GPT_OF_TWO, *parts), beside(begun="filesystem", finished=True), **ASKED)
    assert not on_devices(made)
    assert not refusals(made)
    assert "mount of /mnt" in [step.name for step in steps(made)]
    assert argvs(made)[-1] == ("swapon", "/dev/md127p1")
    assert satisfied(made)["file system on the local NVMe disks"].startswith("/dev/md127p2 holds ext4")


def test_finished_volumes_are_mounted_and_used_as_swap() -> None:
    arrays = volume("swap", SWAP_AREA), volume("data", EXT4)
    made = planned(group(*arrays), volumes(begun="filesystem", finished=True), **LVM)
    assert not on_devices(made)
    assert not refusals(made)
    assert argvs(made)[-1] == ("swapon", "/dev/dm-0")


def test_swap_in_use_is_as_asked() -> None:
    disks, arrays = group(volume("swap", SWAP_AREA, busy="swap"), volume("data", EXT4))
    found = facts(*(replace(disk, swaps=("/dev/dm-0",)) for disk in disks), assembled=arrays)
    made = plan(found, volumes(begun="filesystem", finished=True), **LVM)
    assert not any(argv[0] in ("swapon", "mkswap") for argv in argvs(made))
    assert any(isinstance(item, Satisfied) and item.name == "swap on the local NVMe disks" for item in made)


def test_the_status_of_a_partitioned_array() -> None:
    used = {"mounts": ("/mnt",), "busy": "mounted"}
    parts = partition(1, SWAP_AREA), partition(2, EXT4, **used)
    disks, arrays = raid(GPT_OF_TWO, *parts, **used)
    rows = {row.name: row for row in disk_status(facts(*disks, assembled=arrays), (beside(),), ())}
    assert (rows["md127"].what, rows["md127"].mounts) == ("array", ())
    assert (rows["md127p2"].what, rows["md127p2"].mounts) == ("partition 2 of md127", ("/mnt",))
    assert (rows["md127p1"].filesystem, rows["md127p1"].members) == ("swap", ())
