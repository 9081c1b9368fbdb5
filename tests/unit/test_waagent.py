"""WALinuxAgent beside azure-init."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.facts.waagent import Kept, Waagent, read_waagent
from azureinit.machine import Machine
from azureinit.plan.actions import MakeDir, Satisfied, Step, Way, Write
from azureinit.plan.show import as_json, as_text
from azureinit.plan.waagent import plan_waagent
from azureinit.record import Secret
from azureinit.sources.metadata import Metadata

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

ID = "550e8400-e29b-41d4-a716-446655440000"
SWAPPED = "00840e55-9be2-d441-a716-446655440000"
LIBRARY = "/var/lib/waagent"
DOCUMENT = Secret("<Environment>customData of somebody</Environment>")


def planned(waagent: Waagent | None, metadata: Metadata | None = None, *, lib_dir: str = LIBRARY) -> Plan:
    return plan_waagent(vm_id=ID, waagent=waagent, lib_dir=lib_dir, metadata=metadata)


def actions(item: object) -> tuple[object, ...]:
    assert isinstance(item, Step)
    (way,) = item.ways
    assert isinstance(way, Way)
    return way.actions


@pytest.mark.parametrize("marker", [None, b"", b"another", b"c0ffee00-1111-4222-8333-444444444444"])
def test_its_marker_is_written_where_it_does_not_know_this_machine(marker: bytes | None) -> None:
    (step,) = planned(Waagent(marker=marker))
    assert actions(step) == (
        MakeDir(path="/var/lib/waagent", mode=0o700),
        Write(path="/var/lib/waagent/provisioned", data=f"{ID}\n".encode(), mode=0o600),
    )


@pytest.mark.parametrize("marker", [ID, f"{ID}\n", ID.upper(), SWAPPED, SWAPPED.upper() + "\n"])
def test_a_marker_of_this_machine_stays_in_either_spelling(marker: str) -> None:
    (item,) = planned(Waagent(marker=marker.encode()))
    assert isinstance(item, Satisfied)


def test_where_it_is_not_installed_nothing_is_planned() -> None:
    assert planned(None, Metadata(document=DOCUMENT, guest_agent_off=True)) == ()


def test_the_media_are_kept_for_it() -> None:
    _marker, step = planned(Waagent(marker=None), Metadata(document=DOCUMENT), lib_dir="/opt/agent/")
    assert actions(step) == (
        MakeDir(path="/opt/agent", mode=0o700, kept=True),
        Write(path="/opt/agent/ovf-env.xml", data=DOCUMENT, mode=0o600),
    )


def test_no_content_of_the_media_is_shown() -> None:
    plan = planned(Waagent(marker=None), Metadata(document=DOCUMENT))
    for shown in (as_text(plan, privileged=True), as_json(plan)):
        assert "/var/lib/waagent/ovf-env.xml" in shown
        assert "customData" not in shown


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_copy_that_is_there_is_all_it_needs(mode: int) -> None:
    kept = Waagent(marker=ID.encode(), media=Kept(data=DOCUMENT, mode=mode))
    assert all(isinstance(item, Satisfied) for item in planned(kept, Metadata(document=DOCUMENT)))


def test_a_copy_stays_when_the_media_are_gone() -> None:
    kept = Waagent(marker=ID.encode(), media=Kept(data=Secret("older"), mode=0o644))
    assert all(isinstance(item, Satisfied) for item in planned(kept, Metadata()))
    assert len(planned(kept, Metadata())) == 2


@pytest.mark.parametrize("kept", [Kept(data=Secret("older"), mode=0o600), Kept(data=DOCUMENT, mode=0o644)])
def test_another_copy_or_one_that_others_can_read_is_replaced(kept: Kept) -> None:
    _marker, item = planned(Waagent(marker=ID.encode(), media=kept), Metadata(document=DOCUMENT))
    assert isinstance(item, Step)


def test_it_is_told_to_rest_where_the_platform_wants_no_agent() -> None:
    (_marker, step) = planned(Waagent(marker=ID.encode()), Metadata(guest_agent_off=True))
    assert actions(step)[1] == Write(path="/var/lib/waagent/disable_agent", data=b"", mode=0o600)
    (_marker, item) = planned(Waagent(marker=ID.encode(), disabled=True), Metadata(guest_agent_off=True))
    assert isinstance(item, Satisfied)


def test_it_is_known_by_its_files(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    assert read_waagent(machine, LIBRARY) is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/waagent.conf").touch()
    assert read_waagent(machine, LIBRARY) == Waagent(marker=None)
    (tmp_path / "opt/agent").mkdir(parents=True)
    (tmp_path / "opt/agent/provisioned").write_text(ID)
    (tmp_path / "opt/agent/ovf-env.xml").write_text("<x/>")
    (tmp_path / "opt/agent/ovf-env.xml").chmod(0o640)
    (tmp_path / "opt/agent/disable_agent").touch()
    assert read_waagent(machine, LIBRARY) == Waagent(marker=None)
    kept = Kept(data=Secret("<x/>"), mode=0o640)
    assert read_waagent(machine, "/opt/agent/") == Waagent(marker=ID.encode(), media=kept, disabled=True)
