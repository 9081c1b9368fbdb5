"""growpart and resize_rootfs: the mark that switches the growing of the root file system off."""

from __future__ import annotations

import pytest

from azureinit.facts.disks import Disk
from azureinit.modules.growpart import GrowFacts, grown_points, plan_growpart, plan_resizefs
from azureinit.plan.actions import Caution, Remove, Satisfied, Step, Way, Write
from support.module_runs import request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan


def planned(text: str, facts: GrowFacts | None = None) -> Plan:
    return plan_growpart(request_of(text, rooted=False), facts or GrowFacts())


@pytest.mark.parametrize(
    "text",
    [
        "growpart: {mode: 'off'}",
        "growpart: {mode: false}",
        "resize_rootfs: false",
        "resize_rootfs: 'false'",
        "growpart: {devices: []}",
        "growpart: {devices: [/data]}",
    ],
)
def test_it_is_switched_off(text: str) -> None:
    (step, *_rest) = planned(text)
    assert isinstance(step, Step)
    way = step.ways[0]
    assert isinstance(way, Way)
    write = way.actions[-1]
    assert isinstance(write, Write) and write.path.endswith(".d/no-grow-root")
    assert isinstance(planned(text, GrowFacts(marked=True))[0], Satisfied)


@pytest.mark.parametrize("text", ["growpart: {mode: auto}", "growpart: {mode: gpart, devices: [/]}", "growpart: {}"])
def test_it_stays_on(text: str) -> None:
    assert [type(item) for item in planned(text)] == [Satisfied]
    (step,) = planned(text, GrowFacts(marked=True))
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    assert isinstance(step.ways[0].actions[0], Remove)


def test_the_file_of_the_image_counts_unless_it_is_ignored() -> None:
    disabled = GrowFacts(disabled=True)
    assert isinstance(planned("growpart: {mode: auto}", disabled)[0], Step)
    assert isinstance(planned("growpart: {ignore_growroot_disabled: true}", disabled)[0], Satisfied)


def test_other_file_systems_grow_where_they_are_mounted() -> None:
    text = "growpart: {devices: [/, /data, /dev/sdd1]}"
    assert grown_points(request_of(text)) == ("/data",)
    data = Disk(mount="/data", filesystem="ext4", device="/dev/sdc1", size=10 << 30, filled=5 << 30,
                tools=frozenset({"resize2fs"}))  # fmt: skip
    plan = planned(text, GrowFacts(disks=(data,)))
    assert [type(item) for item in plan] == [Satisfied, Step, Caution]
    assert plan[1].name == "file system at /data"
    assert "/dev/sdd1" in plan[2].name


def test_resizefs_says_what_happens() -> None:
    (item,) = plan_resizefs(request_of("resize_rootfs: noblock"), GrowFacts())
    assert isinstance(item, Satisfied) and "at every boot" in item.why
    (item,) = plan_resizefs(request_of("resize_rootfs: false"), GrowFacts())
    assert "does not grow" in item.why
