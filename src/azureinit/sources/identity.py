"""The VM's id, and whether it is on Azure: from the firmware, without the network."""

from __future__ import annotations

from azureinit.errors import ConfigInvalid, LocalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
ZERO = "00000000-0000-0000-0000-000000000000"
UNSET_IDS = (ZERO, "ffffffff-ffff-ffff-ffff-ffffffffffff")  # SMBIOS: not present, not set
SWITCH = "azure-init="
CLOUD_INIT = "/run/cloud-init/enabled"
EFI = ("/sys/firmware/efi", "/dev/efi")


def is_azure(machine: Machine) -> bool:
    tag = machine.read("/sys/class/dmi/id/chassis_asset_tag", limit=4096) or b""
    return tag.decode("ascii", "replace").strip() == ASSET_TAG


def stand_down(machine: Machine, *, require_azure: bool, beside_cloud_init: bool = False) -> str | None:
    """Why this agent must not work on the machine; None if it may. The kernel command line overrides all else.

    `beside_cloud_init`: for work that cloud-init leaves alone.
    """
    word = _kernel_word(machine)
    if word == "off":
        return "the kernel's command line says azure-init=off: nothing to do"
    if word == "force":
        return None
    if require_azure and not is_azure(machine):
        return "this is not an Azure VM (platform.require_azure): nothing to do"
    if not beside_cloud_init and not machine.rooted and machine.stat(CLOUD_INIT) is not None and _asks_azure(machine):
        return "cloud-init is enabled and provisions this machine (override: azure-init=force on the command line)"
    return None


def _kernel_word(machine: Machine) -> str:
    words = (machine.read("/proc/cmdline", limit=1 << 16) or b"").decode("ascii", "replace").split()
    return next((word[len(SWITCH) :] for word in reversed(words) if word.startswith(SWITCH)), "")


def _asks_azure(machine: Machine) -> bool:
    """Whether cloud-init's detection chose Azure; True if it is not recorded."""
    chosen = machine.read("/run/cloud-init/cloud.cfg", limit=1 << 16)
    return chosen is None or b"datasource_list" not in chosen or b"Azure" in chosen


def read_vm_id(machine: Machine, configured: str) -> str | None:
    """The configured id, else the firmware's; None if neither is available (IMDS may have it)."""
    if configured:
        found = parse_vm_id(configured, swapped=False)
        if found is None:
            raise ConfigInvalid(
                f"platform.vm_id must be the UUID of a VM, not {configured!r}",
                hint="remove it: the firmware has the id",
            )
        return found
    try:
        text = machine.read("/sys/class/dmi/id/product_uuid", limit=4096)
    except LocalError:
        return None  # readable by root only
    if text is None:
        return None
    generation_2 = any(machine.stat(path) is not None for path in EFI)
    return parse_vm_id(text.decode("ascii", "replace"), swapped=not generation_2)


def parse_vm_id(text: str, *, swapped: bool) -> str | None:
    """Lower case; on Gen1 the first three groups are byte-swapped (SMBIOS before 2.6 was read big-endian)."""
    value = text.strip().lower()
    groups = value.split("-")
    if [len(group) for group in groups] != [8, 4, 4, 4, 12] or not value.isascii():
        return None
    try:
        raw = bytes.fromhex("".join(groups))
    except ValueError:
        return None
    if len(raw) != 16:  # fromhex() skips blanks
        return None
    if swapped:
        raw = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
    digits = raw.hex()
    value = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return None if value in UNSET_IDS else value
