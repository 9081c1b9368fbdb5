"""Who uses a temporary disk, what is made of it, and what keeps it from being read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Disk
from azureinit.facts.disk_use import mount_of, parse_mounts, parse_swaps, unescape
from azureinit.facts.temporary_disks import TemporaryDisk
from azureinit.memory.disk_sets import DiskSet
from support.disk_trees import DiskTree

MD = "12345678:9abcdef0:12345678:9abcdef0"


@pytest.fixture
def tree(tmp_path: Path) -> DiskTree:
    """A Gen2 machine with its resource disk sdb and two local NVMe disks."""
    made = DiskTree(tmp_path)
    made.gen2(data=1)
    made.local_nvme("A1")
    made.local_nvme("A2")
    return made


def disk(tree: DiskTree, name: str) -> TemporaryDisk:
    return next(one for one in tree.facts().disks if one.name == name)


# ---- mounts


def test_a_free_disk_is_free(tree: DiskTree) -> None:
    for one in tree.facts().disks:
        assert (one.busy, one.trouble, one.holders, one.mounts, one.swaps) == ("", "", (), (), ())
        assert one.content is not None and one.content.blank


def test_a_mounted_disk_and_a_mounted_partition_are_busy(tree: DiskTree) -> None:
    tree.mount("/mnt", "nvme0n1")
    tree.mount("/mnt/my data", tree.partition("nvme1n1", 1))
    assert disk(tree, "nvme0n1").busy == "it is mounted at /mnt"
    found = disk(tree, "nvme1n1")
    assert (found.mounts, found.busy) == (("/mnt/my data",), "it is mounted at /mnt/my data")
    assert found.content is not None and not found.content.blank
    assert all(part.content is not None and not part.content.blank for part in found.partitions)


def test_a_mount_that_only_the_first_process_sees_counts(tree: DiskTree) -> None:
    number = tree.numbers["nvme0n1"]
    tree.write("proc/1/mountinfo", f"90 1 {number} / /private rw - xfs /dev/nvme0n1 rw\n")
    assert disk(tree, "nvme0n1").busy == "it is mounted at /private"


def test_btrfs_names_one_device_and_uses_all_of_its_pool(tree: DiskTree) -> None:
    tree.mount("/mnt", "0:50", kind="btrfs", source="/dev/nvme0n1")
    for name in ("nvme0n1", "nvme1n1"):
        tree.link(f"sys/fs/btrfs/0a0b/devices/{name}", f"../../../../{tree.places[name]}")
    assert disk(tree, "nvme0n1").mounts == disk(tree, "nvme1n1").mounts == ("/mnt",)
    assert disk(tree, "sdb").mounts == ()


def test_btrfs_as_the_root_makes_every_disk_of_its_pool_the_systems(tmp_path: Path) -> None:
    tree = DiskTree(tmp_path)
    tree.local_nvme("A1")
    tree.local_nvme("A2")
    tree.mount("/", "0:50", kind="btrfs", source="/dev/nvme0n1")
    assert [one.name for one in tree.facts().disks] == ["nvme1n1"]
    for name in ("nvme0n1", "nvme1n1"):
        tree.link(f"sys/fs/btrfs/0a0b/devices/{name}", f"../../../../{tree.places[name]}")
    assert tree.facts().disks == ()


@pytest.mark.parametrize("source", ["/dev/mapper/vg-root", "/dev/disk/by-id/x"])
def test_the_root_is_followed_through_lvm_and_md(tmp_path: Path, source: str) -> None:
    """A size whose temporary disk was made the system's: never touched."""
    tree = DiskTree(tmp_path)
    tree.local_nvme("A1")
    tree.local_nvme("A2")
    tree.stack("md0", [tree.partition("nvme0n1", 1)])
    tree.stack("dm-0", ["md0"], mapped="vg-root")
    tree.link("dev/disk/by-id/x", "../../dm-0")
    tree.mount("/", "0:50", kind="btrfs", source=source)
    facts = tree.facts()
    assert [one.name for one in facts.disks] == ["nvme1n1"]
    assert facts.others[0].why == "the operating system's disk: / lies on it"


@pytest.mark.parametrize("missing", ["slaves", "holders", "neither"])
def test_the_root_is_followed_through_a_damaged_sysfs(tmp_path: Path, missing: str) -> None:
    """One side of the relation is missing, or both disks claim to lie on the array that is made of them."""
    tree = DiskTree(tmp_path)
    for serial in ("A1", "A2"):
        tree.local_nvme(serial)
    tree.stack("md0", ["nvme0n1", "nvme1n1"])
    for name in ("nvme0n1", "nvme1n1"):
        if missing == "slaves":
            (tree.place / f"sys/{tree.places['md0']}/slaves/{name}").unlink()
        elif missing == "holders":
            (tree.place / f"sys/{tree.places[name]}/holders/md0").unlink()
        else:
            tree.link(f"sys/{tree.places[name]}/slaves/md0", "../../md0")
    tree.mount("/", "md0")
    assert tree.facts().disks == ()


@pytest.mark.parametrize("point", ["/usr", "/boot/efi", "/var", "/etc"])
def test_a_disk_under_a_part_of_the_system_is_the_systems(tree: DiskTree, point: str) -> None:
    tree.mount(point, tree.partition("nvme0n1", 1))
    facts = tree.facts()
    assert "nvme0n1" not in [one.name for one in facts.disks]
    assert f"the operating system's disk: {point} lies on it" in [other.why for other in facts.others]


# ---- swap


def test_swap_on_a_partition_and_in_a_file(tree: DiskTree) -> None:
    tree.swap(f"/dev/{tree.partition('sdb', 1)}")
    tree.mount("/mnt", "nvme0n1")
    tree.swap("/mnt/swapfile", kind="file")
    assert disk(tree, "sdb").busy == "it holds the active swap /dev/sdb1"
    assert disk(tree, "nvme0n1").swaps == ("/mnt/swapfile",)
    assert tree.facts().active_swaps == ("/dev/sdb1", "/mnt/swapfile")


def test_active_swap_is_told_without_links(tree: DiskTree) -> None:
    tree.link("dev/disk/by-label/swap", "../../nvme1n1")
    tree.swap("/dev/disk/by-label/swap")
    assert tree.facts().active_swaps == ("/dev/nvme1n1",)
    assert disk(tree, "nvme1n1").busy != ""


# ---- holders


def test_an_array_and_what_lies_on_it(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1", "nvme1n1"], uuid=MD)
    tree.stack("dm-0", ["md127"], uuid="LVM-aaaabbbb", mapped="vg-data")
    tree.mount("/mnt", "dm-0")
    found = disk(tree, "nvme0n1")
    assert found.holders == ("md127", "dm-0")
    assert found.busy == "it is part of md127, dm-0, it is mounted at /mnt"
    array, volume = tree.facts().assembled[::-1]
    assert (array.name, array.members, array.uuid) == (
        "md127",
        ("nvme0n1", "nvme1n1"),
        "12345678-9abc-def0-1234-56789abcdef0",
    )
    assert (volume.path, volume.uuid, volume.mounts) == ("/dev/dm-0", "LVM-aaaabbbb", ("/mnt",))
    assert array.busy == "it is part of dm-0, it is mounted at /mnt"
    assert array.content is not None and not array.content.blank


def test_a_free_array_is_free_and_its_partition_is_listed(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1", "nvme1n1"], uuid=MD, size=8)
    (array,) = tree.facts().assembled
    assert (array.busy, array.size) == ("", 8 << 20)
    assert array.content is not None and array.content.blank
    tree.partition("md127", 1)
    array, part = tree.facts().assembled
    assert (part.name, part.uuid, part.members) == ("md127p1", array.uuid, ("nvme0n1", "nvme1n1"))


def test_an_array_with_a_data_disk_in_it_is_not_ours(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1", "sdc"], uuid=MD)
    assert tree.facts().assembled == ()
    assert disk(tree, "nvme0n1").busy == "it is part of md127"


def test_an_array_without_a_uuid_in_sysfs_is_known_by_its_link(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1", "nvme1n1"])
    tree.link(f"dev/disk/by-id/md-uuid-{MD}", "../../md127")
    assert tree.facts().assembled[0].uuid == "12345678-9abc-def0-1234-56789abcdef0"


@pytest.mark.parametrize("uuid", ["", "00000000-0000-0000-0000-000000000000"])
def test_an_array_without_a_link_is_known_by_its_members(tree: DiskTree, uuid: str) -> None:
    """The kernel's own is zero while the array does not run."""
    tree.stack("md127", ["nvme0n1", "nvme1n1"], uuid=uuid)
    for name in ("nvme0n1", "nvme1n1"):
        with (tree.place / f"dev/{name}").open("r+b") as file:
            file.seek(4096)
            file.write(0xA92B4EFC.to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8) + bytes(range(16)))
            file.seek(4096 + 144)
            file.write((8).to_bytes(8, "little"))
    assert tree.facts().assembled[0].uuid == "00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_an_array_that_is_not_running_has_no_content(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1"], uuid=MD, size=0)
    (array,) = tree.facts().assembled
    assert (array.size, array.content) == (0, None)


def test_a_holder_that_sysfs_lists_on_one_side_only_counts(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1", "nvme1n1"])
    (tree.place / f"sys/{tree.places['nvme0n1']}/holders/md127").unlink()
    (tree.place / f"sys/{tree.places['md127']}/slaves/nvme1n1").unlink()
    assert disk(tree, "nvme0n1").holders == disk(tree, "nvme1n1").holders == ("md127",)


def test_a_holder_that_has_vanished_counts(tree: DiskTree) -> None:
    tree.link(f"sys/{tree.places['nvme0n1']}/holders/bcache0", "../../bcache0")
    assert disk(tree, "nvme0n1").busy == "it is part of bcache0"


def test_a_circle_in_sysfs_ends(tree: DiskTree) -> None:
    tree.stack("dm-0", ["nvme0n1"])
    tree.stack("dm-1", ["dm-0"])
    tree.link(f"sys/{tree.places['dm-0']}/slaves/dm-1", "../../dm-1")
    assert disk(tree, "nvme0n1").holders == ("dm-0", "dm-1")


def test_a_loop_device_on_a_disk_counts(tree: DiskTree) -> None:
    tree.block("loop3", "devices/virtual/block/loop3", size=4)
    tree.write("sys/devices/virtual/block/loop3/loop/backing_file", "/dev/nvme0n1\n")
    tree.mount("/srv", "loop3")
    assert disk(tree, "nvme0n1").busy == "it is part of loop3, it is mounted at /srv"


# ---- claims and writers


def test_an_exclusive_claim_of_the_disk_or_a_partition_counts(tree: DiskTree) -> None:
    tree.partition("sdb", 1)
    tree.claimed["/dev/sdb1"] = "the kernel or another program has opened it exclusively"
    tree.claimed["/dev/nvme0n1"] = "the kernel or another program has opened it exclusively"
    for name, path in (("sdb", "/dev/sdb1"), ("nvme0n1", "/dev/nvme0n1")):
        found = disk(tree, name)
        assert found.busy == f"{path}: the kernel or another program has opened it exclusively"
        assert found.content is None


@pytest.mark.parametrize(("flags", "busy"), [("0100001", True), ("0100002", True), ("0100000", False), ("", True)])
def test_a_program_that_writes_counts_and_one_that_reads_does_not(tree: DiskTree, flags: str, busy: bool) -> None:
    tree.link("proc/4711/fd/3", "/dev/nvme0n1")
    tree.write("proc/4711/fdinfo/3", f"pos:\t0\nflags:\t{flags}\n")
    tree.write("proc/4711/comm", "dd\n")
    assert disk(tree, "nvme0n1").busy == ("dd (pid 4711) has /dev/nvme0n1 open for writing" if busy else "")


def test_a_program_that_writes_to_an_array_counts(tree: DiskTree) -> None:
    tree.stack("md127", ["nvme0n1", "nvme1n1"], uuid=MD, size=8)
    tree.write("sys/devices/virtual/block/md127/diskseq", "42\n")
    tree.link("proc/4711/fd/3", "/dev/md127")
    tree.write("proc/4711/fdinfo/3", "flags:\t0100001\n")
    (array,) = tree.facts().assembled
    assert array.busy == "a program (pid 4711) has /dev/md127 open for writing"
    assert array.sequence == 42
    assert array.content is not None and not array.content.blank


def test_a_disk_of_a_recorded_set_is_read_even_if_it_is_claimed(tree: DiskTree) -> None:
    tree.claimed["/dev/nvme0n1"] = "the kernel or another program has opened it exclusively"
    own = DiskSet(purpose="data", kind="nvme", vm_id="x", members=("A1",), sizes=(4 << 20,))
    (found,) = [one for one in tree.facts(sets=(own,)).disks if one.name == "nvme0n1"]
    assert found.content is not None and not found.content.blank


def test_a_read_only_disk_is_told(tree: DiskTree) -> None:
    tree.write(f"sys/{tree.places['sdb']}/ro", "1\n")
    assert disk(tree, "sdb").read_only and not disk(tree, "nvme0n1").read_only


def test_partitions_have_their_places_and_contents(tree: DiskTree) -> None:
    tree.partition("nvme0n1", 2, start=2, size=2)
    tree.partition("nvme0n1", 1, start=1, size=1)
    with (tree.place / "dev/nvme0n1p2").open("r+b") as file:
        file.seek(12345)
        file.write(b"data")
    first, second = disk(tree, "nvme0n1").partitions
    assert (first.name, first.number, first.start, first.size) == ("nvme0n1p1", 1, 1 << 20, 1 << 20)
    assert first.content is not None and first.content.blank
    assert (second.path, second.start, second.size) == ("/dev/nvme0n1p2", 2 << 20, 2 << 20)
    assert second.content is not None and second.content.nonzero == 12345


# ---- space, swap files, notices, owner


def test_what_lies_on_our_own_file_systems(tree: DiskTree) -> None:
    tree.mount("/mnt", "nvme0n1")
    tree.write("mnt/DATALOSS_WARNING_README.txt", "x")
    tree.write("mnt/swapfile", b"\0" * 5000)
    tree.link("mnt/resource/swapfile", "../swapfile")
    tree.mount("/mnt/resource", "sdb")
    facts = tree.facts(Disk(owner="12345"))
    assert facts.swap_files == (("/mnt/swapfile", 5000),)
    assert facts.other_swap_files == ("/mnt/resource/swapfile",)  # a link
    assert facts.notices == ("/mnt/DATALOSS_WARNING_README.txt",)
    assert dict(facts.free_space).keys() == {"/mnt", "/mnt/resource"}
    assert all(free > 0 for _, free in facts.free_space)
    assert sorted(facts.wrong_owner) == ["/mnt", "/mnt/resource"]
    status = (tree.place / "mnt").stat()
    for owner in (f"{status.st_uid}", f"{status.st_uid}:{status.st_gid}"):
        assert tree.facts(Disk(owner=owner)).wrong_owner == ()
    assert len(tree.facts(Disk(owner=f"{status.st_uid}:54321")).wrong_owner) == 2
    assert tree.facts(Disk(owner="no-such-user")).wrong_owner == ()


def test_only_a_swap_area_or_zeros_are_a_swap_file(tree: DiskTree) -> None:
    tree.mount("/mnt", "nvme0n1")
    area = bytes(4086) + b"SWAPSPACE2" + b"swapped"
    for content, other in ((bytes(5000), False), (area, False), (bytes(4000) + b"mine", True)):
        tree.write("mnt/swapfile", content)
        assert bool(tree.facts().other_swap_files) is other


def test_labels_of_all_disks_as_udev_knows_them(tree: DiskTree) -> None:
    for name, label in (("nvme0n1", "AzureEphmDsk"), ("sda", "my\\x20data")):
        text = f"S:x\nE:ID_FS_LABEL=my_data\nE:ID_FS_LABEL_ENC={label}\n" + "E:X=y\n" * 2000
        tree.write(f"run/udev/data/b{tree.numbers[name]}", text)
    assert tree.facts().labels == (("/dev/nvme0n1", "AzureEphmDsk"), ("/dev/sda", "my data"))


def test_tools_and_fresh_uuids(tree: DiskTree) -> None:
    tree.install("mdadm", "mkfs.xfs", "vi")
    facts = tree.facts()
    assert facts.tools == {"mdadm", "mkfs.xfs"}
    assert len(set(facts.fresh)) == 12
    assert not facts.systemd
    (tree.place / "run/systemd/system").mkdir(parents=True)
    assert tree.facts().systemd


# ---- the kernel's tables


def test_escapes() -> None:
    assert unescape(r"/a\040b\011c\134d\400e\04") == "/a b\tc\\d\\400e\\04"
    assert unescape("/\\303\\244") == "/ä"


def test_swaps() -> None:
    table = b"Filename\tType\tSize\n/dev/sda2  partition 1 0 -2\n/a\\040b\\040(deleted) file 1 0 -3\nx\n"
    assert [(swap.path, swap.is_file) for swap in parse_swaps(table)] == [("/dev/sda2", False), ("/a b", True)]


@given(st.binary(max_size=400))
def test_no_table_makes_a_parser_fail(data: bytes) -> None:
    lines = data.count(b"\n") + 1
    text = data.decode("utf-8", "surrogateescape")
    assert len(parse_mounts(data)) <= lines and len(parse_swaps(data)) <= lines and len(unescape(text)) <= len(text)


def test_the_last_of_two_mounts_at_one_place_is_the_visible_one() -> None:
    rows = parse_mounts(
        b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /mnt ro - ext4 /dev/b rw\n3 2 8:3 / /mnt rw - ext4 /dev/c rw\n"
    )
    assert [row.read_only for row in rows] == [False, True, False]
    found = mount_of(rows, "/mnt/x")
    assert found is not None and found.source == "/dev/c"
    beside = mount_of(rows, "/mntx")
    assert beside is not None and beside.source == "/dev/a"
