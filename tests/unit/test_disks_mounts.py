"""Mount points, /etc/fstab, mounts and swap of temporary disks."""

from __future__ import annotations

from typing import Any

import pytest

from azureinit.backends.mount import mount_unit
from azureinit.facts.temporary_disks import DiskFacts, FstabEntry, MountPoint
from azureinit.plan.actions import Declined, Remove, Run, Satisfied, Way, Write
from azureinit.plan.disks import refusals
from support.disk_cases import (
    EMPTY_FSTAB,
    FRESH,
    LINE,
    MIB,
    SIZE,
    TOOLS,
    actions,
    argvs,
    blank,
    cautions,
    data_of,
    facts,
    holding,
    mounted,
    nvme,
    on_devices,
    part,
    plan,
    recorded,
    scsi,
    sign,
    step_named,
    steps,
)

OURS = "defaults,nofail,comment=azure-ephemeral-disk-setup"
CLOUD_INIT = "defaults,nofail,x-systemd.requires=cloud-init.service,_netdev,comment=cloudconfig"


def entry(line: str) -> FstabEntry:
    source, point, kind, options, *_ = line.split()
    return FstabEntry(line=line, source=source, point=point, filesystem=kind, options=options)


def with_fstab(text: str) -> dict[str, Any]:
    lines = [line for line in text.split("\n") if len(line.split()) > 3 and not line.startswith("#")]
    return {"fstab": text.encode(), "entries": tuple(map(entry, lines))}


def written(found: DiskFacts, **settings: Any) -> bytes | None:
    writes = [one for one in actions(plan(found, **settings)) if isinstance(one, Write) and one.path == "/etc/fstab"]
    assert all(write.was == found.fstab for write in writes)
    return data_of(writes[0]) if writes else None


# ---- fstab


def test_the_entry_is_byte_for_byte_that_of_azure_vm_utils() -> None:
    assert LINE == "LABEL=AzureEphmDsk /mnt ext4 defaults,nofail,comment=azure-ephemeral-disk-setup 0 2"
    assert written(facts(nvme())) == EMPTY_FSTAB + LINE.encode() + b"\n"


FSTABS: dict[str, tuple[str, str | None]] = {
    "as wanted": (f"# a\n{LINE}\n/dev/x /x ext4 ro 0 0\n", None),
    "no newline at the end": ("/dev/x /x ext4 ro 0 0", f"/dev/x /x ext4 ro 0 0\n{LINE}\n"),
    "empty": ("", f"{LINE}\n"),
    "our older line": (
        f"a\tb  c d\nLABEL=AzureEphmDsk /mnt xfs {OURS} 0 2\n#end\n",
        f"a\tb  c d\n#end\n{LINE}\n",
    ),
    "twice": (f"{LINE}\n#x\n{LINE}\n", f"{LINE}\n#x\n"),
    "another mount point of ours": (f"LABEL=AzureEphmDsk /scratch ext4 {OURS} 0 2\n", f"{LINE}\n"),
    "copied for a disk of others": (
        f"LABEL=data /data ext4 {OURS} 0 2\n",
        f"LABEL=data /data ext4 {OURS} 0 2\n{LINE}\n",
    ),
    "the other disk's": (
        f"LABEL=AzureResDisk /mnt/resource ext4 {OURS} 0 2\n",
        f"LABEL=AzureResDisk /mnt/resource ext4 {OURS} 0 2\n{LINE}\n",
    ),
    "carriage returns and Latin-1": ("#\r\n#\xe9\n", f"#\r\n#\xe9\n{LINE}\n"),
}


@pytest.mark.parametrize(("before", "after"), FSTABS.values(), ids=FSTABS)
def test_only_our_own_lines_change(before: str, after: str | None) -> None:
    found = facts(nvme(), **with_fstab(before))
    assert written(found) == (None if after is None else after.encode())


def test_options_without_nofail_and_the_comment_get_them() -> None:
    data = written(facts(nvme()), mount_options="noatime")
    assert data is not None
    assert data.endswith(b" /mnt ext4 noatime,nofail,comment=azure-ephemeral-disk-setup 0 2\n")


def test_the_entry_has_the_label_that_the_file_system_really_has() -> None:
    disk = nvme(0, holding(sign("xfs", FRESH[1], "older")))
    found = facts(disk)
    made = plan(found, recorded(disk, filesystem="xfs", finished=True))
    (write,) = [one for one in actions(made) if isinstance(one, Write) and one.path == "/etc/fstab"]
    assert data_of(write).split(b"\n")[-2] == f"LABEL=older /mnt xfs {OURS} 0 2".encode()


@pytest.mark.parametrize("changes", [{"fstab_writable": False}, {"fstab": None, "fstab_writable": False}], ids=str)
def test_where_fstab_cannot_be_written_a_mount_unit_is(changes: dict[str, Any]) -> None:
    made = plan(facts(nvme(), **changes))
    step = step_named(made, "mount of /mnt")
    ways = [way for way in step.ways if isinstance(way, Way)]
    assert [way.backend for way in ways] == ["/etc/systemd/system", "/run/systemd/system", "mount"]
    (unit,) = [action for action in ways[0].actions if isinstance(action, Write)]
    assert unit.path == "/etc/systemd/system/mnt.mount"
    text = data_of(unit).decode()
    assert f"What=/dev/disk/by-uuid/{FRESH[0]}\nWhere=/mnt\nType=ext4\nOptions={OURS}\n" in text
    assert "WantedBy" not in text
    assert not any(isinstance(one, Write) and one.path == "/etc/fstab" for one in actions(made))


def test_an_unwritable_fstab_that_has_our_entry_is_used() -> None:
    disk = nvme(0, holding(sign("ext4", FRESH[1], "AzureEphmDsk")))
    made = plan(facts(disk, **{**with_fstab(f"{LINE}\n"), "fstab_writable": False}))
    assert [way.backend for way in step_named(made, "mount of /mnt").ways] == ["systemd", "mount"]


def test_without_systemd_mount_does_it() -> None:
    made = plan(facts(nvme(), systemd=False), mount_options="noatime,nofail,x-systemd.automount,comment=x")
    declined, plain = step_named(made, "mount of /mnt").ways
    assert isinstance(declined, Declined)
    assert isinstance(plain, Way)
    assert plain.actions[-1] == Run(
        argv=("mount", "-t", "ext4", "-o", "noatime", "/dev/nvme0n1", "/mnt"), changes=False
    )
    assert not any(argv[0] == "systemctl" for argv in argvs(made))


@pytest.mark.parametrize(
    ("point", "unit"),
    [
        ("/mnt", "mnt.mount"),
        ("/mnt/a-b", "mnt-a\\x2db.mount"),
        ("/.x/y_z", "\\x2ex-y_z.mount"),
        ("/a//b/", "a-b.mount"),
    ],
)
def test_names_of_mount_units(point: str, unit: str) -> None:
    assert mount_unit(point) == unit


# ---- mount points


@pytest.mark.parametrize(
    "state", ["not empty", "a symbolic link", "below a symbolic link", "not a directory", "hidden"]
)
def test_an_unfit_mount_point_is_refused_before_anything_is_formatted(state: str) -> None:
    made = plan(facts(nvme(), points=(MountPoint(path="/mnt", state=state),)))
    assert not steps(made)
    assert refusals(made)[0].name == "refused: mount point /mnt"
    assert cautions(made)["/dev/nvme0n1"].startswith("left alone: the mount point /mnt cannot be used: it ")


def test_a_mount_point_with_something_else_mounted_is_refused() -> None:
    made = plan(facts(nvme(), points=mounted("/dev/sdz1")))
    assert not steps(made)
    assert "/dev/sdz1 is mounted there" in refusals(made)[0].why


def test_a_file_system_of_others_on_our_own_disk_at_the_mount_point_is_refused() -> None:
    disk = nvme(0, holding(sign("ext4", FRESH[6], "scratch")), busy="mounted at /mnt", mounts=("/mnt",))
    made = plan(facts(disk, points=mounted("/dev/nvme0n1")))
    assert not steps(made)
    assert refusals(made)


def test_an_entry_of_others_at_the_mount_point_is_refused() -> None:
    made = plan(facts(nvme(), **with_fstab("UUID=1 /mnt ext4 defaults 0 2\n")))
    assert not steps(made)
    assert "has another entry for it (UUID=1)" in refusals(made)[0].why


def test_the_entry_of_cloud_init_is_an_error_only_where_the_resource_disk_is_asked_for() -> None:
    text = f"/dev/disk/cloud/azure_resource-part1 /mnt auto {CLOUD_INIT} 0 2\n"
    quiet = plan(facts(nvme(), scsi(), **with_fstab(text)))
    assert not steps(quiet)
    assert not refusals(quiet)
    assert "cloud-init has an entry" in cautions(quiet)["mount point /mnt"]
    assert refusals(plan(facts(nvme(), scsi(), **with_fstab(text)), scsi="fallback"))


# ---- owner and notice


def test_the_owner_is_set_on_a_new_file_system_and_corrected_later() -> None:
    assert ("chown", "-h", "--", "web:www", "/mnt") in argvs(plan(facts(nvme()), owner="web:www"))
    disk = nvme(0, holding(sign("ext4", FRESH[1], "AzureEphmDsk")), mounts=("/mnt",), busy="mounted at /mnt")
    found = {"points": mounted("/dev/nvme0n1"), **with_fstab(f"{LINE}\n")}
    assert not any(argv[0] == "chown" for argv in argvs(plan(facts(disk, **found), owner="web:www")))
    assert any(argv[0] == "chown" for argv in argvs(plan(facts(disk, wrong_owner=("/mnt",), **found), owner="web:www")))


def test_the_notice_is_written_once_and_not_followed_through_a_link() -> None:
    (write,) = [one for one in actions(plan(facts(nvme()))) if isinstance(one, Write) and one.path.endswith(".txt")]
    assert (write.path, write.mode, write.beneath) == ("/mnt/DATALOSS_WARNING_README.txt", 0o644, "/mnt")
    assert not any("notice" in step.name for step in steps(plan(facts(nvme()), notice=False)))


def test_a_kept_file_system_gets_its_notice_only_when_it_can_be_seen() -> None:
    disk = nvme(0, holding(sign("ext4", FRESH[1], "AzureEphmDsk")))
    assert not any("notice" in step.name for step in steps(plan(facts(disk))))
    there = facts(disk, points=mounted("/dev/nvme0n1"))
    assert any("notice" in step.name for step in steps(plan(there)))


# ---- swap

DATA = nvme(0, holding(sign("ext4", FRESH[1], "AzureEphmDsk")), mounts=("/mnt",), busy="mounted at /mnt")
AT = {"points": mounted("/dev/nvme0n1"), **with_fstab(f"{LINE}\n"), "notices": ("/mnt/DATALOSS_WARNING_README.txt",)}
FREE = {"free_space": (("/mnt", 50 * MIB),)}


def test_a_swap_file_waits_for_the_mount() -> None:
    assert not any("swap" in step.name for step in steps(plan(facts(nvme()), swap_mib=10)))


def test_a_swap_file_of_exactly_the_size_asked_for() -> None:
    made = plan(facts(DATA, **AT, **FREE), swap_mib=10)
    (step,) = steps(made)
    assert step.why == "10 MiB are asked for, and there is none"
    fill, use, slow, _ = argvs(made)
    assert fill[3:] == ("swapfile", "/mnt/swapfile", str(10 * MIB))
    assert "fallocate" in fill[2]
    assert use == ("swapon", "/mnt/swapfile")
    assert "dd if=/dev/zero" in slow[2]


def test_a_swap_file_on_btrfs_is_not_copied_on_write() -> None:
    disk = nvme(0, holding(sign("btrfs", FRESH[1], "AzureEphmDsk")), mounts=("/mnt",), busy="x")
    fill = argvs(plan(facts(disk, points=mounted("/dev/nvme0n1"), **FREE), swap_mib=10, notice=False))[-2]
    assert "chattr +C" in fill[2]
    assert fill[2].index("chattr +C") < fill[2].index("fallocate")


def test_a_swap_file_needs_free_space() -> None:
    made = plan(facts(DATA, **AT, **FREE), swap_mib=51)
    assert not steps(made)
    assert refusals(made)[0].why == "not made: 51 MiB are asked for, and 50 MiB are free"
    made = plan(facts(DATA, **AT, **FREE, swap_files=(("/mnt/swapfile", 2 * MIB),)), swap_mib=51)
    assert steps(made)


def test_a_swap_file_of_another_size_is_replaced_and_no_other_swap_is_touched() -> None:
    found = facts(
        DATA, **AT, **FREE, swap_files=(("/mnt/swapfile", 5 * MIB),), active_swaps=("/mnt/swapfile", "/dev/zram0")
    )
    made = plan(found, swap_mib=10)
    first = actions(made)[:2]
    assert first[0].argv == ("swapoff", "/mnt/swapfile")
    assert first[1] == Remove(path="/mnt/swapfile")
    assert not any("/dev/zram0" in argv for argv in argvs(made))


@pytest.mark.parametrize("size", [5 * MIB, 10 * MIB])
def test_a_file_with_data_in_the_place_of_the_swap_file_is_left_alone(size: int) -> None:
    path = "/mnt/swapfile"
    made = plan(facts(DATA, **AT, **FREE, swap_files=((path, size),), other_swap_files=(path,)), swap_mib=10)
    assert not steps(made)
    assert refusals(made)[0].why == "left alone: it is not a swap file; remove it, or move it away"


def test_a_swap_file_in_use_is_as_asked_and_an_idle_one_is_used() -> None:
    there = {**AT, **FREE, "swap_files": (("/mnt/swapfile", 10 * MIB),)}
    made = plan(facts(DATA, **there, active_swaps=("/mnt/swapfile",)), swap_mib=10)
    assert all(isinstance(item, Satisfied) for item in made)
    assert argvs(plan(facts(DATA, **there), swap_mib=10))[0] == ("swapon", "/mnt/swapfile")


@pytest.mark.parametrize("settings", [{"nvme": "swap"}, {"nvme": "swap", "swap": "partition", "swap_mib": 5}], ids=str)
def test_a_whole_disk_of_swap(settings: dict[str, Any]) -> None:
    made = plan(facts(nvme(), points=(MountPoint(path="/mnt", state="not empty"),)), **settings)
    assert argvs(made) == [
        ("mkswap", "--uuid", FRESH[0], "--label", "AzureEphmSwap", "/dev/nvme0n1"),
        ("swapon", "/dev/nvme0n1"),
    ]
    assert not any(isinstance(one, Write) and one.path == "/etc/fstab" for one in actions(made))


def test_swap_of_ours_is_used_and_not_made_again() -> None:
    disk = nvme(0, holding(sign("swap", FRESH[1], "AzureEphmSwap")))
    made = plan(facts(disk), recorded(disk, filesystem="swap", purpose="swap", finished=True), nvme="swap")
    assert argvs(made) == [("swapon", "/dev/nvme0n1")]
    busy = nvme(0, holding(sign("swap", FRESH[1])), busy="swap", swaps=("/dev/nvme0n1",))
    made = plan(facts(busy), recorded(busy, filesystem="swap", purpose="swap", finished=True), nvme="swap")
    assert all(isinstance(item, Satisfied) for item in made)


def test_swap_on_the_resource_disk_and_data_on_nvme() -> None:
    made = plan(facts(nvme(), scsi()), scsi="swap")
    assert [argv[0] for argv in argvs(made) if argv[0].startswith("mk")] == ["mkfs.ext4", "mkswap"]
    assert ("swapon", "/dev/sdb") in argvs(made)


def test_a_swap_file_goes_to_the_disk_that_is_for_swap() -> None:
    made = plan(facts(nvme(), scsi()), scsi="swap", swap_mib=10)
    assert [argv[0] for argv in argvs(made) if argv[0].startswith("mk")] == ["mkfs.ext4", "mkfs.ext4"]
    assert "mount of /mnt/resource" in [step.name for step in steps(made)]


CUT = {"table": "gpt", "table_uuid": FRESH[2], "swap_mib": 64, "swap_uuid": FRESH[3], "swap_partition_uuid": FRESH[4]}


def test_a_swap_partition_before_the_file_system() -> None:
    first = plan(facts(nvme()), table="gpt", swap="partition", swap_mib=64)
    assert argvs(first)[0][-2:] == (
        f"size=64MiB, type=0657FD6D-A4AB-43C4-84E5-0933C84B4F4F, uuid={FRESH[4]}",
        f"type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, uuid={FRESH[1]}",
    )
    parts = part("nvme0n1", 1, blank(64 * MIB), size=64 * MIB), part("nvme0n1", 2, blank(SIZE - 70 * MIB))
    made = recorded(
        nvme(0),
        table="gpt",
        table_uuid=FRESH[2],
        begun="table",
        swap_mib=64,
        swap_uuid=FRESH[3],
        swap_partition_uuid=FRESH[4],
    )
    disk = nvme(0, holding(sign("gpt", FRESH[2])), partitions=parts)
    second = plan(facts(disk), made, table="gpt", swap="partition", swap_mib=64)
    assert [one.devices[0].path for one in on_devices(second)] == ["/dev/nvme0n1p1", "/dev/nvme0n1p2"]
    assert argvs(second)[-1] == ("swapon", "/dev/nvme0n1p1")


def test_a_swap_partition_that_holds_something_else_is_left_alone() -> None:
    inner = holding(sign("ext4", FRESH[6]), size=64 * MIB)
    parts = part("nvme0n1", 1, inner, size=64 * MIB), part("nvme0n1", 2, blank(SIZE - 70 * MIB))
    made = recorded(
        nvme(0),
        table="gpt",
        table_uuid=FRESH[2],
        begun="table",
        swap_mib=64,
        swap_uuid=FRESH[3],
        swap_partition_uuid=FRESH[4],
    )
    disk = nvme(0, holding(sign("gpt", FRESH[2])), partitions=parts)
    plan_ = plan(facts(disk), made, table="gpt", swap="partition", swap_mib=64)
    assert [one.devices[0].path for one in on_devices(plan_)] == ["/dev/nvme0n1p2"]
    assert not any(argv[0] == "swapon" for argv in argvs(plan_))
    assert refusals(plan_)


@pytest.mark.parametrize("values", [{"begun": ""}, {"begun": "filesystem", "finished": True}], ids=str)
def test_a_swap_partition_is_not_made_beside_a_file_system_that_was_there_before(values: dict[str, Any]) -> None:
    """It is made before the file system: an empty one beside it is not ours."""
    ext4 = holding(sign("ext4", FRESH[1], "AzureEphmDsk"), size=SIZE - 70 * MIB)
    parts = part("nvme0n1", 1, blank(64 * MIB), size=64 * MIB), part("nvme0n1", 2, ext4)
    disk = nvme(0, holding(sign("gpt", FRESH[2])), partitions=parts)
    made = plan(facts(disk), recorded(nvme(0), **{**CUT, **values}), table="gpt", swap="partition", swap_mib=64)
    assert not on_devices(made)
    assert not any(argv[0] == "swapon" for argv in argvs(made))
    assert refusals(made)


def test_a_swap_partition_without_a_table_is_said() -> None:
    made = plan(facts(nvme()), swap="partition", swap_mib=64)
    assert "needs [disk] table = gpt" in cautions(made)["local NVMe disks"]
    assert on_devices(made)


def test_a_swap_partition_larger_than_the_disk_is_refused() -> None:
    made = plan(facts(nvme()), swap="partition", swap_mib=SIZE // MIB, table="gpt")
    assert not steps(made)
    assert "does not fit" in refusals(made)[0].why


def test_dd_fills_the_file_where_fallocate_is_missing() -> None:
    made = plan(facts(DATA, **AT, **FREE, tools=TOOLS - {"fallocate"}), swap_mib=10)
    assert steps(made)[0].ways[0] == Declined(backend="fallocate", why="fallocate is not installed")
