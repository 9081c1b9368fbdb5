"""Which disks are temporary: the proof, the contradictions, and every other disk with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Disk
from azureinit.facts.temporary_disks import DiskFacts, read_disk_facts
from azureinit.machine import Machine
from support.disk_trees import DATA, GEN1_OS, GEN1_RESOURCE, GEN2, REMOTE, V1, V2, DiskTree


def names(facts: DiskFacts) -> list[str]:
    return [disk.name for disk in facts.disks]


def why(facts: DiskFacts, name: str) -> str:
    assert name not in names(facts)
    return next(disk.why for disk in facts.others if disk.name == name)


@pytest.fixture
def tree(tmp_path: Path) -> DiskTree:
    return DiskTree(tmp_path)


# ---- machines as Azure has them


def test_gen1_has_its_resource_disk_on_the_second_ide_port(tree: DiskTree) -> None:
    tree.gen1(data=2)
    facts = tree.facts()
    (disk,) = facts.disks
    assert (disk.name, disk.path, disk.kind, disk.size, disk.sector) == ("sdb", "/dev/sdb", "scsi", 4 << 20, 512)
    assert disk.identity == f"{GEN1_RESOURCE}:0"
    assert disk.evidence == f"VMBus device {GEN1_RESOURCE}, LUN 0: Azure's resource disk"
    assert (disk.busy, disk.trouble, disk.model) == ("", "", "Virtual Disk")
    assert disk.content is not None and disk.content.blank
    assert why(facts, "sda") == "the operating system's disk: / lies on it"
    assert why(facts, "sdc") == f"a data disk (VMBus device {DATA[0]}, LUN 0)"
    assert len(facts.others) == 3


def test_gen2_has_it_at_lun_1_of_the_system_controller(tree: DiskTree) -> None:
    tree.gen2(data=3)
    facts = tree.facts()
    (disk,) = facts.disks
    assert (disk.name, disk.identity) == ("sdb", f"{GEN2}:1")
    assert [other.name for other in facts.others] == ["sda", "sdc", "sdd", "sde"]
    assert all("data disk" in why(facts, name) for name in ("sdc", "sdd", "sde"))


def test_the_names_of_the_kernel_mean_nothing(tree: DiskTree) -> None:
    """The OS disk is sdc, a data disk sda: the order of discovery differs from boot to boot."""
    tree.scsi(DATA[0], lun=0, name="sda")
    tree.scsi(GEN2, lun=1, name="sdb")
    tree.mount("/", tree.partition(tree.scsi(GEN2, lun=0, name="sdc"), 1))
    facts = tree.facts()
    assert names(facts) == ["sdb"]
    assert "data disk" in why(facts, "sda")


def test_a_storage_size_has_eight_nvme_disks_and_a_resource_disk(tree: DiskTree) -> None:
    tree.gen2(data=1)
    for number in range(10):
        tree.local_nvme(f"c5cd5a0a5f7f{number:08d}", model=V1)
    facts = tree.facts()
    assert names(facts) == ["sdb", *(f"nvme{number}n1" for number in range(10))]
    assert facts.disks[1].identity == facts.disks[1].serial == "c5cd5a0a5f7f00000000"
    assert facts.disks[1].evidence == f"model {V1}, serial c5cd5a0a5f7f00000000, PCI vendor 0x1414"


def test_a_version_6_size_has_its_os_and_data_disks_on_nvme_too(tree: DiskTree) -> None:
    tree.local_nvme("F1")
    tree.remote_nvme(data=2)
    tree.local_nvme("F2", sector=4096)
    facts = tree.facts()
    assert names(facts) == ["nvme0n1", "nvme2n1"]
    assert [disk.sector for disk in facts.disks] == [512, 4096]
    assert why(facts, "nvme1n1") == "the operating system's disk: / lies on it"
    assert why(facts, "nvme1n2") == f"a managed disk ({REMOTE})"


def test_the_os_disk_is_known_by_its_controller_too(tree: DiskTree) -> None:
    """Where / is an overlay, no mount leads to the disk."""
    tree.scsi(GEN2, lun=0)
    tree.scsi(GEN2, lun=1)
    tree.scsi(GEN1_OS)
    tree.mount("/", "0:44", kind="overlay")
    facts = tree.facts()
    assert names(facts) == ["sdb"]
    assert why(facts, "sda").startswith("the OS disk (VMBus device f8b3781a")
    assert why(facts, "sdc").startswith("the OS disk (VMBus device 00000000-0000")


def test_a_namespace_with_several_paths_is_one_disk(tree: DiskTree) -> None:
    tree.gen2(resource=False)
    name = tree.multipath_nvme(V2, "L1", transport="loop")
    facts = tree.facts()
    assert names(facts) == [name]
    assert facts.disks[0].evidence == f"model {V2}, serial L1, the kernel's own NVMe target"
    assert [other.name for other in facts.others] == ["sda"]


def test_other_devices_are_no_disks(tree: DiskTree) -> None:
    tree.gen2()
    for name in ("loop0", "ram0", "zram0", "sr0", "fd0"):
        tree.block(name, f"devices/virtual/block/{name}", size=1)
    tree.stack("md127", ["sdb"])
    tree.stack("dm-0", ["md127"])
    facts = tree.facts()
    assert [*names(facts), *(other.name for other in facts.others)] == ["sdb", "sda"]


def test_a_virtio_disk_is_listed_with_its_reason(tree: DiskTree) -> None:
    tree.gen2()
    tree.disk("vda", "devices/pci0000:00/virtio1/block/vda", size=4)
    assert why(tree.facts(), "vda") == "neither a SCSI disk nor an NVMe disk"


# ---- the link of udev's rules


def test_the_link_alone_counts_where_there_is_no_vmbus(tree: DiskTree) -> None:
    tree.mount("/", tree.partition(tree.virtio_scsi(), 1))
    tree.virtio_scsi(lun=1)
    tree.virtio_scsi(lun=2)
    tree.link("dev/disk/azure/resource", "../../sdb")
    facts = tree.facts()
    (disk,) = facts.disks
    assert (disk.name, disk.identity) == ("sdb", "resource:0:0:0:1")
    assert disk.evidence == "/dev/disk/azure/resource names it, and there is no VMBus to compare that with"
    assert why(facts, "sdc") == "not known to be temporary (no VMBus, and no link names it)"


@pytest.mark.parametrize("target", ["../../sda", "../../sda1", "../../sdb1", "../../vda", "../../sdz"])
def test_a_link_to_anything_but_a_whole_scsi_disk_beside_the_os_disk_is_nothing(tree: DiskTree, target: str) -> None:
    tree.mount("/", tree.partition(tree.virtio_scsi(), 1))
    tree.partition(tree.virtio_scsi(lun=1), 1)
    tree.disk("vda", "devices/pci0000:00/virtio1/block/vda", size=4)
    tree.link("dev/disk/azure/resource", target)
    assert names(tree.facts()) == []


def test_a_link_is_no_proof_where_the_os_disk_is_unknown(tree: DiskTree) -> None:
    tree.mount("/", "0:44", kind="overlay")
    tree.virtio_scsi(lun=1)
    tree.link("dev/disk/azure/resource", "../../sda")
    assert why(tree.facts(), "sda") == "/dev/disk/azure/resource names it, but which disk holds / is unknown"


def test_a_link_that_agrees_with_vmbus_changes_nothing(tree: DiskTree) -> None:
    tree.gen2(data=1)
    tree.link("dev/disk/azure/resource", "../../sdb")
    tree.link("dev/disk/cloud/azure_resource", "../../sdb")
    tree.link("dev/disk/azure/os", "../../sda")
    tree.link("dev/disk/azure/data/by-lun/0", "../../../../sdc")
    assert names(tree.facts()) == ["sdb"]


def test_a_link_against_vmbus_is_a_contradiction(tree: DiskTree) -> None:
    tree.gen2(data=1)
    tree.link("dev/disk/azure/resource", "../../sdc")
    facts = tree.facts()
    assert names(facts) == []
    assert why(facts, "sdb").endswith("but /dev/disk/azure/resource names sdc")
    assert "data disk" in why(facts, "sdc")


def test_a_link_against_a_vmbus_without_a_resource_disk_is_nothing(tree: DiskTree) -> None:
    tree.gen2(data=1, resource=False)
    tree.link("dev/disk/azure/resource", "../../sdb")
    assert names(tree.facts()) == []


@pytest.mark.parametrize(
    "link", ["azure/os", "azure/root", "azure/data/by-lun/3", "azure/data/by-name/db", "azure/scsi1/lun0"]
)
def test_a_disk_that_a_link_calls_managed_is_not_temporary(tree: DiskTree, link: str) -> None:
    tree.gen2()
    tree.local_nvme("A1")
    ups = "../" * link.count("/") + "../"
    tree.link(f"dev/disk/{link}", f"{ups}nvme0n1")
    facts = tree.facts()
    assert names(facts) == ["sdb"]
    assert why(facts, "nvme0n1").endswith(f"but /dev/disk/{link} names it")


# ---- contradictions


def test_two_disks_with_one_serial_number_are_both_left_alone(tree: DiskTree) -> None:
    tree.gen2()
    for serial in ("A1", "A2", "A1"):
        tree.local_nvme(serial)
    facts = tree.facts()
    assert names(facts) == ["sdb", "nvme1n1"]
    assert why(facts, "nvme0n1") == "contradiction: nvme2n1 has the same serial number A1"
    assert why(facts, "nvme2n1") == "contradiction: nvme0n1 has the same serial number A1"


def test_two_namespaces_of_one_controller_are_both_left_alone(tree: DiskTree) -> None:
    tree.gen2()
    controller = tree.controller(V1, "A1")
    tree.namespace(controller, 1)
    tree.namespace(controller, 2)
    assert names(tree.facts()) == ["sdb"]


def test_two_resource_disks_are_both_left_alone(tree: DiskTree) -> None:
    tree.gen2()
    tree.scsi(GEN1_RESOURCE)
    facts = tree.facts()
    assert names(facts) == []
    assert why(facts, "sdb") == "contradiction: sdc seems to be the resource disk too"


@pytest.mark.parametrize(
    ("said", "temporary"),
    [
        ("type=local,index=2,name=nvme-440G-2", True),
        ("", True),
        ("index=1", True),
        ("type=data,lun=3", False),
        ("type=os", False),
        ("index=1,type=local,type=data", False),
        ("type=", False),
        ("type=Local", False),
    ],
)
def test_a_namespace_that_says_another_type_is_not_temporary(tree: DiskTree, said: str, temporary: bool) -> None:
    tree.gen2(resource=False)
    tree.local_nvme("A1")
    tree.described["/dev/nvme0n1"] = said
    facts = tree.facts()
    assert (names(facts) == ["nvme0n1"]) is temporary
    if not temporary:
        assert why(facts, "nvme0n1").startswith("its model is a local disk's, but it says that its type is ")


@pytest.mark.parametrize(
    ("field", "content", "reason"),
    [
        ("model", b"Microsoft NVMe Direct Disk v3\n", "not that of a local disk"),
        ("model", b"microsoft nvme direct disk\n", "not that of a local disk"),
        ("model", b"Microsoft NVMe Direct Disk\xff\n", "not that of a local disk"),
        ("model", b"x" * 5000, "not that of a local disk"),
        ("model", None, "not that of a local disk"),
        ("serial", b"      \n", "no serial number"),
        ("serial", None, "no serial number"),
        ("serial", b"A\xff\xfe1\n", "not printable"),
        ("serial", b"A 1\n", "not printable"),
        ("transport", b"tcp\n", "reached by tcp"),
        ("transport", b"rdma\n", "reached by rdma"),
    ],
)
def test_an_nvme_disk_with_anything_missing_or_odd_is_not_temporary(
    tree: DiskTree, field: str, content: bytes | None, reason: str
) -> None:
    tree.gen2(resource=False)
    controller = tree.controller(V1, "A1")
    tree.namespace(controller)
    assert names(tree.facts()) == ["nvme0n1"]
    path = tree.place / f"sys/{controller}/{field}"
    path.unlink() if content is None else path.write_bytes(content)
    assert reason in why(tree.facts(), "nvme0n1")


@pytest.mark.parametrize("vendor", ["", "0x1b36", "0x14140", "1414"])
def test_the_model_of_another_vendors_disk_is_no_proof(tree: DiskTree, vendor: str) -> None:
    tree.gen2(resource=False)
    tree.namespace(tree.controller(V2, "A1", vendor=vendor))
    assert why(tree.facts(), "nvme0n1").startswith("its PCI vendor is ")


def test_paths_of_one_namespace_that_differ_are_a_contradiction(tree: DiskTree) -> None:
    tree.gen2(resource=False)
    name = tree.multipath_nvme(V2, "A1")
    other = tree.controller(REMOTE, "A1")
    tree.link("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme1", f"../../../../{other}")
    assert why(tree.facts(), name) == "its controllers differ in model or serial number"


# ---- odd and hostile sysfs


@pytest.mark.parametrize("size", [b"", b"0\n", b"-1\n", b"9" * 30, b"9223372036854775807\n", b"\xff\n", None])
def test_a_disk_without_a_sensible_size_is_not_used(tree: DiskTree, size: bytes | None) -> None:
    tree.gen2()
    path = tree.place / f"sys/{tree.places['sdb']}/size"
    path.unlink() if size is None else path.write_bytes(size)
    assert why(tree.facts(), "sdb") == "its size is zero or unknown"


def test_a_node_of_another_size_than_sysfs_says_is_trouble(tree: DiskTree) -> None:
    tree.gen2()
    tree.write("dev/sdb", b"\0" * 512)
    (disk,) = tree.facts().disks
    assert "512 bytes" in disk.trouble and disk.content is None


def test_a_missing_node_is_trouble(tree: DiskTree) -> None:
    tree.gen2()
    (tree.place / "dev/sdb").unlink()
    (disk,) = tree.facts().disks
    assert "/dev/sdb" in disk.trouble and disk.content is None and disk.busy == ""


@pytest.mark.parametrize("content", [b"", b"{", b"\xff" * 40, b"x" * 5000, None])
def test_a_vmbus_device_without_a_readable_id_proves_nothing(tree: DiskTree, content: bytes | None) -> None:
    tree.gen1()
    path = tree.place / f"sys/bus/vmbus/devices/{GEN1_RESOURCE}/device_id"
    path.unlink() if content is None else path.write_bytes(content)
    assert "not known to be temporary" in why(tree.facts(), "sdb")


@pytest.mark.parametrize("lun", [0, 2, 11, 10**18])
def test_other_luns_of_the_system_controller_are_not_temporary(tree: DiskTree, lun: int) -> None:
    tree.mount("/", "0:44", kind="overlay")
    tree.scsi(GEN2, lun=lun)
    assert names(tree.facts()) == []


def test_an_empty_sysfs_has_no_disks(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), kernel=str(tmp_path), search=())
    facts = read_disk_facts(machine, Disk(), ())
    assert (facts.disks, facts.others, facts.fstab, facts.fstab_writable) == ((), (), None, False)


def test_without_a_mount_table_no_disk_is_used(tree: DiskTree) -> None:
    tree.gen2()
    (tree.place / "proc/self/mountinfo").unlink()
    assert why(tree.facts(), "sdb") == "what is mounted is unknown: /proc/self/mountinfo is missing or empty"


def test_a_partition_without_its_number_is_still_no_disk(tree: DiskTree) -> None:
    tree.gen2()
    part = tree.partition("sdb", 1)
    (tree.place / f"sys/{tree.places[part]}/partition").unlink()
    (disk,) = tree.facts().disks
    assert [one.name for one in disk.partitions] == ["sdb1"]


# ---- this machine


def test_no_disk_of_this_machine_is_temporary_unless_it_is_on_azure() -> None:
    facts = read_disk_facts(Machine(), Disk(), ())
    assert not any("/" in disk.mounts for disk in facts.disks)
    if not Path("/sys/bus/vmbus/devices").exists():
        assert facts.disks == () and facts.assembled == ()
    assert len(set(facts.fresh)) == 12
