"""What disk_setup and fs_setup have in common: which disk a name means, and whether it may be written to."""

from __future__ import annotations

from azureinit.errors import CustomDataFailed
from azureinit.plan.actions import Declined, Step, Untouched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.disk_content import Content
    from azureinit.facts.named_disks import NamedDisk, NamedDisks, NamedPartition
    from azureinit.modules.device_names import Named


def refusal(name: str, why: str, *, reason: str) -> Step:
    ways = (Declined(backend="azure-init", why=why),)
    return Step(name=name, why=reason, ways=ways, failure=CustomDataFailed)


def find_disk(facts: NamedDisks, device: Named) -> NamedDisk | None:
    """The disk that a name means; also of a name that means a partition."""
    path = dict(facts.names).get(device.device, "")
    for disk in facts.disks:
        if path == disk.path or any(part.path == path for part in disk.partitions):
            return disk
    return None


def protected(disk: NamedDisk) -> str:
    """Why nothing may be written to it, whatever customData says."""
    if disk.system:
        return f"{disk.path} is the operating system's disk: {disk.system}"
    if disk.temporary:
        return f"{disk.path} is a temporary disk: customData has to call it ephemeral0"
    if disk.trouble:
        return f"{disk.path} cannot be read: {disk.trouble}"
    if disk.read_only:
        return f"{disk.path} is read-only"
    if disk.busy:
        return f"{disk.path} is in use: {disk.busy}"
    content = disk.content
    read = content is not None and content.size == disk.size and content.regions and content.digest
    return "" if read else f"the content of {disk.path} was not read completely"


def untouched(disk: NamedDisk, part: NamedPartition | None = None) -> Untouched:
    device = part or disk
    content = device.content
    regions, digest = (content.regions, content.digest) if content is not None else ((), "")
    return Untouched(path=device.path, size=device.size, regions=regions, digest=digest, sequence=disk.sequence)


def described(content: Content | None) -> str:
    if content is None:
        return "unknown data"
    if content.ambiguous:
        return f"something ambiguous ({content.ambiguous})"
    held = dict.fromkeys(f"{one.kind}{f' labelled {one.label}' if one.label else ''}" for one in content.signatures)
    return " and ".join(held) or "data of an unknown kind"
