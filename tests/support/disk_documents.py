"""Runs inside the guest of `disk_guest`: the disk modules of a cloud-config, as the network stage runs them."""

from __future__ import annotations

import sys

from azureinit.config.model import Config
from azureinit.errors import AzureInitError
from azureinit.machine import Machine
from azureinit.modules.request import Request
from azureinit.plan.actions import work_left
from azureinit.run.disk_modules import DISK_MODULES
from azureinit.run.enact import enact
from azureinit.run.modules import plans_of
from azureinit.sources.metadata import Metadata
from azureinit.telemetry.events import Events
from azureinit.userdata.document import read_document

VM_ID = "c0ffee00-1111-2222-3333-444444444444"


def main(path: str) -> int:
    """Prints every item of every plan, and the failures. Returns how many steps were done."""
    with open(path, "rb") as file:
        document = read_document(file.read())
    assert not document.errors, document.errors
    machine, config = Machine(), Config()
    directory = f"{config.azure_init_data_dir.path}/{VM_ID}.d"
    request = Request(
        config=document.config, settings=config, metadata=Metadata(), vm_id=VM_ID, directory=directory, rooted=False
    )
    machine.make_dirs(config.azure_init_data_dir.path, mode=0o700)
    done = 0
    for module in DISK_MODULES:
        if not module.asked(request):
            continue
        try:
            for plan in plans_of(module, machine, request):
                for item in plan:
                    print(f"{module.name}: {type(item).__name__.lower()} {item.name}: {item.why}")
                done += len(work_left(plan))
                deadline = machine.clock.monotonic() + 300
                enact(machine, plan, events=Events(clock=machine.clock), deadline=deadline)
        except AzureInitError as error:
            print(f"{module.name}: failed: {error}")
    print(f"steps: {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
