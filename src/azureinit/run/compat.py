"""Writes the files in which other programs look for cloud-init's state. A failure of it fails no stage."""

from __future__ import annotations

from azureinit.run.enact import best_effort, enact
from azureinit.telemetry.events import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.memory.userdata import SavedUserdata
    from azureinit.run.state import Context


SECS = 60.0


def write_compat(context: Context, result: Mapping[str, Any], *, vm_id: str, saved: SavedUserdata | None) -> None:
    """`result`: the content of /run/azure-init/userdata.json. Called when a stage begins and when it ends."""
    from azureinit.facts.final import read_moment
    from azureinit.machine.service import boot_moment
    from azureinit.modules.compat_files import DATASOURCE, is_finished, plan_compat_files
    from azureinit.userdata.instance_data import cloud_id
    from azureinit.version import VERSION

    machine = context.machine
    until = machine.clock.monotonic() + SECS  # a stage may take longer than a run

    def write() -> None:
        moment = read_moment(machine)
        finished = f"{moment.uptime} - {moment.timestamp} - v. {VERSION}"
        began = machine.clock.now() - machine.clock.monotonic() + boot_moment(machine)
        data = saved.data if saved is not None else None
        region = saved.metadata.about.get("location", "") if saved is not None else ""
        plan = plan_compat_files(result, vm_id=vm_id, data=data, finished=finished, began=began, cloud=cloud_id(region))
        if is_finished(result):
            told = f"Cloud-init v. {VERSION} finished at {moment.timestamp}. Datasource {DATASOURCE}.  "
            context.events.tell(INFO, "cloud-init", f"{told}Up {moment.uptime} seconds")
        enact(machine, plan, events=context.events, deadline=until)

    best_effort(context.events, "files of cloud-init", write)
    if saved is not None:
        best_effort(context.events, "instance data", lambda: _tell_instance_data(context, saved, vm_id))


def _tell_instance_data(context: Context, saved: SavedUserdata, vm_id: str) -> None:
    """In a boot that has nothing to carry out. Otherwise the network stage writes it, when it reads the document."""
    from azureinit.modules.compat_files import RUN
    from azureinit.run.instance_data import PUBLIC, make_instance_data
    from azureinit.run.request import write_known

    if context.machine.stat(f"{RUN}/{PUBLIC}") is None:
        known = make_instance_data(context.machine, saved.metadata, vm_id=vm_id, userdata=saved.data or None)
        write_known(context, known)
