"""azure-init's own network configuration: where its files lie, and what they contain."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

NETWORKD_DIR, NETWORKD_RUNTIME, NETWORKD_PREFIX = "/etc/systemd/network", "/run/systemd/network", "zzx-azure-init-"
NETPLAN_FILE = "/etc/netplan/60-azure-init.yaml"
KEYFILES, KEYFILE_PREFIX = "/etc/NetworkManager/system-connections", "azure-init-"
IFUPDOWN_FILE = "/etc/network/interfaces.d/60-azure-init"
SCRIPTS_DIR = "/etc/sysconfig/network-scripts"
SCRIPT_PREFIXES = ("ifcfg-", "route-", "route6-", "rule-", "rule6-")
SCRIPT_MARK = b"# Written by azure-init\n"  # network-scripts takes any name: the first line says whose file it is
# For a mana NIC without a synthetic twin; before 10-azure-init-vf.network. In /run: the next boot may find a twin.
MANA_PREFIX = "10-azure-init-mana-"
MOST_FILES = 512


def read_own_files(machine: Machine) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for directory, prefix, ending in (
        (NETWORKD_DIR, NETWORKD_PREFIX, ".network"),
        (NETWORKD_RUNTIME, MANA_PREFIX, ".network"),
        (KEYFILES, KEYFILE_PREFIX, ".nmconnection"),
    ):
        for name in _names(machine, directory):
            if name.startswith(prefix) and name.endswith(ending):
                found[f"{directory}/{name}"] = machine.read(f"{directory}/{name}") or b""
    for path in (NETPLAN_FILE, IFUPDOWN_FILE):
        data = machine.read(path) if machine.is_open(path) else None
        if data is not None:
            found[path] = data
    for name in _names(machine, SCRIPTS_DIR):
        if name.startswith(SCRIPT_PREFIXES):
            data = machine.read(f"{SCRIPTS_DIR}/{name}") or b""
            if data.startswith(SCRIPT_MARK):
                found[f"{SCRIPTS_DIR}/{name}"] = data
    return found


def _names(machine: Machine, directory: str) -> tuple[str, ...]:
    """Only root may look into some of them."""
    return tuple(machine.names(directory) or ())[:MOST_FILES] if machine.is_open(directory) else ()
