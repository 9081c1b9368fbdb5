"""WALinuxAgent beside azure-init: it stays for extensions, and gets the files that its own provisioning writes."""

from __future__ import annotations

from azureinit.plan.actions import MakeDir, Satisfied, Step, Unknown, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.waagent import Waagent
    from azureinit.plan.actions import Action, Item, Plan
    from azureinit.record import Secret
    from azureinit.sources.metadata import Metadata


def plan_waagent(*, vm_id: str | None, waagent: Waagent | None, lib_dir: str, metadata: Metadata | None = None) -> Plan:
    """Written after success and after failure: WALinuxAgent's own Ready would hide a failure and eject the media."""
    if waagent is None or vm_id is None:
        return ()
    if waagent.hidden:
        return (Unknown(name="waagent marker", why=f"{lib_dir} cannot be read"),)
    document = metadata.document if metadata is not None else None
    off = metadata is not None and metadata.guest_agent_off
    return (
        _plan_marker(vm_id, waagent, lib_dir),
        *_plan_media(document, waagent, lib_dir),
        *((_plan_off(waagent, lib_dir),) if off else ()),
    )


def in_library(lib_dir: str, name: str) -> str:
    return f"{lib_dir.rstrip('/')}/{name}"


def write_private(lib_dir: str, name: str, data: bytes | Secret, *, mode: int = 0o600) -> tuple[Action, ...]:
    """Write a file into a directory that only root may read."""
    directory = MakeDir(path=lib_dir.rstrip("/") or "/", mode=0o700, kept=_is_shared(lib_dir))
    return (directory, Write(path=in_library(lib_dir, name), data=data, mode=mode))


def _is_shared(directory: str) -> bool:
    """Whether the path is too short for one program's directory: with mode 0700, /var/lib would break the machine."""
    parts = [part for part in directory.split("/") if part]
    return len(parts) < 3 or "." in parts or ".." in parts


def _plan_marker(vm_id: str, waagent: Waagent, lib_dir: str) -> Item:
    """With this marker WALinuxAgent neither provisions nor reports."""
    name = "waagent marker"
    if waagent.marker is not None and waagent.marker.strip().lower() in spellings(vm_id):
        return Satisfied(name=name, why="says that this VM is provisioned")
    why = "WALinuxAgent is installed, and must not provision too"
    did = "told WALinuxAgent that this machine is provisioned"
    return _step(name, why, did, write_private(lib_dir, "provisioned", f"{vm_id}\n".encode()))


def _plan_media(document: Secret | None, waagent: Waagent, lib_dir: str) -> Plan:
    name, kept = "waagent media", waagent.media
    if kept is not None and (document is None or (kept.data == document and not kept.mode & 0o077)):
        return (Satisfied(name=name, why="WALinuxAgent has a copy of ovf-env.xml"),)
    if document is None:
        return ()
    why = "WALinuxAgent reads ovf-env.xml after the media are ejected; without the password"
    did = "gave WALinuxAgent a copy of ovf-env.xml, without the password"
    return (_step(name, why, did, write_private(lib_dir, "ovf-env.xml", document)),)


def _plan_off(waagent: Waagent, lib_dir: str) -> Item:
    name = "waagent off"
    if waagent.disabled:
        return Satisfied(name=name, why="WALinuxAgent is disabled")
    why = "ProvisionGuestAgent is false: no extensions on this machine"
    return _step(name, why, f"disabled WALinuxAgent: {why}", write_private(lib_dir, "disable_agent", b""))


def _step(name: str, why: str, did: str, actions: tuple[Action, ...]) -> Step:
    return Step(name=name, why=why, did=did, ways=(Way(backend="native", actions=actions),))


def spellings(vm_id: str) -> tuple[bytes, bytes]:
    """The id as WALinuxAgent accepts it: as it is, and as Gen1 firmware has it, the first three groups byte-swapped."""
    raw = bytes.fromhex(vm_id.replace("-", ""))
    digits = (raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]).hex()
    return vm_id.encode(), "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])).encode()
