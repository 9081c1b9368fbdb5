"""Packages: the package manager of this machine, what is installed, and whether a package asks for a reboot."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.facts.distros import choose_distro, read_release
from azureinit.machine import MOST_BYTES
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

# Names of managers, and their programs.
APT, DNF, TDNF, YUM, ZYPPER, APK, SNAP = "apt", "dnf", "tdnf", "yum", "zypper", "apk", "snap"
TOOLS = {APT: "apt-get", DNF: "dnf", TDNF: "tdnf", YUM: "yum", ZYPPER: "zypper", APK: "apk", SNAP: "snap"}
# The managers of a whole system; the first one that is installed counts.
SYSTEM = (APT, DNF, TDNF, YUM, ZYPPER, APK)
BY_RPM = (DNF, TDNF, YUM, ZYPPER)
DPKG_STATUS = "/var/lib/dpkg/status"
DPKG_UPDATES = "/var/lib/dpkg/updates"
APK_INSTALLED = ("/lib/apk/db/installed", "/usr/lib/apk/db/installed")
SNAPS = "/var/lib/snapd/snaps"
REBOOT_MARKERS = ("/var/run/reboot-required", "/run/reboot-needed")
PROGRAMS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
RPM_TIMEOUT = 60.0
MOST_STATUS = 4 * MOST_BYTES
FINISHED = ("installed", "config-files", "not-installed")


class Installed(Record):
    """One package. `architecture` is empty where the database has none."""

    name: str
    version: str
    architecture: str = ""


class Packages(Record):
    managers: tuple[str, ...]  # installed ones, the system's own first; without snap
    snap: bool
    installed: tuple[Installed, ...]
    snaps: frozenset[str] = frozenset()
    # What rpm was asked about and has.
    known_to_rpm: frozenset[str] = frozenset()
    # dpkg was interrupted in the middle of its work.
    unfinished: bool = False
    native: str = ""  # the architecture of dpkg


def has_tool(machine: Machine, name: str) -> bool:
    """Whether a program is installed; in a file tree, in that tree."""
    if not machine.rooted:
        return machine.find(name) is not None
    return any(machine.stat(f"{directory}/{name}") is not None for directory in PROGRAMS)


def parse_dpkg_status(data: bytes) -> tuple[tuple[Installed, ...], bool]:
    """The installed packages of dpkg's database, and whether any other one is half installed."""
    found, unfinished = [], False
    for stanza in data.decode("utf-8", "replace").split("\n\n"):
        fields = {}
        for line in stanza.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line.startswith((" ", "\t")):
                fields[name.lower()] = value.strip()
        state = fields.get("status", "").rpartition(" ")[2]
        if "package" not in fields or not state:
            continue
        if state == "installed":
            version, architecture = fields.get("version", ""), fields.get("architecture", "")
            found.append(Installed(name=fields["package"], version=version, architecture=architecture))
        unfinished = unfinished or state not in FINISHED
    return tuple(found), unfinished


def native_architecture(installed: tuple[Installed, ...]) -> str:
    """The architecture of dpkg itself."""
    return next((one.architecture for one in installed if one.name == "dpkg"), "")


def parse_apk_installed(data: bytes) -> tuple[Installed, ...]:
    found = []
    for stanza in data.decode("utf-8", "replace").split("\n\n"):
        fields = {line[0]: line[2:] for line in stanza.splitlines() if line[1:2] == ":"}
        if "P" in fields:
            found.append(Installed(name=fields["P"], version=fields.get("V", "")))
    return tuple(found)


def parse_rpm_answer(asked: tuple[str, ...], out: bytes) -> frozenset[str]:
    """Those of the names that rpm does not call missing."""
    lines = out.decode("utf-8", "replace").splitlines()
    missing = {line[len("package ") : -len(" is not installed")] for line in lines if line.endswith("not installed")}
    return frozenset(asked) - missing


def find_managers(machine: Machine) -> tuple[str, ...]:
    own = choose_distro(read_release(machine)).package_manager
    order = (*((own,) if own else ()), *(name for name in SYSTEM if name != own))
    return tuple(name for name in order if has_tool(machine, TOOLS[name]))


def read_dpkg(machine: Machine) -> tuple[tuple[Installed, ...], bool]:
    data = machine.read(DPKG_STATUS, limit=MOST_STATUS)
    installed, unfinished = parse_dpkg_status(data) if data else ((), False)
    return installed, unfinished or any(name.isdigit() for name in machine.names(DPKG_UPDATES) or ())


def read_packages(machine: Machine, names: tuple[str, ...]) -> Packages:
    """`names`: those that rpm is asked about, as the package manager would be given them."""
    managers = find_managers(machine)
    installed: tuple[Installed, ...] = ()
    unfinished, known = False, frozenset[str]()
    if APT in managers:
        installed, unfinished = read_dpkg(machine)
    if APK in managers[:1]:
        installed = next((parse_apk_installed(data) for data in map(machine.read, APK_INSTALLED) if data), ())
    if any(name in BY_RPM for name in managers[:1]) and not machine.rooted:
        known = _ask_rpm(machine, tuple(name for name in names if _is_plain(name)))
    snap = has_tool(machine, TOOLS[SNAP])
    return Packages(
        managers=managers,
        snap=snap,
        installed=installed,
        snaps=frozenset(name.rpartition("_")[0] for name in (machine.names(SNAPS) or ()) if snap and "_" in name),
        known_to_rpm=known,
        unfinished=unfinished,
        native=native_architecture(installed),
    )


def read_reboot_marker(machine: Machine) -> str:
    """The file by which a package asks for a reboot; empty if there is none."""
    return next((path for path in REBOOT_MARKERS if machine.stat(path) is not None), "")


def _is_plain(name: str) -> bool:
    """A name, with or without a version: no file, URL, group or pattern."""
    return name[:1].isalnum() and all(letter.isalnum() or letter in "+-._~^:" for letter in name)


def _ask_rpm(machine: Machine, names: tuple[str, ...]) -> frozenset[str]:
    """Nothing where rpm cannot tell: then the package manager is asked to install what may be there already."""
    if not names:
        return frozenset()
    try:
        ran = machine.run(("rpm", "--query", *names), timeout=RPM_TIMEOUT)
    except AzureInitError:
        return frozenset()
    return parse_rpm_answer(names, ran.out) if ran.status >= 0 and not ran.err.strip() else frozenset()
