"""Which VM this is, and whether it is provisioned already. Needs no network."""

from __future__ import annotations

from azureinit.memory.instance import POOL_FILE, Instance, has_files, is_marked
from azureinit.run.state import AlreadyProvisioned, Identity, Knowing, Known
from azureinit.sources.identity import read_vm_id, stand_down

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine
    from azureinit.run.state import Context


def may_change(machine: Machine) -> bool:
    """Unprivileged callers must not report."""
    return machine.privileged or machine.rooted


def why_not_ours(context: Context, *, beside_cloud_init: bool = False) -> str | None:
    require = context.config.platform.require_azure
    return stand_down(context.machine, require_azure=require, beside_cloud_init=beside_cloud_init)


def identify(context: Context, *, end_if_done: bool = True) -> Identity:
    """The id from the configuration or the firmware; unknown if neither has it, since IMDS may."""
    return adopt_vm_id(context, read_vm_id(context.machine, context.config.platform.vm_id), end_if_done=end_if_done)


def adopt_vm_id(context: Context, vm_id: str | None, *, end_if_done: bool = True) -> Identity:
    """Raises AlreadyProvisioned if the VM with this id is provisioned."""
    if vm_id is None:
        return Identity()
    context.events.about["vm_id"] = vm_id
    if context.unmounted is not None:
        return Identity(vm_id=vm_id)
    data_dir = context.config.azure_init_data_dir.path
    with Knowing(Known(identity=Identity(vm_id=vm_id))):
        looks = end_if_done or context.machine.is_open(data_dir)  # `plan` works for any user
        if looks and context.machine.stat(f"{data_dir.rstrip('/')}/{POOL_FILE}") is not None:
            from azureinit.memory.pool import customers_id

            vm_id = customers_id(context.machine, data_dir, vm_id)
            context.events.about["vm_id"] = vm_id
    instance = Instance(data_dir=data_dir, vm_id=vm_id)
    identity = Identity(vm_id=vm_id, instance=instance)
    with Knowing(Known(identity=identity)):
        if end_if_done and is_marked(context.machine, instance):
            raise AlreadyProvisioned(identity)
        if end_if_done and _was_provisioned_by_waagent(context, instance):
            raise AlreadyProvisioned(identity, " by WALinuxAgent")
    return identity


def _was_provisioned_by_waagent(context: Context, instance: Instance) -> bool:
    """Whether WALinuxAgent has provisioned this VM, and azure-init never began to."""
    from azureinit.facts.waagent import read_waagent_marker

    marker = read_waagent_marker(context.machine, context.config.waagent.lib_dir)
    if marker is None or has_files(context.machine, instance):
        return False
    from azureinit.plan.waagent import spellings

    return marker in spellings(instance.vm_id)
