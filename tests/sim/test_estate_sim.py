"""The installed program on several machines at once, all of them served by one platform."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fakeazure import Expect, Fabric, Fleet, Machine, Scenario, Vm
from support.bench import PYTHON, QUICK, SRC
from support.trees import make_tree


def start(machine: Machine, directory: Path) -> subprocess.Popen[str]:
    directory.mkdir()
    config = directory / "azure-init.toml"
    config.write_text(machine.config_text(**QUICK))
    command = [PYTHON, "-m", "azureinit", "--config", str(config), "--root", str(make_tree(directory / "root"))]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_every_machine_gets_its_own_name_and_tells_its_own_verdict(tmp_path: Path) -> None:
    with Fleet(by="path") as fleet:
        machines = [fleet.add(Scenario(vm=Vm(name=f"web-{n}"))) for n in range(4)]
        machines.append(fleet.add(Scenario(vm=Vm(name="bad", username="root"), expect=Expect(verdict="failure"))))
        agents = [start(machine, tmp_path / machine.vm.name) for machine in machines]
        said = [agent.communicate(timeout=60)[1] for agent in agents]
        assert [machine.judge().state for machine in machines] == ["ready"] * 4 + ["failed"], said
        assert all(machine.judge().ok for machine in machines)
        assert not fleet.ledger.requests
    for n in range(4):
        assert (tmp_path / f"web-{n}/root/etc/hostname").read_text() == f"web-{n}\n"


@pytest.mark.fakeazure(scenario="imds-html")
def test_the_fixture_leads_the_program_to_the_platform(fakeazure: Fabric, tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), **fakeazure.environment}
    command = [PYTHON, "-m", "azureinit", "--root", str(make_tree(tmp_path / "root"))]
    subprocess.run(command, env=environ, capture_output=True, timeout=60, check=False)
    assert fakeazure.judge().ok
