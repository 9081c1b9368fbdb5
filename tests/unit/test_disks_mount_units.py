"""The mount unit that takes the place of an fstab entry: a unit of others is kept, and ours is removed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.backends.mount import UNIT, unit_paths
from azureinit.facts.disk_reading import WRITTEN
from azureinit.facts.temporary_disks import MountPoint
from azureinit.plan.actions import Remove, Write
from azureinit.plan.disks import refusals
from support.disk_cases import FRESH, actions, facts, holding, mounted, nvme, on_devices, plan, recorded, sign
from support.disk_trees import DiskTree

ETC, RUN = "/etc/systemd/system/mnt.mount", "/run/systemd/system/mnt.mount"
EXT4 = holding(sign("ext4", FRESH[1], "AzureEphmDsk"))


def test_the_units_and_their_first_line_are_known() -> None:
    assert unit_paths("/mnt") == (ETC, RUN)
    assert UNIT.encode().startswith(WRITTEN)


@pytest.mark.parametrize("path", [ETC, RUN])
def test_a_unit_of_others_is_not_overwritten(path: str) -> None:
    made = plan(facts(nvme(), fstab_writable=False, mount_units=((path, False),)))
    assert not on_devices(made)
    assert not any(isinstance(action, Write) for action in actions(made))
    assert [item.why for item in refusals(made)] == [
        f"/etc/fstab cannot be changed, and {path} is not a unit of azure-init; remove that, or choose another place"
    ]


@pytest.mark.parametrize("units", [(), ((ETC, True),), (("/etc/systemd/system/srv.mount", False),)], ids=str)
def test_our_own_unit_is_written_again(units: tuple[tuple[str, bool], ...]) -> None:
    made = plan(facts(nvme(), fstab_writable=False, mount_units=units))
    assert not refusals(made)
    assert ETC in [action.path for action in actions(made) if isinstance(action, Write)]
    assert not any(isinstance(action, Remove) for action in actions(made))


@pytest.mark.parametrize("is_mounted", [False, True])
def test_our_unit_goes_when_fstab_can_have_the_entry(is_mounted: bool) -> None:
    disk = nvme(0, EXT4)
    points = mounted("/dev/nvme0n1") if is_mounted else (MountPoint(path="/mnt", state="empty"),)
    units = ((ETC, True), (RUN, True), ("/etc/systemd/system/srv.mount", True))
    made = plan(facts(disk, points=points, mount_units=units), recorded(disk, finished=True))
    assert [action.path for action in actions(made) if isinstance(action, Remove)] == [ETC, RUN]
    assert not refusals(made)


def test_a_unit_of_others_stays_beside_the_entry() -> None:
    made = plan(facts(nvme(), mount_units=((ETC, False),)))
    assert not any(isinstance(action, Remove) for action in actions(made))
    assert not refusals(made)


def test_the_units_are_read(tmp_path: Path) -> None:
    tree = DiskTree(tmp_path)
    tree.gen2()
    assert tree.facts().mount_units == ()
    tree.write(ETC[1:], UNIT)
    tree.write(RUN[1:], "[Mount]\nWhat=/dev/sdz\n")
    tree.write("etc/systemd/system/x.service", UNIT)
    assert tree.facts().mount_units == ((ETC, True), (RUN, False))
