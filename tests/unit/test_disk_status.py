"""The table of `azure-init disk status`: what is where, whose it is, and why it is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from azureinit.cli.disk import WIDTH, rows_as_json, rows_as_text, size_text
from azureinit.config.model import Disk
from azureinit.facts.disk_content import Content, Signature
from azureinit.facts.temporary_disks import Assembled, DiskFacts, OtherDisk, Partition, TemporaryDisk
from azureinit.memory.disk_sets import DiskSet
from azureinit.plan.actions import Caution, Satisfied, Step
from azureinit.plan.disk_status import disk_status
from azureinit.plan.disks import plan_disks
from azureinit.record import replace
from support.disk_trees import V1, DiskTree

GIB = 1 << 30
ID = "c0ffee00-1111-2222-3333-444444444444"
AUTO = Disk(setup="auto")
MD = Content(size=GIB, blank=False, signatures=(Signature(kind="md", offset=4096),))
EXT4 = Content(size=GIB, blank=False, signatures=(Signature(kind="ext4", offset=0, label="AzureEphmDsk"),))
READ: dict[str, Any] = {"blank": False, "regions": ((0, 512),), "digest": "cafe"}
NTFS = Content(
    size=80 * GIB - (2 << 20),
    pristine_ntfs=True,
    signatures=(Signature(kind="ntfs", offset=0, label="Temporary Storage"),),
    **READ,
)
WHERE = (1 << 20, 80 * GIB - (2 << 20))
DOS = Content(size=80 * GIB, signatures=(Signature(kind="dos", offset=0),), around=WHERE, **READ)
SHIPPED = Partition(name="sdb1", path="/dev/sdb1", number=1, start=WHERE[0], size=WHERE[1], content=NTFS)
BLANK = Content(size=GIB, blank=True)


def nvme(number: int, **values: Any) -> TemporaryDisk:
    known: dict[str, Any] = {"kind": "nvme", "identity": f"S{number}", "size": 1920 * 10**9, "evidence": "model"}
    return TemporaryDisk(**{"name": f"nvme{number}n1", "path": f"/dev/nvme{number}n1", **known, **values})


def resource(**values: Any) -> TemporaryDisk:
    known: dict[str, Any] = {"kind": "scsi", "identity": "bus:1", "size": 80 * GIB, "evidence": "VMBus"}
    return TemporaryDisk(**{"name": "sdb", "path": "/dev/sdb", **known, **values})


SET = DiskSet(purpose="data", kind="nvme", vm_id=ID, members=("S0", "S1"), sizes=(1, 1), aggregation="mdadm")
HELD: dict[str, Any] = {"holders": ("md127",), "mounts": ("/mnt",), "busy": "md127 holds it", "content": MD}
WHOLE = DiskFacts(
    disks=(
        nvme(0, **HELD),
        nvme(1, **HELD),
        resource(content=DOS, partitions=(SHIPPED,)),
    ),
    others=(
        OtherDisk(
            name="sda",
            path="/dev/sda",
            size=30 * GIB,
            why="the operating system's disk: / lies on it",
            mounts=("/", "/boot/efi"),
        ),
    ),
    assembled=(
        Assembled(
            name="md127",
            path="/dev/md127",
            size=3840 * 10**9,
            members=("nvme0n1", "nvme1n1"),
            mounts=("/mnt",),
            content=EXT4,
        ),
    ),
)
PLAN = (
    Satisfied(name="local NVMe disks", why="/dev/md127 holds ext4 (/dev/nvme0n1 and /dev/nvme1n1): kept"),
    Satisfied(name="/dev/sdb", why="not used: [disk] scsi is off"),
)


def test_the_whole_table() -> None:
    assert rows_as_text(disk_status(WHOLE, (SET,), PLAN)) == (
        "DISK     SIZE     CONTENT  LABEL              USED AS       OWNER\n"
        "nvme0n1  1.7 TiB  md                                        azure-init\n"
        "    local NVMe disk; in use\n"
        "nvme1n1  1.7 TiB  md                                        azure-init\n"
        "    local NVMe disk; in use\n"
        "sdb      80 GiB   dos                                       the platform\n"
        "    SCSI resource disk; not used: [disk] scsi is off\n"
        "sdb1     80 GiB   ntfs     Temporary Storage                the platform\n"
        "    partition 1 of sdb; not used\n"
        "md127    3.5 TiB  ext4     AzureEphmDsk       /mnt          azure-init\n"
        "    array of nvme0n1, nvme1n1; in use\n"
        "sda      30 GiB                               /, /boot/efi\n"
        "    not temporary: the operating system's disk: / lies on it\n"
    )


def test_as_json_it_has_the_same_and_more() -> None:
    rows = json.loads(rows_as_json(disk_status(WHOLE, (SET,), PLAN)))
    assert [row["name"] for row in rows] == ["nvme0n1", "nvme1n1", "sdb", "sdb1", "md127", "sda"]
    assert [row["temporary"] for row in rows] == [True] * 5 + [False]
    assert rows[4]["members"] == ["nvme0n1", "nvme1n1"] and rows[4]["mounts"] == ["/mnt"]
    assert rows[0]["identity"] == "S0" and rows[0]["size"] == 1920 * 10**9


def test_without_a_temporary_disk_the_table_says_so() -> None:
    assert rows_as_text(()) == "There is no temporary disk.\n"
    told = rows_as_text(disk_status(replace(WHOLE, disks=(), assembled=()), (), ()))
    assert told.endswith("lies on it\nThere is no temporary disk.\n")


@pytest.mark.parametrize(
    ("item", "state", "why"),
    [
        (Caution(name="/dev/nvme0n1", why="left alone: it holds xfs"), "left alone", "it holds xfs"),
        (Caution(name="/dev/nvme0n1", why="it is odd: very"), "left alone", "it is odd: very"),
        (Satisfied(name="/dev/nvme0n1", why="not used: [disk] nvme is off"), "not used", "[disk] nvme is off"),
        (Satisfied(name="data", why="kept (/dev/nvme0n1)"), "in use", ""),
        (Step(name="ext4 on it", why="/dev/nvme0n1, /dev/nvme1n1 are blank", ways=()), "to be set up", "ext4 on it"),
        (Step(name="another", why="/dev/nvme0n12 is blank", ways=()), "nothing to do", ""),
    ],
)
def test_state_and_reason_are_those_of_the_plan(item: Caution | Satisfied | Step, state: str, why: str) -> None:
    (row,) = disk_status(DiskFacts(disks=(nvme(0, content=BLANK),)), (), (item,))
    assert (row.state, row.why) == (state, why)


def test_without_a_plan_the_facts_give_the_reason() -> None:
    disks = (nvme(0, trouble="cannot be read"), nvme(1, busy="sshd has it open"), nvme(2, content=BLANK))
    rows = disk_status(DiskFacts(disks=disks), (), ())
    assert [(row.state, row.why) for row in rows] == [
        ("left alone", "cannot be read"),
        ("in use", "sshd has it open"),
        ("nothing to do", ""),
    ]


@pytest.mark.parametrize(
    ("facts", "owner"),
    [
        (DiskFacts(disks=(resource(busy="mounted", mounts=("/mnt",)),), cloud_init="fstab: its line"), "cloud-init"),
        (DiskFacts(disks=(resource(mounts=("/mnt/resource",)),), waagent_formats="/etc/waagent.conf"), "WALinuxAgent"),
        (DiskFacts(disks=(resource(busy="mounted", mounts=("/x",)),)), "another program"),
        (DiskFacts(disks=(resource(content=DOS),)), ""),
        (DiskFacts(disks=(resource(content=BLANK),)), "free"),
        (DiskFacts(disks=(resource(content=EXT4),)), ""),
    ],
)
def test_whose_a_disk_is(facts: DiskFacts, owner: str) -> None:
    (row,) = disk_status(facts, (), ())
    assert row.owner == owner


def test_the_platforms_ntfs_is_the_platforms() -> None:
    rows = disk_status(DiskFacts(disks=(resource(content=DOS, partitions=(SHIPPED,)),)), (), ())
    assert [row.owner for row in rows] == ["the platform", "the platform"]


def test_each_partition_and_array_has_its_own_use(tmp_path: Path) -> None:
    tree = DiskTree(tmp_path)
    tree.gen2(data=1, resource=False)
    disk = tree.local_nvme("SERIAL0", model=V1, size=40)
    members = [tree.local_nvme(f"SERIAL{number}", model=V1, size=40) for number in (1, 2)]
    parts = [tree.partition(disk, number, size=10) for number in (1, 2)]
    tree.stack("md127", members, size=80)
    tree.mount("/", "sda")
    tree.mount("/mnt", parts[0])
    tree.swap(f"/dev/{parts[1]}")
    tree.swap("/dev/md127")
    rows = {row.name: row for row in disk_status(tree.facts(AUTO), (), ())}
    used = {name: (row.mounts, row.swaps) for name, row in rows.items() if row.mounts or row.swaps}
    assert used == {
        "sda": (("/",), ()),
        parts[0]: (("/mnt",), ()),
        parts[1]: ((), (f"/dev/{parts[1]}",)),
        "md127": ((), ("/dev/md127",)),
    }
    assert rows["md127"].state == "in use"


def test_a_label_cannot_write_to_the_terminal() -> None:
    hostile = Content(size=GIB, blank=False, signatures=(Signature(kind="ext4", offset=0, label="\x1b[2J\n"),))
    told = rows_as_text(disk_status(DiskFacts(disks=(nvme(0, content=hostile),)), (), ()))
    assert "\x1b" not in told and len(told.splitlines()) == 3


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0 B"), (1023, "1023 B"), (16 * GIB, "16 GiB"), (1920 * 10**9, "1.7 TiB"), (1 << 62, "4096 PiB")],
)
def test_sizes(size: int, told: str) -> None:
    assert size_text(size) == told


def test_on_made_up_machines_the_table_fits_a_terminal(tmp_path: Path) -> None:
    tree = DiskTree(tmp_path)
    tree.install("mkfs.ext4", "mdadm", "mount", "systemctl")
    tree.gen2(data=2, resource=False)
    for number in range(8):
        tree.local_nvme(f"SERIAL{number}", model=V1, size=40)
    tree.partition("nvme3n1", 1, size=20)
    facts = tree.facts(AUTO)
    plan = plan_disks(AUTO, facts, (), vm_id=ID, sets_path="/var/lib/azure-init/x.disks")
    told = rows_as_text(disk_status(facts, (), plan))
    assert max(len(line) for line in told.splitlines()) <= WIDTH
    assert told.count("local NVMe disk; left alone: ") == 8, "one of them has a partition"
    assert told.count("not temporary: ") == 3
