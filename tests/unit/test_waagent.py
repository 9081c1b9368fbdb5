"""WALinuxAgent beside us."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.gather import Waagent, read_waagent
from azureinit.machine import Machine
from azureinit.plan.actions import MakeDir, Satisfied, Step, Write
from azureinit.plan.waagent import plan_waagent

ID = "550e8400-e29b-41d4-a716-446655440000"
SWAPPED = "00840e55-9be2-d441-a716-446655440000"


@pytest.mark.parametrize("marker", [None, b"", b"another", b"c0ffee00-1111-4222-8333-444444444444"])
def test_its_marker_is_written_where_it_does_not_know_this_machine(marker: bytes | None) -> None:
    (step,) = plan_waagent(vm_id=ID, waagent=Waagent(marker=marker))
    assert isinstance(step, Step)
    (way,) = step.ways
    assert way.actions == (
        MakeDir(path="/var/lib/waagent", mode=0o700),
        Write(path="/var/lib/waagent/provisioned", data=f"{ID}\n".encode(), mode=0o600),
    )


@pytest.mark.parametrize("marker", [ID, f"{ID}\n", ID.upper(), SWAPPED, SWAPPED.upper() + "\n"])
def test_a_marker_of_this_machine_stays_in_either_spelling(marker: str) -> None:
    (item,) = plan_waagent(vm_id=ID, waagent=Waagent(marker=marker.encode()))
    assert isinstance(item, Satisfied)


def test_where_it_is_not_installed_nothing_is_planned() -> None:
    assert plan_waagent(vm_id=ID, waagent=None) == ()


def test_it_is_known_by_its_files(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    assert read_waagent(machine) is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/waagent.conf").touch()
    assert read_waagent(machine) == Waagent(marker=None)
    (tmp_path / "var/lib/waagent").mkdir(parents=True)
    (tmp_path / "var/lib/waagent/provisioned").write_text(ID)
    assert read_waagent(machine) == Waagent(marker=ID.encode())
