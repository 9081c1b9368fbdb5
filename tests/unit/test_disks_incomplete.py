"""Sets that cannot go on: arrays that do not run, disks that were lost or gained, another purpose, data of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from azureinit.facts.temporary_disks import Assembled, TemporaryDisk
from azureinit.plan.disks import refusals
from azureinit.record import replace
from support.disk_cases import (
    FRESH,
    argvs,
    array,
    cautions,
    facts,
    held,
    holding,
    nvme,
    on_devices,
    plan,
    recorded,
    sign,
    steps,
)

if TYPE_CHECKING:
    from azureinit.memory.disk_sets import DiskSet

MD = holding(sign("md", FRESH[0]))
EXT4 = sign("ext4", FRESH[1], "AzureEphmDsk")
STOP = ("mdadm", "--stop", "/dev/md127")


def idle(*disks: TemporaryDisk, **more: Any) -> Assembled:
    """As udev leaves it where not all members are there: no size, and nothing to read."""
    return replace(array(*disks), **{"size": 0, "content": None, "busy": "it cannot be opened", **more})


# ---- an array that does not run


@pytest.mark.parametrize("finished", [False, True])
def test_an_idle_array_of_our_set_is_stopped_first(finished: bool) -> None:
    """mdadm was killed between two superblocks, and udev has begun to assemble."""
    disks = nvme(0), nvme(1)
    made = recorded(*disks, begun="filesystem" if finished else "array", finished=finished)
    found = facts(held(disks[0], MD), disks[1], assembled=(idle(disks[0]),))
    assert argvs(plan(found, made)) == [STOP]
    assert not refusals(plan(found, made))
    (argv,) = argvs(plan(facts(nvme(0, MD), disks[1]), recorded(*disks, begun="array")))
    assert argv[:2] == ("mdadm", "--create")  # as it was seen after that


OTHERS: dict[str, tuple[Assembled, tuple[DiskSet, ...]]] = {
    "not recorded": (idle(nvme(0)), ()),
    "another array": (idle(nvme(0), uuid=FRESH[6]), (recorded(nvme(0), nvme(1), begun="array"),)),
    "a member is missing": (idle(nvme(0)), (recorded(nvme(0), nvme(1), nvme(2), finished=True),)),
    "of another VM": (idle(nvme(0)), (recorded(nvme(0), nvme(1), begun="array", vm_id="another"),)),
}
USED: dict[str, dict[str, Any]] = {
    "it runs": {"size": 5, "content": holding(size=5)},
    "its content cannot be read": {"size": 5},
    "it is mounted": {"mounts": ("/srv",)},
    "it is swap": {"swaps": ("/dev/md127",)},
    "it is no array": {"name": "dm-0", "path": "/dev/dm-0"},
    "it has a disk of others": {"members": ("nvme0n1", "sdc")},
}


@pytest.mark.parametrize(("one", "sets"), OTHERS.values(), ids=OTHERS)
def test_an_idle_array_of_others_is_stopped_only_by_recreate(one: Assembled, sets: tuple[DiskSet, ...]) -> None:
    found = facts(held(nvme(0), MD), nvme(1), assembled=(one,))
    assert not steps(plan(found, *sets))
    assert argvs(plan(found, *sets, recreate=True)) == [STOP]


@pytest.mark.parametrize("recreate", [False, True])
@pytest.mark.parametrize("changes", USED.values(), ids=USED)
def test_an_array_that_may_hold_something_is_never_stopped(changes: dict[str, Any], recreate: bool) -> None:
    disks = nvme(0), nvme(1)
    found = facts(held(disks[0], MD), disks[1], assembled=(idle(disks[0], **changes),))
    made = plan(found, recorded(*disks, begun="array"), recreate=recreate)
    assert not steps(made)
    assert refusals(made)


# ---- disks that were lost or gained


def test_recreate_makes_a_set_that_gained_a_disk_anew() -> None:
    disks = nvme(0, holding(EXT4)), nvme(1)
    made = recorded(disks[0], finished=True)
    assert not on_devices(plan(facts(*disks), made))
    found = plan(facts(*disks), made, recreate=True)
    assert {device.path for one in on_devices(found) for device in one.devices} == {"/dev/nvme0n1", "/dev/nvme1n1"}
    assert "destroys what is there: /dev/nvme0n1: it holds ext4" in steps(found)[-1].why


@pytest.mark.parametrize("use", [{"mounts": ("/mnt",)}, {"busy": "claimed"}], ids=str)
def test_recreate_does_not_touch_such_a_set_in_use(use: dict[str, Any]) -> None:
    disks = nvme(0, holding(EXT4), **use), nvme(1)
    assert not on_devices(plan(facts(*disks), recorded(disks[0], finished=True), recreate=True))


def test_recreate_does_not_start_an_array_that_gained_a_disk() -> None:
    disks = nvme(0, MD), nvme(1, MD), nvme(2)
    made = plan(facts(*disks), recorded(*disks[:2], finished=True), recreate=True)
    assert not any(argv[:2] == ("mdadm", "--assemble") for argv in argvs(made))
    assert len(on_devices(made)[0].devices) == 3


def test_recreate_keeps_a_set_where_disks_are_not_combined() -> None:
    for first, second in ((holding(EXT4), None), (None, holding(EXT4))):
        disks = nvme(0, first), nvme(1, second)
        own = disks[0] if first else disks[1]
        assert not on_devices(plan(facts(*disks), recorded(own, finished=True), recreate=True, aggregation="none"))


# ---- what a boot takes for normal


def test_another_purpose_names_the_work_that_was_interrupted() -> None:
    disk = nvme(0, holding(nonzero=4096))
    made = plan(facts(disk), recorded(disk), nvme="swap")
    assert "this VM began ext4 for data there, was interrupted" in cautions(made)["/dev/nvme0n1"]
    assert refusals(made, kept=False)


NORMAL: dict[str, tuple[TemporaryDisk, tuple[DiskSet, ...], bool]] = {
    "a file system of the user": (nvme(0, holding(sign("ext4", FRESH[6], "mine"))), (), True),
    "in place of ours": (nvme(0, holding(sign("ext4", FRESH[6]))), (recorded(nvme(0), finished=True),), True),
    "mounted by the user": (nvme(0, holding(sign("xfs", FRESH[6])), mounts=("/srv",)), (), True),
    "an input/output error": (nvme(0, trouble="input/output error"), (), False),
    "read-only": (nvme(0, read_only=True), (), False),
    "unfinished work": (nvme(0, holding(sign("ext4", FRESH[6]))), (recorded(nvme(0)),), False),
    "a set that lost a disk": (nvme(0, MD), (recorded(nvme(0), nvme(1), finished=True),), False),
}


@pytest.mark.parametrize(("disk", "sets", "normal"), NORMAL.values(), ids=NORMAL)
def test_data_of_the_user_are_no_failure_of_a_boot(
    disk: TemporaryDisk, sets: tuple[DiskSet, ...], normal: bool
) -> None:
    made = plan(facts(disk), *sets)
    assert not steps(made)
    assert refusals(made)  # for an operator
    assert bool(refusals(made, kept=False)) is not normal
