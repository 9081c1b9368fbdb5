"""apt: its files, the release and architecture that it serves, and the programs that package sources may need."""

from __future__ import annotations

from azureinit.errors import AzureInitError
from azureinit.facts.distros import read_release
from azureinit.facts.packages import has_tool, native_architecture, read_dpkg
from azureinit.facts.system_files import Target, read_target
from azureinit.machine import MOST_BYTES
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.machine import Machine

APT_DIRECTORY = "/etc/apt"
SOURCES_LIST = "/etc/apt/sources.list"
SOURCES_PARTS = "/etc/apt/sources.list.d"
MIRROR_LISTS = "/etc/apt/mirrors"
NEEDED = ("apt-get", "gpg", "add-apt-repository", "debconf-set-selections")
RESOLVE_TIMEOUT = 20.0


class AptFacts(Record):
    installed: bool
    distro: str  # as os-release names it: the name of its file of sources
    codename: str
    architecture: str
    tools: frozenset[str]
    packages: frozenset[str]  # names of installed packages
    # Paths and contents of the sources, and of the other files that were asked about. They may hold passwords.
    files: tuple[tuple[str, Secret], ...]
    # The places of files outside apt's own directory.
    outside: Mapping[str, Target] = {}
    # Hosts that were asked about and have an address.
    resolved: frozenset[str] = frozenset()

    def content(self, path: str) -> bytes | None:
        return next((data.reveal() for name, data in self.files if name == path), None)


def read_apt(machine: Machine, *, paths: tuple[str, ...], hosts: tuple[str, ...] = ()) -> AptFacts:
    """`paths`: files that a plan may write. `hosts`: those of mirrors to choose from."""
    installed = machine.is_dir(APT_DIRECTORY)
    release = read_release(machine)
    parts = machine.names(SOURCES_PARTS) or ()
    sources = [f"{SOURCES_PARTS}/{name}" for name in sorted(parts) if name.endswith((".list", ".sources"))]
    mirrors = [f"{MIRROR_LISTS}/{name}" for name in sorted(machine.names(MIRROR_LISTS) or ())]
    packages = read_dpkg(machine)[0] if installed else ()
    outside = {path: read_target(machine, path) for path in paths if not path.startswith(f"{APT_DIRECTORY}/")}
    found = []
    for path in dict.fromkeys((SOURCES_LIST, *sources, *mirrors, *paths)):
        readable = not machine.is_dir(path) and not (path in outside and outside[path].problem)
        data = machine.read(path, limit=MOST_BYTES) if installed and readable else None
        if data is not None:
            found.append((path, Secret(data)))
    return AptFacts(
        installed=installed,
        distro=release.get("ID", ""),
        codename=release.get("VERSION_CODENAME", ""),
        architecture=native_architecture(packages),
        tools=frozenset(name for name in NEEDED if has_tool(machine, name)),
        packages=frozenset(one.name for one in packages),
        files=tuple(found),
        outside=outside,
        resolved=frozenset(host for host in hosts if not machine.rooted and _resolves(machine, host)),
    )


def _resolves(machine: Machine, host: str) -> bool:
    try:
        return machine.run(("getent", "ahosts", "--", host), timeout=RESOLVE_TIMEOUT).status == 0
    except AzureInitError:
        return False
