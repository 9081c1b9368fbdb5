"""WALinuxAgent must not provision: its marker is also written where no plan was ever made."""

from __future__ import annotations

from azureinit.run.enact import best_effort, enact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.state import Context, Identity
    from azureinit.sources.metadata import Metadata


def quiet_waagent(context: Context, identity: Identity, metadata: Metadata | None = None) -> None:
    best_effort(context.events, "waagent marker", lambda: _write_marker(context, identity, metadata))


def _write_marker(context: Context, identity: Identity, metadata: Metadata | None) -> None:
    from azureinit.facts.waagent import read_waagent
    from azureinit.plan.waagent import plan_waagent

    machine, library = context.machine, context.config.waagent.lib_dir
    if context.unmounted is not None:
        from azureinit.facts.mounts import missing_mount

        if missing_mount(machine, library):
            return
    waagent = read_waagent(machine, library)
    if waagent is not None and waagent.marker is not None and context.config.platform.changed_vm_id == "keep":
        from azureinit.run.changed_id import is_evidence

        if is_evidence(context, identity, waagent.marker):
            return
    plan = plan_waagent(vm_id=identity.vm_id, waagent=waagent, lib_dir=library, metadata=metadata)
    enact(machine, plan, events=context.events, deadline=context.deadline)
