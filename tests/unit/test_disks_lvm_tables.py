"""LVM on partitions: each disk has a partition table, and the physical volumes are its partitions."""

from __future__ import annotations

from typing import Any

import pytest

from azureinit.backends.array import STRIPED
from azureinit.backends.filesystem import CLEAR_PARTITIONS, TABLE, WIPE
from azureinit.facts.disk_content import Content
from azureinit.facts.temporary_disks import Assembled, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet, parse_disk_sets
from azureinit.plan.actions import Write
from azureinit.plan.disk_status import disk_status
from azureinit.plan.disks import refusals
from azureinit.record import replace
from support.disk_cases import (
    FRESH,
    MIB,
    SETS_PATH,
    SIZE,
    TOOLS,
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
    part,
    plan,
    recorded,
    satisfied,
    sign,
    step_named,
    steps,
)

ASKED: dict[str, Any] = {"aggregation": "lvm", "table": "gpt"}
BESIDE: dict[str, Any] = {**ASKED, "swap": "partition", "swap_mib": 64}
GROUP = "azure-ephemeral-md"
LINUX_LVM = "E6D6D379-F507-44C2-A23C-238F2A3DF928"
INNER, SWAP = SIZE - 2 * MIB, 64 * MIB
EXT4 = sign("ext4", FRESH[1], "AzureEphmDsk")
BYTES = holding(size=INNER)


def made_set(**more: Any) -> DiskSet:
    values = {
        "aggregation": "lvm", "table": "gpt", "table_uuid": FRESH[2], "partition_uuid": FRESH[3], "begun": "table",
    }  # fmt: skip
    return recorded(nvme(0), nvme(1), **{**values, **more})


def numbered(uuid: str, number: int) -> str:
    return f"{uuid[:-2]}0{number}"


def table(number: int, **more: Any) -> Content:
    values = {"uuid": numbered(FRESH[2], number), "partitions": (numbered(FRESH[3], number),), **more}
    copy = sign("gpt", values["uuid"], offset=SIZE - 512, partitions=values["partitions"])
    return holding(sign("gpt", values["uuid"], offset=512, partitions=values["partitions"]), copy)


def physical(
    number: int, *, group: str = GROUP, of: int | None = None, volumes: tuple[str, ...] | None = None
) -> Content:
    uuid = f"111100-0000-0040-0080-0000-0000-00000{number if of is None else of}"
    return holding(sign("lvm2", uuid, group, volumes=volumes), size=INNER)


def cut(number: int, inner: Content | None, content: Content | None = None, **more: Any) -> TemporaryDisk:
    name = f"nvme{number}n1"
    return nvme(number, content or table(number), partitions=(part(name, 1, inner),), **more)


def volume(name: str, content: Content, **more: Any) -> Assembled:
    number = 0 if name == "swap" else 1
    made = array(nvme(0), nvme(1), content=content, name=f"dm-{number}", path=f"/dev/dm-{number}", **more)
    return replace(made, mapped=f"azure--ephemeral--md-{name}", uuid=f"LVM-{name}", size=content.size)


def running(*volumes: Assembled) -> tuple[TemporaryDisk, ...]:
    names = tuple(one.name for one in volumes)
    disks = (cut(number, physical(number)) for number in range(2))
    return tuple(held(disk, disk.content or blank(), holders=names) for disk in disks)


def written(made: Any) -> list[tuple[str, ...]]:
    return [tuple(device.path for device in one.devices) for one in on_devices(made)]


# ---- what is made


def test_each_disk_gets_a_table_of_its_own_and_its_uuids_are_recorded_first() -> None:
    made = plan(facts(nvme(0), nvme(1)), **ASKED)
    write = next(one for one in actions(made) if isinstance(one, Write) and one.path == SETS_PATH)
    assert actions(made).index(write) < actions(made).index(on_devices(made)[0])
    (one,) = parse_disk_sets(data_of(write))
    assert (one.aggregation, one.table, one.begun, one.name) == ("lvm", "gpt", "", GROUP)
    assert argvs(made) == [
        (
            "sh", "-c", TABLE, "sfdisk", f"/dev/nvme{number}n1", "label: gpt",
            f"label-id: {numbered(one.table_uuid, number)}",
            f"type={LINUX_LVM}, uuid={numbered(one.partition_uuid, number)}",
        )
        for number in range(2)
    ]  # fmt: skip
    assert len({one.table_uuid, one.partition_uuid, one.array_uuid, one.filesystem_uuid}) == 4
    assert not cautions(made)
    assert steps(made)[-1].why.endswith("; the striped logical volume is made of the partitions next")


def test_all_disks_are_examined_before_the_first_write_and_each_before_its_own() -> None:
    made = plan(facts(nvme(0), nvme(1), nvme(2)), **ASKED)
    everything = tuple(f"/dev/nvme{number}n1" for number in range(3))
    assert written(made) == [everything, everything[1:2], everything[2:]]
    marks = [one.mark for one in on_devices(made)]
    assert marks[0] is not None
    assert parse_disk_sets(data_of(marks[0]))[0].begun == "table"
    assert on_devices(made)[0].unmark is not None
    assert [(one.mark, one.unmark) for one in on_devices(made)[1:]] == [(None, None)] * 2


def test_the_volumes_are_made_on_the_partitions() -> None:
    made = plan(facts(cut(0, blank(INNER)), cut(1, blank(INNER))), made_set(), **ASKED)
    assert written(made) == [("/dev/nvme0n1p1", "/dev/nvme1n1p1")]
    (argv,) = argvs(made)
    assert argv[2] == STRIPED
    assert argv[4:10] == (GROUP, "data", "512k", "", "swap", "0")
    assert argv[11::2] == ("/dev/nvme0n1p1", "/dev/nvme1n1p1")
    mark = on_devices(made)[0].mark
    assert mark is not None
    assert parse_disk_sets(data_of(mark))[0].begun == "array"


def test_a_swap_volume_lies_on_the_partitions_too() -> None:
    made = plan(facts(nvme(0), nvme(1)), **BESIDE)
    (one,) = parse_disk_sets(data_of(next(a for a in actions(made) if isinstance(a, Write))))
    assert (one.swap_mib, bool(one.swap_uuid), one.swap_partition_uuid) == (64, True, "")
    volumes = volume("swap", blank(SWAP)), volume("data", blank(INNER))
    again = made_set(begun="array", swap_mib=64, swap_uuid=FRESH[4])
    made = plan(facts(*running(*volumes), assembled=volumes), again, **BESIDE)
    assert written(made) == [("/dev/dm-0",), ("/dev/dm-1",)]
    assert argvs(made)[-1] == ("swapon", "/dev/dm-0")


def test_one_disk_needs_no_volume_group() -> None:
    made = plan(facts(nvme(0)), **ASKED)
    assert argvs(made)[0][4] == "/dev/nvme0n1"
    assert LINUX_LVM not in argvs(made)[0][-1]


@pytest.mark.parametrize("tool", ["sfdisk", "vgcreate"])
def test_a_tool_that_is_missing_is_named_before_anything_is_written(tool: str) -> None:
    made = plan(facts(nvme(0), nvme(1), tools=TOOLS - {tool}), **ASKED)
    assert not on_devices(made)
    assert any(tool in item.why for item in refusals(made))


def test_tables_take_room_from_the_swap_volume() -> None:
    most = next(size for size in range(2 * SIZE // MIB, 0, -1) if on_devices(_asked_for(size, "none")))
    assert not on_devices(_asked_for(most, "gpt"))
    assert on_devices(_asked_for(most - 8, "gpt"))


def _asked_for(mib: int, kind: str) -> Any:
    return plan(facts(nvme(0), nvme(1)), **{**BESIDE, "swap_mib": mib, "table": kind})


def test_recreate_wipes_each_disk_before_its_own_table() -> None:
    foreign = holding(sign("xfs", FRESH[6]))
    found = facts(nvme(0), nvme(1, foreign))
    assert not on_devices(plan(found, **ASKED))
    first, second = on_devices(plan(found, recreate=True, **ASKED))
    assert first.run.argv[2:5] == (CLEAR_PARTITIONS, "sfdisk", "/dev/nvme0n1")
    assert second.run.argv[2:7] == (WIPE, "wipefs", "/dev/nvme1n1", str(SIZE), "--")
    assert second.run.argv[9] == CLEAR_PARTITIONS
    assert TABLE in first.run.argv and TABLE in second.run.argv


# ---- what was interrupted

END = holding(nonzero=SIZE - 33 * 512)  # the entries of the copy, without its header
MIDDLE = holding(nonzero=SIZE // 2)
BEGUN: dict[str, tuple[TemporaryDisk, TemporaryDisk, DiskSet, list[tuple[str, ...]]]] = {
    "killed before the first table": (nvme(0, END), nvme(1), made_set(), [("0", "1"), ("1",)]),
    "killed between the tables": (cut(0, blank(INNER)), nvme(1), made_set(), [("1",)]),
    "killed inside the second table": (cut(0, blank(INNER)), nvme(1, END), made_set(), [("1",)]),
    "a table, no partition yet": (cut(0, blank(INNER)), nvme(1, table(1)), made_set(), [("1",)]),
    "data in the middle of the second disk": (cut(0, blank(INNER)), nvme(1, MIDDLE), made_set(), []),
    "the same, over data": (cut(0, blank(INNER)), nvme(1, MIDDLE), made_set(over="data"), [("1",)]),
    "a file system on the second disk": (cut(0, blank(INNER)), nvme(1, holding(sign("xfs", FRESH[6]))), made_set(), []),
    "data in the first partition": (cut(0, BYTES), nvme(1), made_set(), []),
    "the first disk's table on the second": (cut(0, blank(INNER)), cut(1, blank(INNER), table(0)), made_set(), []),
    "a table of others": (
        cut(0, blank(INNER)), cut(1, blank(INNER), table(1, uuid=FRESH[6])), made_set(), []
    ),
    "a partition of others": (
        cut(0, blank(INNER)), cut(1, blank(INNER), table(1, partitions=(FRESH[6],))), made_set(), []
    ),
    "the second disk is in use": (cut(0, blank(INNER)), nvme(1, busy="claimed"), made_set(), []),
    "both tables": (cut(0, blank(INNER)), cut(1, blank(INNER)), made_set(), [("0p1", "1p1")]),
    "both tables, over data": (cut(0, BYTES), cut(1, blank(INNER)), made_set(over="data"), [("0p1", "1p1")]),
    "nothing of LVM yet": (cut(0, blank(INNER)), cut(1, blank(INNER)), made_set(begun="array"), [("0p1", "1p1")]),
    "one physical volume": (
        cut(0, physical(0, group="")), cut(1, blank(INNER)), made_set(begun="array"), [("0p1", "1p1")]
    ),
    "both physical volumes": (
        cut(0, physical(0, group="")), cut(1, physical(1, group="")), made_set(begun="array"), [("0p1", "1p1")]
    ),
    "a group without volumes": (
        cut(0, physical(0, volumes=())), cut(1, physical(1, volumes=())), made_set(begun="array"), [("0p1", "1p1")]
    ),
    "one physical volume of a group with unknown volumes": (
        cut(0, physical(0)), cut(1, blank(INNER)), made_set(begun="array"), []
    ),
    "physical volumes in another order": (
        cut(0, physical(1, group="")), cut(1, physical(0, group="")), made_set(begun="array"), []
    ),
    "in another group": (cut(0, physical(0, group="data")), cut(1, blank(INNER)), made_set(begun="array"), []),
    "physical volumes before their time": (cut(0, physical(0)), cut(1, blank(INNER)), made_set(), []),
    "no partition, and LVM had begun": (cut(0, blank(INNER)), nvme(1, table(1)), made_set(begun="array"), []),
    "of another VM": (cut(0, blank(INNER)), cut(1, blank(INNER)), made_set(vm_id="another"), []),
    "finished": (cut(0, blank(INNER)), cut(1, blank(INNER)), made_set(begun="filesystem", finished=True), []),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "made", "paths"), BEGUN.values(), ids=BEGUN)
def test_what_was_interrupted(
    first: TemporaryDisk, second: TemporaryDisk, made: DiskSet, paths: list[tuple[str, ...]]
) -> None:
    found = plan(facts(first, second), made, **ASKED)
    named = {"0": "/dev/nvme0n1", "1": "/dev/nvme1n1", "0p1": "/dev/nvme0n1p1", "1p1": "/dev/nvme1n1p1"}
    assert written(found) == [tuple(named[one] for one in group) for group in paths]
    assert bool(refusals(found)) is not bool(paths)


def test_only_the_missing_table_is_written_with_its_own_uuids() -> None:
    found = plan(facts(cut(0, blank(INNER)), nvme(1)), made_set(), **ASKED)
    (argv,) = argvs(found)
    assert argv[4:] == (
        "/dev/nvme1n1", "label: gpt", f"label-id: {numbered(FRESH[2], 1)}",
        f"type={LINUX_LVM}, uuid={numbered(FRESH[3], 1)}",
    )  # fmt: skip
    assert step_named(found, "partition tables of the local NVMe disks").why.startswith("it is unfinished work")


def test_blank_disks_are_a_new_set_whatever_was_recorded() -> None:
    for begun in ("table", "array", "filesystem"):
        made = plan(facts(nvme(0), nvme(1)), made_set(begun=begun, finished=begun == "filesystem"), **ASKED)
        assert steps(made)[0].name == "record of the local NVMe disks"
        assert numbered(FRESH[2], 0) not in argvs(made)[0][6]


# ---- the group is complete


@pytest.mark.parametrize(
    ("begun", "finished", "volumes"),
    [
        ("filesystem", False, None),
        ("filesystem", True, None),
        ("filesystem", True, (("data",), ("data",))),
        ("array", False, (("data",), ("data",))),
        ("array", False, (("data",), ())),
    ],
)
def test_a_group_that_is_not_active_is_activated(
    begun: str, finished: bool, volumes: tuple[tuple[str, ...], ...] | None
) -> None:
    """Also one that was interrupted: an operator may have made a file system on its volume."""
    first, second = volumes if volumes is not None else (None, None)
    disks = cut(0, physical(0, volumes=first)), cut(1, physical(1, volumes=second))
    made = plan(facts(*disks), made_set(begun=begun, finished=finished), **ASKED)
    assert argvs(made) == [("vgchange", "--quiet", "--activate", "y", GROUP)]


@pytest.mark.parametrize("volumes", [(), ("other",)])
def test_a_finished_group_without_its_volume_is_left_alone(volumes: tuple[str, ...]) -> None:
    disks = cut(0, physical(0, volumes=volumes)), cut(1, physical(1, volumes=volumes))
    made = plan(facts(*disks), made_set(begun="filesystem", finished=True), **ASKED)
    assert not steps(made)
    assert "lvm2" in cautions(made)["/dev/nvme0n1"]


@pytest.mark.parametrize(
    ("content", "begun", "paths"),
    [
        (blank(INNER), "array", [("/dev/dm-1",)]),
        (BYTES, "filesystem", [("/dev/dm-1",)]),
        (BYTES, "array", []),
        (blank(INNER), "table", []),
        (holding(sign("xfs", FRESH[6]), size=INNER), "filesystem", []),
    ],
)
def test_the_file_system_on_the_volume(content: Content, begun: str, paths: list[tuple[str, ...]]) -> None:
    data = volume("data", content)
    made = plan(facts(*running(data), assembled=(data,)), made_set(begun=begun), **ASKED)
    assert written(made) == paths
    assert bool(refusals(made)) is not bool(paths)


def test_a_finished_volume_is_mounted_and_nothing_is_written() -> None:
    data = volume("data", holding(EXT4, size=INNER))
    made = plan(facts(*running(data), assembled=(data,)), made_set(begun="filesystem", finished=True), **ASKED)
    assert not on_devices(made)
    assert not refusals(made)
    assert "mount of /mnt" in [step.name for step in steps(made)]
    assert satisfied(made)["file system on the local NVMe disks"].startswith("/dev/dm-1 holds ext4")


def test_the_status_shows_disk_partition_and_volume() -> None:
    data = volume("data", holding(EXT4, size=INNER), mounts=("/mnt",), busy="mounted")
    disks = tuple(replace(disk, mounts=("/mnt",)) for disk in running(data))
    rows = {row.name: row for row in disk_status(facts(*disks, assembled=(data,)), (made_set(),), ())}
    assert [rows[name].filesystem for name in ("nvme0n1", "nvme0n1p1", "dm-1")] == ["gpt", "lvm2", "ext4"]
    assert (rows["nvme0n1p1"].label, rows["nvme0n1p1"].owner) == (GROUP, "azure-init")
    assert (rows["dm-1"].mounts, rows["nvme0n1"].mounts, rows["nvme0n1p1"].mounts) == (("/mnt",), (), ())
    assert rows["dm-1"].members == ("nvme0n1", "nvme1n1")
