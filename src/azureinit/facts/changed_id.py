"""A machine that was provisioned under another VM id: that id, and files that belong to the earlier VM."""

from __future__ import annotations

from azureinit.facts.machine_state import UNIT_FILES, expand
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from azureinit.machine import Machine

# Not in /run: those files are of this boot, and so of this VM.
LEASES = (
    "/var/lib/dhclient/*",
    "/var/lib/dhcpcd/*",
    "/var/lib/dhcp/*",
    "/var/db/dhclient.leases.*",
    "/var/lib/NetworkManager/dhclient-*.lease",
)
# In WALinuxAgent's directory.
STATE = (
    "HostingEnvironmentConfig.xml",
    "Incarnation",
    "partition",
    "Protocol",
    "SharedConfig.xml",
    "WireServerEndpoint",
    "published_hostname",
    "fast_track.json",
    "initial_goal_state",
    "waagent_rsm_update",
    "waagent_initial_update",
    "waagent-network-setup.py",
    "Extensions.*.xml",
    "ExtensionsConfig.*.xml",
    "GoalState.*.xml",
)
# In each extension's directory: its settings and status. The extension itself stays.
EXTENSION = ("status/*.status", "config/*.settings", "config/HandlerStatus", "mrseq")
AGENT = "WALinuxAgent-"


class EarlierVm(Record):
    vm_id: str  # empty: unknown
    leases: tuple[str, ...] = ()
    state: tuple[str, ...] = ()


def read_earlier_id(
    machine: Machine, *, vm_id: str, spellings: Collection[bytes], data_dir: str, lib_dir: str
) -> str | None:
    """None where this machine was no other VM, by azure-init's markers and WALinuxAgent's."""
    ids = [name[: -len(".provisioned")] for name in machine.names(data_dir) or () if name.endswith(".provisioned")]
    others = [other for other in ids if other != vm_id]
    if others:
        return others[-1]
    marker = machine.read(f"{lib_dir.rstrip('/')}/provisioned", limit=4096)
    if marker is None or vm_id in ids or marker.strip().lower() in spellings:
        return None
    return marker.strip().decode("ascii", "replace")[:36]


def read_earlier_vm(machine: Machine, *, vm_id: str, lib_dir: str) -> EarlierVm:
    library = lib_dir.rstrip("/")
    state = (*(f"{library}/{name}" for name in STATE), *_extensions(machine, library), *UNIT_FILES)
    return EarlierVm(vm_id=vm_id, leases=_found(machine, LEASES), state=_found(machine, state))


def _extensions(machine: Machine, library: str) -> Iterator[str]:
    """Directories NAME-VERSION; WALinuxAgent's own updates have names of the same form."""
    for name in machine.names(library) or ():
        version = name.rpartition("-")[2]
        if version[:1].isdigit() and "-" in name and not name.startswith(AGENT):
            yield from (f"{library}/{name}/{part}" for part in EXTENSION)


def _found(machine: Machine, patterns: Collection[str]) -> tuple[str, ...]:
    found = (path for pattern in patterns for path in expand(machine, pattern))
    return tuple(f"{path}/" if machine.read_link(path) is None and machine.is_dir(path) else path for path in found)
