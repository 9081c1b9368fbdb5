"""The copy of customData that the stages read."""

from __future__ import annotations

from pathlib import Path

from azureinit.machine import Machine
from azureinit.memory.instance import Instance
from azureinit.memory.userdata import CUSTOM_DATA, SavedUserdata, read_userdata, write_userdata
from azureinit.record import Secret
from azureinit.run.instance_data import make_instance_data
from azureinit.sources.metadata import Metadata

VM_ID = "e11a8115-45be-46aa-a262-2b0b2fe7b951"


def test_the_stages_know_what_imds_said_about_the_vm(tmp_path: Path) -> None:
    machine, instance = Machine(root=str(tmp_path)), Instance(data_dir="/", vm_id=VM_ID)
    metadata = Metadata(username="me", about={"location": "westeurope", "vmSize": "Standard_B1s"})
    saved = SavedUserdata(source=CUSTOM_DATA, data=Secret(b"#cloud-config\n"), metadata=metadata)
    write_userdata(machine, instance, saved)
    found = read_userdata(machine, instance)
    assert found is not None and found.metadata.about == metadata.about
    known = make_instance_data(machine, found.metadata, vm_id=VM_ID)
    assert known["v1"]["region"] == "westeurope"
