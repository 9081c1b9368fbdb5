"""Writes the files in which other programs look for cloud-init's state. A failure of it fails no stage."""

from __future__ import annotations

from azureinit.run.enact import best_effort, enact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from azureinit.record import Secret
    from azureinit.run.state import Context


def write_compat(context: Context, result: Mapping[str, Any], *, vm_id: str, data: Secret | None) -> None:
    """`result`: the content of /run/azure-init/userdata.json. Called when a stage begins and when it ends."""
    from azureinit.facts.final import read_moment
    from azureinit.modules.compat_files import plan_compat_files
    from azureinit.version import VERSION

    machine = context.machine

    def write() -> None:
        moment = read_moment(machine)
        finished = f"{moment.uptime} - {moment.timestamp} - v. {VERSION}"
        plan = plan_compat_files(result, vm_id=vm_id, data=data, finished=finished)
        enact(machine, plan, events=context.events, deadline=context.deadline)

    best_effort(context.events, "files of cloud-init", write)
