"""Temporary disks in a cloud-config: the settings for the planner of temporary disks, and its care."""

from __future__ import annotations

from typing import Any

import pytest

from azureinit.config.model import Config, Disk, Userdata
from azureinit.errors import CustomDataFailed
from azureinit.facts.temporary_disks import TemporaryDisk
from azureinit.modules.request import Request
from azureinit.modules.temporary_disks import TemporaryFacts, is_asked, plan_temporary_disks, settings_of, wish
from azureinit.plan.actions import Caution, Satisfied, Step
from support.disk_cases import GIB, SETS_PATH, facts as known, holding, nvme, scsi, shipped, sign
from support.module_runs import request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

SWAP = """\
disk_setup:
  ephemeral0: {table_type: mbr, layout: [66, [33, 82]], overwrite: true}
fs_setup:
- {device: ephemeral0.1, filesystem: ext4}
- {device: ephemeral0.2, filesystem: swap}
mounts:
- [ephemeral0.1, /mnt/resource]
- [ephemeral0.2, none, swap, sw, "0", "0"]
"""
DATA = """\
fs_setup: [{device: ephemeral0, filesystem: xfs, label: scratch, partition: auto}]
mounts: [[ephemeral0, /scratch, auto, 'defaults,noatime']]
"""


def asked(text: str, **fields: Any) -> Request:
    return request_of(text, rooted=False, **fields)


def planned(text: str, *disks: TemporaryDisk, **fields: Any) -> Plan:
    request = asked(text, **fields)
    facts = TemporaryFacts(disks=known(*disks), sets=(), sets_path=SETS_PATH, memory=2 * GIB)
    return plan_temporary_disks(request, facts)


def settings(text: str) -> Disk:
    request = asked(text)
    found = wish(request)
    assert found is not None
    return settings_of(request, found)


def names(plan: Plan, kind: type) -> list[str]:
    return [item.name for item in plan if isinstance(item, kind)]


def test_the_documents_settings() -> None:
    made = settings(DATA)
    assert (made.filesystem, made.label, made.mount_point) == ("xfs", "scratch", "/scratch")
    assert (made.mount_options, made.table) == ("defaults,noatime", "none")


def test_units_of_cloud_init_are_not_required() -> None:
    made = settings("mounts: [[ephemeral0.1, /mnt, auto, 'defaults,nofail,x-systemd.requires=cloud-init.service']]\n")
    assert made.mount_options == "defaults,nofail,x-systemd.after=azure-init-userdata-network.service"


def test_microsofts_document_for_swap_on_the_resource_disk() -> None:
    found = wish(asked(SWAP))
    assert found is not None
    assert (found.table, found.point, found.swap_share) == ("gpt", "/mnt/resource", 34.0)
    plan = planned(SWAP, scsi())
    assert names(plan, Step) == ["record of the resource disk", "partition table of the resource disk"]
    assert all(item.failure is CustomDataFailed for item in plan if isinstance(item, Step))


@pytest.mark.parametrize(
    "text",
    [
        "disk_setup: {ephemeral0: {layout: [[100, 82]]}}\nfs_setup: [{device: ephemeral0.1, filesystem: swap}]",
        "fs_setup: [{device: ephemeral0, filesystem: swap}]",
    ],
)
def test_a_disk_that_is_all_swap(text: str) -> None:
    found = wish(asked(text))
    assert found is not None and found.swap_share == 100
    last = planned(text, scsi())[-1] if "layout" not in text else planned(text, scsi())[1]
    assert isinstance(last, Step) and "swap" in f"{last.name} {last.why}"


def test_the_platforms_ntfs_is_replaced_and_anything_else_is_not() -> None:
    assert names(planned(DATA, shipped()), Step)
    dirty = scsi(holding(sign("ext4", label="mine")))
    plan = planned(DATA.replace("auto}]", "auto, overwrite: true}]"), dirty)
    assert not names(plan, Step) and names(plan, Caution)


def test_nvme_disks_only_where_there_is_no_resource_disk() -> None:
    assert "file system on the local NVMe disks" in names(planned(DATA, nvme(0)), Step)
    both = planned(DATA, nvme(0), scsi())
    assert "file system on the resource disk" in names(both, Step)
    assert names(both, Satisfied) == ["/dev/nvme0n1"]


def test_a_vm_without_one_and_one_that_the_configuration_sets_up() -> None:
    (item,) = planned(DATA)
    assert isinstance(item, Caution) and "no temporary disk" in item.why
    (item,) = planned(DATA, scsi(), settings=Config(disk=Disk(setup="auto")))
    assert isinstance(item, Caution) and "[disk]" in item.why


def test_values_that_the_planner_does_not_take() -> None:
    (item,) = planned("mounts: [[ephemeral0, '/my disk']]\n", scsi())
    assert isinstance(item, Caution) and "absolute path" in item.why
    text = "fs_setup: [{device: ephemeral0, filesystem: ntfs, cmd: mkfs}]\n"
    told = [item.why for item in planned(text, scsi()) if isinstance(item, Caution)]
    assert any("ntfs" in why for why in told) and any("cmd" in why for why in told)


def test_the_swap_file_goes_with_the_disk() -> None:
    found = wish(asked("mounts: [[ephemeral0, /mnt]]\nswap: {filename: /mnt/swapfile, size: 1G}\n"))
    assert found is not None and found.swap_file == "/mnt/swapfile"
    found = wish(asked("mounts: [[ephemeral0, /mnt]]\nswap: {size: 1G}\n"))
    assert found is not None and found.swap_file == ""


@pytest.mark.parametrize(
    ("text", "compatible", "expected"),
    [
        ("hostname: x", False, False),
        ("hostname: x", True, True),
        ("mounts: [[ephemeral0, null]]", True, False),
        ("mounts: [[ephemeral0, null]]", False, False),
        ("mounts: [[/dev/disk/azure/resource-part1, /data]]", False, True),
        ("mounts: [[/dev/sdc, /data]]", False, False),
        ("device_aliases: {scratch: ephemeral0}\nmounts: [[scratch, /data]]", False, True),
    ],
)
def test_when_it_is_asked_for(text: str, compatible: bool, expected: bool) -> None:
    config = Config(userdata=Userdata(cloud_init_compat=compatible))
    assert is_asked(asked(text, settings=config)) is expected


def test_a_tree_has_no_disks() -> None:
    facts = TemporaryFacts(disks=known(), sets=(), sets_path=SETS_PATH)
    assert [type(item) for item in plan_temporary_disks(request_of(DATA), facts)] == [Caution]
