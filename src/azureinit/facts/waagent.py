"""WALinuxAgent beside azure-init: whether it is installed, and its records of this machine."""

from __future__ import annotations

from azureinit.config.model import WAAGENT_CONF
from azureinit.machine import MOST_BYTES
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

PLACES = (
    *WAAGENT_CONF,
    "/usr/sbin/waagent",
    "/usr/bin/waagent",
)
SHIM = "../lib/azure-init/waagent"  # azure-init's own program of that name; a package links to it


class Kept(Record):
    """A file that may hold secrets."""

    data: Secret
    mode: int


class Waagent(Record):
    """WALinuxAgent is installed, for extensions."""

    marker: bytes | None  # the id of the VM that is provisioned
    hidden: bool = False  # its directory cannot be read without privileges
    media: Kept | None = None  # its copy of ovf-env.xml
    disabled: bool = False
    published: bytes | None = None  # the host name that was published to DNS


def read_waagent(machine: Machine, lib_dir: str) -> Waagent | None:
    if all(machine.stat(path) is None or machine.read_link(path) == SHIM for path in PLACES):
        return None
    if not machine.is_open(lib_dir):
        return Waagent(marker=None, hidden=True)
    library = lib_dir.rstrip("/")
    return Waagent(
        marker=machine.read(f"{library}/provisioned", limit=4096),
        media=read_kept(machine, f"{library}/ovf-env.xml"),
        disabled=machine.stat(f"{library}/disable_agent") is not None,
        published=machine.read(f"{library}/published_hostname", limit=4096),
    )


def read_kept(machine: Machine, path: str) -> Kept | None:
    found = machine.read_with_status(path, limit=MOST_BYTES)
    return None if found is None else Kept(data=Secret(found[0]), mode=found[1].st_mode & 0o7777)


def read_waagent_marker(machine: Machine, lib_dir: str) -> bytes | None:
    """The id of the VM that WALinuxAgent has provisioned. Its own marker has no line end; azure-init's has one."""
    found = machine.read(f"{lib_dir.rstrip('/')}/provisioned", limit=4096)
    return None if found is None or found.endswith(b"\n") else found.lower()
