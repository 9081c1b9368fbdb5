"""disk_setup and fs_setup: which device gets what, and what is never written to."""

from __future__ import annotations

import random

import pytest

from azureinit.modules.disk_setup import is_asked, named_paths, plan_disk_setup
from azureinit.modules.request import Request
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.record import replace
from support.disk_cases import blank, holding, sign
from support.module_runs import request_of
from support.named_disks import SIZE, command, disk, facts, kinds, part, refusals, writes_to

LINUX, LVM = "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "E6D6D379-F507-44C2-A23C-238F2A3DF928"
TABLE = "disk_setup:\n  /dev/sdc:\n    table_type: {table}\n    layout: {layout}\n    overwrite: {overwrite}\n"


def asked(text: str) -> Request:
    return request_of(text, rooted=False)


def table(layout: str = "true", *, kind: str = "gpt", overwrite: bool = False) -> Request:
    return asked(TABLE.format(table=kind, layout=layout, overwrite=str(overwrite).lower()))


def system(**fields: object) -> Request:
    rows = "".join(f"  {key}: {value}\n" for key, value in fields.items())
    return asked(f"fs_setup:\n- device: /dev/sdc\n{rows}")


@pytest.mark.parametrize(
    ("layout", "kind", "lines"),
    [
        ("true", "gpt", "label: gpt type=0FC63DAF-8483-4772-8E79-3D69D8477DE4"),
        ("true", "mbr", "label: dos type=83"),
        ("[50, [50, 82]]", "mbr", "label: dos size=10485760, type=83 type=82"),
        ("[25, [25, 8e00], 50]", "gpt", f"label: gpt size=5242880, type={LINUX} size=5242880, type={LVM} type={LINUX}"),
    ],
)  # fmt: skip
def test_a_blank_disk_gets_the_table(layout: str, kind: str, lines: str) -> None:
    (step,) = plan_disk_setup(table(layout, kind=kind), facts(disk()))
    assert command(step).endswith(f"sfdisk /dev/sdc {lines}")
    assert step.name == "disk_setup /dev/sdc (line 3)"


@pytest.mark.parametrize(
    ("layout", "kind", "why"),
    [
        ("[20, 20, 20, 20, 20]", "mbr", "at most 4"),
        ("[50, 50, 10]", "gpt", "take the whole disk"),
        ("[0, 50]", "gpt", "no percentage"),
        ("[[50, linux], 50]", "gpt", "type is not known"),
        ("[-5, 50]", "mbr", "no percentage"),
    ],
)
def test_a_layout_that_cannot_be(layout: str, kind: str, why: str) -> None:
    plan = plan_disk_setup(table(layout, kind=kind, overwrite=True), facts(disk()))
    assert why in refusals(plan)[0]
    assert not writes_to(plan)


def test_a_table_that_is_there_counts_also_with_overwrite() -> None:
    done = disk(holding(sign("gpt"), size=SIZE), partitions=(part(1), part(2)), busy="it is mounted at /data")
    for overwrite in (False, True):
        assert kinds(plan_disk_setup(table("[50, 50]", overwrite=overwrite), facts(done))) == ["Satisfied"]
    assert kinds(plan_disk_setup(table("[30, 30, 40]"), facts(replace(done, busy="")))) == ["Caution"]


def test_overwrite_counts_for_a_free_data_disk_only() -> None:
    used = disk(holding(sign("ext4", label="old"), size=SIZE))
    (left,) = plan_disk_setup(table(), facts(used))
    assert isinstance(left, Caution) and "ext4 labelled old" in left.why
    (step,) = plan_disk_setup(table(overwrite=True), facts(used))
    assert "wipefs" in command(step) and "ext4 labelled old" in step.why
    for change in ({"system": "/ lies on it"}, {"busy": "it is mounted at /srv"}, {"temporary": True},
                   {"read_only": True}, {"trouble": "an error"}, {"content": None}):  # fmt: skip
        plan = plan_disk_setup(table(overwrite=True), facts(replace(used, **change)))
        assert refusals(plan) and not writes_to(plan), change


def test_removing_a_table() -> None:
    full = disk(holding(sign("dos"), size=SIZE), partitions=(part(1), part(2)))
    assert kinds(plan_disk_setup(table("remove"), facts(full))) == ["Caution"]
    (step,) = plan_disk_setup(table("remove", overwrite=True), facts(full))
    assert command(step).endswith("wipefs /dev/sdc1 /dev/sdc2 /dev/sdc")
    assert kinds(plan_disk_setup(table("remove", overwrite=True), facts(disk()))) == ["Satisfied"]
    os_disk = replace(full, system="/ lies on it")
    assert not writes_to(plan_disk_setup(table("remove", overwrite=True), facts(os_disk)))


def test_the_file_system_follows_its_partition() -> None:
    both = asked(
        "disk_setup: {/dev/sdc: {table_type: gpt, layout: [100]}}\n"
        "fs_setup: [{device: /dev/sdc, partition: 1, filesystem: ext4, label: data}]\n"
    )
    first = plan_disk_setup(both, facts(disk()))
    assert kinds(first) == ["Step", "Satisfied"]
    parted = disk(holding(sign("gpt"), size=SIZE), partitions=(part(1),))
    second = plan_disk_setup(both, facts(parted))
    assert kinds(second) == ["Satisfied", "Step"]
    assert command(second[1]).startswith("mkfs.ext4 -q -E nodiscard -U ")
    assert command(second[1]).endswith("-L data /dev/sdc1")
    assert writes_to(second) == {"/dev/sdc1"}
    made = replace(parted, partitions=(part(1, holding(sign("ext4", label="data"))),), busy="it is mounted at /data")
    assert kinds(plan_disk_setup(both, facts(made))) == ["Satisfied", "Satisfied"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"filesystem": "xfs", "partition": "none"}, "/dev/sdc"),
        ({"filesystem": "xfs", "partition": "auto"}, "/dev/sdc"),
        ({"filesystem": "ext3", "label": "a"}, "/dev/sdc"),
        ({"filesystem": "swap"}, "/dev/sdc"),
        ({"filesystem": "vfat", "label": "A"}, "/dev/sdc"),
    ],
)
def test_a_blank_disk_without_a_table(fields: dict[str, object], expected: str) -> None:
    plan = plan_disk_setup(system(**fields), facts(disk()))
    assert command(plan[0]).endswith(expected)


def test_any_takes_the_first_partition_without_a_file_system() -> None:
    own = disk(holding(sign("gpt"), size=SIZE), partitions=(part(1, holding(sign("xfs", label="x"))), part(2)))
    assert writes_to(plan_disk_setup(system(filesystem="ext4", partition="any"), facts(own))) == {"/dev/sdc2"}
    assert kinds(plan_disk_setup(system(filesystem="xfs", partition="any"), facts(own))) == ["Satisfied"]
    assert writes_to(plan_disk_setup(system(filesystem="xfs", partition="auto"), facts(own))) == {"/dev/sdc2"}
    replaces = system(filesystem="ext4", partition="any", replace_fs="xfs")
    assert writes_to(plan_disk_setup(replaces, facts(own))) == {"/dev/sdc1"}


def test_several_partitions_in_one_plan() -> None:
    own = disk(holding(sign("gpt"), size=SIZE), partitions=(part(1), part(2), part(3)))
    rows = "- {device: sdc, filesystem: ext4, label: a, partition: auto}\n- {device: /dev/sdc.3, filesystem: xfs}\n"
    request = asked(f"fs_setup:\n{rows}- {{device: /dev/sdc, filesystem: ext4, label: b, partition: auto}}\n")
    plan = plan_disk_setup(request, facts(own))
    assert [command(step)[-9:] for step in plan] == ["/dev/sdc1", "/dev/sdc3", "/dev/sdc2"]


def test_data_without_a_file_system_is_left_alone() -> None:
    raw = disk(holding(size=SIZE))
    assert kinds(plan_disk_setup(system(filesystem="ext4"), facts(raw))) == ["Caution"]
    (step,) = plan_disk_setup(system(filesystem="ext4", overwrite="true"), facts(raw))
    assert "-F" in command(step) and "wipefs" in command(step)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"filesystem": "zfs"}, "cannot be made"),
        ({"filesystem": "btrfs"}, "mkfs.btrfs is not installed"),
        ({"filesystem": "xfs", "label": "longer-than-12"}, "12 bytes"),
        ({"filesystem": "ext4", "label": "-F"}, "hyphen"),
        ({"filesystem": "ext4", "partition": "7"}, "no partition 7"),
        ({"label": "x"}, "neither filesystem nor cmd"),
    ],
)
def test_a_file_system_that_cannot_be(fields: dict[str, object], why: str) -> None:
    plan = plan_disk_setup(system(**fields), facts(disk()))
    assert why in refusals(plan)[0]


def test_a_command_gets_the_device() -> None:
    text = "mkfs -t %(filesystem)s -L %(label)s -m 100%% %(device)s"
    (step,) = plan_disk_setup(system(filesystem="ext4", label="d", cmd=text), facts(disk()))
    assert command(step) == "sh -c mkfs -t ext4 -L d -m 100% /dev/sdc"
    made = disk(holding(sign("zfs"), size=SIZE))
    assert kinds(plan_disk_setup(system(cmd=text), facts(made))) == ["Satisfied"]


def test_a_device_that_is_not_there_fails_after_the_rest() -> None:
    both = asked("fs_setup:\n- {device: /dev/sdx, filesystem: ext4}\n- {device: /dev/sdc, filesystem: ext4}\n")
    plan = plan_disk_setup(both, facts(disk()))
    assert [type(item) for item in plan] == [Caution, Step]
    done = plan_disk_setup(both, facts(disk(holding(sign("ext4"), size=SIZE))))
    assert "/dev/sdx is not there" in refusals(done)[0]


def test_aliases_and_partitions_by_name() -> None:
    request = asked(
        "device_aliases: {data: /dev/disk/azure/data/by-lun/0}\nfs_setup: [{device: data.1, filesystem: ext4}]\n"
    )
    assert named_paths(request)[0] == "/dev/disk/azure/data/by-lun/0"
    own = disk(holding(sign("gpt"), size=SIZE), partitions=(part(1), part(2)))
    known = facts(own, names=(("/dev/disk/azure/data/by-lun/0", "/dev/sdc"),))
    assert writes_to(plan_disk_setup(request, known)) == {"/dev/sdc1"}


def test_temporary_disks_are_not_its_own() -> None:
    request = asked("disk_setup: {ephemeral0: {layout: true}}\nfs_setup: [{device: ephemeral0.1, filesystem: ext4}]\n")
    assert not is_asked(request)


def test_nothing_is_written_under_a_root() -> None:
    plan = plan_disk_setup(request_of(TABLE.format(table="gpt", layout="true", overwrite="true")), facts())
    assert kinds(plan) == ["Caution"]


def test_random_documents_never_write_to_what_is_protected() -> None:
    """Whatever the document says: only free data disks, and without overwrite only blank devices."""
    seed = random.Random(15)
    contents = [blank(SIZE), holding(size=SIZE), holding(sign("gpt"), size=SIZE), holding(sign("ext4"), size=SIZE)]
    protections: list[dict[str, object]] = [
        {}, {}, {}, {"system": "/ lies on it"}, {"busy": "mounted"}, {"temporary": True}, {"trouble": "x"},
        {"read_only": True},
    ]  # fmt: skip
    seen = 0
    for _ in range(150):
        overwrite = seed.random() < 0.5
        inner = [blank(SIZE // 2), holding(sign("xfs")), holding()]
        parts = tuple(part(at + 1, seed.choice(inner)) for at in range(seed.randint(0, 3)))
        change = seed.choice(protections)
        own = replace(disk(seed.choice(contents), partitions=parts), **change)
        device = seed.choice(["/dev/sdc", "/dev/sdc1", "/dev/sdc.2", "sdc", "/dev/sdq", "ebs1"])
        layout = seed.choice(["true", "false", "remove", "[100]", "[50, [50, 82]]", "[]", "[1, 2, 3, 4, 5]"])
        lines = ["disk_setup:", f"  {device}: {{layout: {layout}, overwrite: {str(overwrite).lower()}}}", "fs_setup:"]
        for _number in range(seed.randint(1, 3)):
            kind = seed.choice(["ext4", "xfs", "swap", "vfat", "nonsense"])
            where = seed.choice(["1", "2", "9", "auto", "any", "none"])
            lines.append(
                f"- {{device: {device}, filesystem: {kind}, partition: {where}, overwrite: {str(overwrite).lower()}}}"
            )
        plan = plan_disk_setup(asked("\n".join(lines)), facts(own))
        written = writes_to(plan)
        seen += bool(written)
        assert not written or not change
        if not overwrite:
            empty = {one.path for one in own.partitions if one.content is not None and one.content.blank}
            empty |= {own.path} if not own.partitions and own.content is not None and own.content.blank else set()
            assert written <= empty
        assert all(isinstance(item, (Step, Satisfied, Caution)) for item in plan)
    assert seen > 12
