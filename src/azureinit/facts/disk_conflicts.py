"""Other agents that would set up the SCSI resource disk: WALinuxAgent and cloud-init."""

from __future__ import annotations

from azureinit.config.model import WAAGENT_CONF
from azureinit.errors import LocalError
from azureinit.facts.waagent import PLACES, SHIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.temporary_disks import FstabEntry
    from azureinit.machine import Machine

FORMAT = b"ResourceDisk.Format"
PROGRAMS = tuple(path for path in PLACES if path not in WAAGENT_CONF)
UNITS = ("/etc/systemd/system/walinuxagent.service", "/etc/systemd/system/waagent.service")
MASKED = "/dev/null"
CLOUD_INIT = "/run/cloud-init/enabled"
CLOUD_INIT_CHOICE = "/run/cloud-init/cloud.cfg"
CLOUD_INIT_SOURCE, CLOUD_INIT_OPTION = "azure_resource", "comment=cloudconfig"


def read_waagent_formats(machine: Machine) -> str:
    """The waagent.conf that says ResourceDisk.Format=y, if WALinuxAgent is installed and its unit is not masked.

    Its daemon formats before it provisions, so neither its marker nor disable_agent keeps it from that.
    """
    installed = any(machine.stat(path) is not None and machine.read_link(path) != SHIM for path in PROGRAMS)
    if not installed or any(machine.read_link(unit) == MASKED for unit in UNITS):
        return ""
    for path in WAAGENT_CONF:
        try:
            data = machine.read(path)
        except LocalError:
            return path  # unknown: as if it formatted
        if data is not None:
            return path if parse_formats(data) else ""
    return ""


def parse_formats(data: bytes) -> bool:
    """As WALinuxAgent reads the switch: the last line counts, and only y and n in either case mean something."""
    formats = False
    for line in data.split(b"\n"):
        name, equals, rest = line.partition(b"=")
        if not line.startswith(b"#") and equals and name.strip() == FORMAT:
            formats = rest.partition(b"#")[0].strip(b'" ').strip().lower() == b"y"
    return formats


def read_cloud_init(machine: Machine, entries: tuple[FstabEntry, ...]) -> str:
    """How it is known that cloud-init sets up the resource disk; empty if it does not."""
    for entry in entries:
        if CLOUD_INIT_SOURCE in entry.source and CLOUD_INIT_OPTION in entry.options.split(","):
            return f"fstab: its entry mounts {entry.source} at {entry.point}"
    if machine.stat(CLOUD_INIT) is None:
        return ""
    # Without a recorded choice, cloud-init may choose Azure.
    chosen = machine.read(CLOUD_INIT_CHOICE, limit=1 << 16)
    asks_azure = chosen is None or b"datasource_list" not in chosen or b"Azure" in chosen
    return f"enabled: {CLOUD_INIT} exists" if asks_azure else ""
