"""Distributions as rows of a table: what cannot be read from the machine itself.

Looked up by os-release ID, then ID_LIKE in order, then the default row. Never an `if` on a name.
"""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

# Kernel arguments of systems that Ignition configures.
IGNITION_WORDS = (b"ignition.", b"flatcar.oem.id=", b"flatcar.first_boot", b"coreos.oem.id=", b"coreos.first_boot")
OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")


class Distro(Record):
    id: str
    # The host's own name is resolved by a 127.0.1.1 line in /etc/hosts.
    hosts_line: bool = False
    # Must sort before the vendor's drop-ins: the first value that sshd reads counts.
    sshd_dropin: str = "/etc/ssh/sshd_config.d/00-azure-init.conf"
    # The image's own account for an admin, though its uid is in the system's range.
    admin: str | None = None
    # The system's own package manager; None: the first one that is installed.
    package_manager: str | None = None


ROWS = {
    "default": Distro(id="default"),
    "debian": Distro(id="debian", hosts_line=True),
    "ubuntu": Distro(id="ubuntu", hosts_line=True),
    "fedora": Distro(id="fedora", package_manager="dnf"),
    "rhel": Distro(id="rhel", package_manager="dnf"),
    "azurelinux": Distro(id="azurelinux"),
    "mariner": Distro(id="mariner"),
    "suse": Distro(id="suse", package_manager="zypper"),
    "arch": Distro(id="arch"),
    "alpine": Distro(id="alpine", hosts_line=True),
    "flatcar": Distro(id="flatcar", admin="core"),
}


def parse_os_release(data: bytes) -> dict[str, str]:
    values = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith("#"):
            values[key] = value.strip().strip("\"'")
    return values


def choose_distro(release: dict[str, str]) -> Distro:
    for name in (release.get("ID", ""), *release.get("ID_LIKE", "").split()):
        if name in ROWS:
            return ROWS[name]
    return ROWS["default"]


def read_release(machine: Machine) -> dict[str, str]:
    for path in OS_RELEASE:
        data = machine.read(path, limit=64 * 1024)
        if data is not None:
            return parse_os_release(data)
    return {}
