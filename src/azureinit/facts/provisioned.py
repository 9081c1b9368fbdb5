"""Records of other agents that they have provisioned this VM."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

CLOUD_INIT_ID = "/var/lib/cloud/data/instance-id"
CLOUD_INIT_INSTANCES = "/var/lib/cloud/instances"


def was_provisioned(machine: Machine, *, spellings: tuple[bytes, ...], lib_dir: str) -> bool:
    """By cloud-init or WALinuxAgent, as the VM with this id. Its host keys are then its own, not the image's."""
    waagent = machine.read(f"{lib_dir.rstrip('/')}/provisioned", limit=4096) or b""
    if waagent.lower() in spellings:  # with a line feed azure-init wrote it, to keep WALinuxAgent from provisioning
        return True
    cloud_init = machine.read(CLOUD_INIT_ID, limit=4096) or b""
    names = machine.names(CLOUD_INIT_INSTANCES) or ()
    known = {cloud_init.strip().lower(), *(name.lower().encode() for name in names)}
    return not known.isdisjoint(spellings)
