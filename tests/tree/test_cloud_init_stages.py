"""Stages of every boot where azure-init stands in for cloud-init: what they leave, and when they do nothing."""

from __future__ import annotations

import json
from pathlib import Path

from azureinit.config.model import Config, Userdata
from azureinit.facts.cloud_init_state import read_state
from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.userdata import SavedUserdata, read_userdata, write_userdata
from azureinit.record import Secret
from azureinit.run.serving import is_due
from azureinit.run.state import Context, Identity
from azureinit.run.userdata import userdata
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events

VM = Instance(data_dir="/var/lib/azure-init", vm_id="7927c4b2-7f71-4cad-9429-388b06e1022c")
ASKED = Metadata(username="ada", hostname="web-1", about={"location": "westeurope"})
COMPATIBLE = Config(userdata=Userdata(cloud_init_compat=True))


class Tree(Machine):
    """Every stage is a process of its own on a real machine, and its end releases the locks."""

    def hold(self, path: str, *, timeout: float, note: bytes = b"") -> bytes:
        return b""


def vm(root: Path, *, served: bool) -> Machine:
    machine = Tree(root=str(root), environ={})
    machine.make_dirs(VM.data_dir, mode=0o700)
    for name in ("run", "var/log", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    if served:
        write_userdata(machine, VM, SavedUserdata(source="", data=Secret(b""), metadata=ASKED))
    return machine


def stage(machine: Machine, name: str) -> int:
    events = Events(clock=machine.clock, listeners=())
    context = Context(machine=machine, config=COMPATIBLE, events=events, started=machine.clock.monotonic())
    return userdata(context, Identity(vm_id=VM.vm_id, instance=VM), name)


def test_without_customdata_the_files_are_there_and_say_done(tmp_path: Path) -> None:
    machine = vm(tmp_path, served=True)
    assert is_due(machine, COMPATIBLE, VM) and not is_due(vm(tmp_path / "other", served=False), Config(), VM)
    assert [stage(machine, name) for name in ("network", "config", "final")] == [0, 0, 0]
    state = read_state(machine)
    assert state.finished and set(state.stages) >= {"init-local", "init", "modules-config", "modules-final"}
    assert (tmp_path / f"var/lib/cloud/instances/{VM.vm_id}/boot-finished").exists()
    known = json.loads((tmp_path / "run/cloud-init/instance-data.json").read_text())
    assert known["v1"]["region"] == "westeurope" and known["v1"]["local_hostname"] == "web-1"


def test_where_the_run_did_not_get_that_far_a_stage_does_nothing(tmp_path: Path) -> None:
    assert stage(vm(tmp_path, served=False), "network") == 0
    assert not (tmp_path / "run/azure-init/userdata.json").exists() and not (tmp_path / "run/cloud-init").exists()


def test_what_imds_says_of_the_vm_is_kept_for_the_stages(tmp_path: Path) -> None:
    saved = read_userdata(vm(tmp_path, served=True), VM)
    assert saved is not None and saved.metadata.about == {"location": "westeurope"}
