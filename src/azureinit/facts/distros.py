"""Distributions as rows of a table: what cannot be read from the machine itself.

Looked up by os-release ID, then ID_LIKE in order, then the default row. Never an `if` on a name.
"""

from __future__ import annotations

from azureinit.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

# Kernel arguments of systems that Ignition configures.
IGNITION_WORDS = (b"ignition.", b"flatcar.oem.id=", b"flatcar.first_boot", b"coreos.oem.id=", b"coreos.first_boot")
OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")


class CaStore(Record):
    """Where certificate authorities lie, and the tool that makes bundles of them."""

    # Files of the administrator.
    directory: str = "/usr/local/share/ca-certificates"
    tool: str = "update-ca-certificates"
    # A list of the vendor's certificates in which a line is disabled by an exclamation mark.
    config: str | None = "/etc/ca-certificates.conf"
    # Directories of the vendor's certificates.
    defaults: tuple[str, ...] = ()


CA_TRUST = CaStore(
    directory="/etc/pki/ca-trust/source/anchors",
    tool="update-ca-trust",
    config=None,
    defaults=("/usr/share/pki/ca-trust-source",),
)
CA_SUSE = CaStore(directory="/etc/pki/trust/anchors", config=None, defaults=("/usr/share/pki/trust",))

HOSTS_4 = "127.0.0.1 localhost.localdomain localhost\n127.0.0.1 localhost4.localdomain4 localhost4\n"
HOSTS_6 = "::1 localhost6.localdomain6 localhost6\n"
HOSTS_RPM = (
    "127.0.0.1 {fqdn} {hostname}\n"
    + HOSTS_4
    + "\n::1 {fqdn} {hostname}\n::1 localhost.localdomain localhost\n"
    + HOSTS_6
)
HOSTS_DEBIAN = (
    "127.0.1.1 {fqdn} {hostname}\n127.0.0.1 localhost\n\n"
    "::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
)
HOSTS_SUSE = (
    HOSTS_RPM.replace("127.0.0.1 {", "127.0.1.1 {", 1)
    + "::1 localhost ipv6-localhost ipv6-loopback\n\nfe00::0 ipv6-localnet\nff00::0 ipv6-mcastprefix\n"
    "ff02::1 ipv6-allnodes\nff02::2 ipv6-allrouters\nff02::3 ipv6-allhosts\n"
)
HOSTS_ALPINE = (
    HOSTS_4 + "127.0.1.1 {fqdn} {hostname}\n\n" + HOSTS_6 + "\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
)
CHRONY, TIMESYNCD, NTPD = "chrony", "systemd-timesyncd", "ntp"


class Distro(Record):
    id: str
    # The word for it in the names of cloud-init's templates.
    family: str = ""
    # The host's own name is resolved by a 127.0.1.1 line in /etc/hosts.
    hosts_line: bool = False
    # Must sort before the vendor's drop-ins: the first value that sshd reads counts.
    sshd_dropin: str = "/etc/ssh/sshd_config.d/00-azure-init.conf"
    # The image's own account for an admin, though its uid is in the system's range.
    admin: str | None = None
    # The system's own package manager; None: the first one that is installed.
    package_manager: str | None = None
    # The host's name is its fully qualified one, where customData gives both.
    prefer_fqdn: bool = False
    # The lines of /etc/hosts, where customData has them written.
    hosts: str = HOSTS_RPM
    ca: CaStore = CaStore()
    locale_file: str = "/etc/locale.conf"
    # The package that makes locales.
    locale_package: str = ""
    # The locale's file is read by the shell.
    locale_export: bool = False
    # The name of the time zone is kept in /etc/timezone, too.
    timezone_file: bool = False
    keyboard_file: str | None = None
    # NTP clients in the order in which they are preferred, the file of chrony and the units.
    ntp_clients: tuple[str, ...] = (CHRONY, TIMESYNCD, NTPD)
    chrony_file: str = "/etc/chrony.conf"
    chrony_unit: str = "chronyd"
    ntp_unit: str = "ntpd"
    # The zone of pool.ntp.org.
    ntp_pool: str = ""


DEBIAN = Distro(
    id="debian",
    family="debian",
    hosts_line=True,
    hosts=HOSTS_DEBIAN,
    locale_file="/etc/default/locale",
    locale_package="locales",
    timezone_file=True,
    keyboard_file="/etc/default/keyboard",
    chrony_file="/etc/chrony/chrony.conf",
    chrony_unit="chrony",
    ntp_unit="ntp",
    ntp_pool="debian",
)
RHEL = Distro(id="rhel", family="redhat", prefer_fqdn=True, ca=CA_TRUST, ntp_pool="rhel", package_manager="dnf")
ROWS = {
    "default": Distro(id="default"),
    "debian": DEBIAN,
    "ubuntu": replace(DEBIAN, id="ubuntu", ntp_clients=(TIMESYNCD, CHRONY, NTPD), ntp_pool="ubuntu"),
    "fedora": replace(RHEL, id="fedora", ntp_pool="fedora"),
    "rhel": RHEL,
    "azurelinux": replace(RHEL, id="azurelinux", family="azurelinux", ntp_pool="", package_manager=None),
    "mariner": replace(RHEL, id="mariner", family="mariner", ntp_pool="", package_manager=None),
    "suse": Distro(
        id="suse", family="suse", hosts=HOSTS_SUSE, ca=CA_SUSE, ntp_pool="opensuse", package_manager="zypper"
    ),
    "arch": Distro(id="arch", family="arch", ca=CA_TRUST, timezone_file=True, ntp_pool="arch"),
    "alpine": Distro(
        id="alpine",
        family="alpine",
        hosts_line=True,
        hosts=HOSTS_ALPINE,
        locale_file="/etc/profile.d/50-cloud-init-locale.sh",
        locale_export=True,
        timezone_file=True,
        ntp_clients=(CHRONY, NTPD),
        chrony_file="/etc/chrony/chrony.conf",
    ),
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
