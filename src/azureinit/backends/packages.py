"""Package managers as rows: their commands, and how they say why they failed. None of them asks questions."""

from __future__ import annotations

from azureinit.facts.packages import APK, APT, DNF, SNAP, TDNF, TOOLS, YUM, ZYPPER
from azureinit.plan.actions import Declined, MakeDir, Run, Way
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Action

LONG = 3600.0  # seconds; the stage's own limit is usually shorter
LOCK_SECS = "600"
# The image's configuration files stay. A restart of services could end the stage that runs this.
APT_ENV = (("DEBIAN_FRONTEND", "noninteractive"), ("NEEDRESTART_MODE", "l"), ("APT_LISTCHANGES_FRONTEND", "none"))
APT_GET = (
    "apt-get",
    "--option=Dpkg::Options::=--force-confold",
    f"--option=DPkg::Lock::Timeout={LOCK_SECS}",
    "--option=Acquire::Retries=3",
    "--assume-yes",
    "--quiet",
)
# apt waits for dpkg's lock, and not for the one of its lists.
APT_BUSY = ("Could not get lock ", "Unable to lock directory ", "Unable to acquire the dpkg frontend lock")
# Exit status 100 to 103: done, and something is left to be told, such as that a reboot is needed.
ZYPPER_RUN = 'zypper --non-interactive "$@"; status=$?; case $status in 10[0-3]) exit 0;; esac; exit $status'
# "- [": the cause, under a source that cannot be read.
ZYPPER_SAYS = (
    "Package '",
    "No provider of ",
    "Problem",
    "System management is locked",
    "error: ",
    "Installation of ",
    "Skipping repository ",
    "- [",
)
# $1: a file for what could not be installed. Then for each package two words: what apt is given, and what it is
# called in a failure. Those that apt can install are installed.
REST = (
    'told=$1; shift; : >"$told"; failed=; package=; '
    'for word; do shift; if [ -z "$package" ]; then package=$word; continue; fi; '
    'if {simulate} "$package" >/dev/null; then set -- "$@" "$package"; else failed="${failed:+$failed, }$word"; fi; '
    "package=; done; "
    'if [ $# -gt 0 ]; then {install} "$@" || exit; fi; '
    'if [ -n "$failed" ]; then printf "not installed: %s\\n" "$failed" >"$told"; exit 100; fi'
)


class Manager(Record):
    tool: str
    update: tuple[str, ...]
    upgrade: tuple[str, ...]
    install: tuple[str, ...]
    version: str = "-"  # between a name and its version
    update_first: bool = False  # installing does not read lists that are out of date again
    env: tuple[tuple[str, str], ...] = ()
    says: tuple[str, ...] = ("Error", "error:", "No match for argument", "- nothing provides", "- package ")
    busy: tuple[str, ...] = ()


MANAGERS: dict[str, Manager] = {
    APT: Manager(
        tool=TOOLS[APT],
        update=(*APT_GET, "update"),
        upgrade=(*APT_GET, "dist-upgrade"),
        install=(*APT_GET, "install", "--"),
        version="=",
        update_first=True,
        env=APT_ENV,
        says=("E: ", "dpkg: error", "W: GPG error", "W: OpenPGP"),
        busy=APT_BUSY,
    ),
    DNF: Manager(
        tool=TOOLS[DNF],
        update=("dnf", "-y", "makecache"),
        upgrade=("dnf", "-y", "upgrade"),
        install=("dnf", "-y", "install"),
    ),
    TDNF: Manager(
        tool=TOOLS[TDNF],
        update=("tdnf", "-y", "makecache"),
        upgrade=("tdnf", "-y", "upgrade"),
        install=("tdnf", "-y", "install"),
    ),
    YUM: Manager(
        tool=TOOLS[YUM],
        update=("yum", "-y", "makecache"),
        upgrade=("yum", "-y", "upgrade"),
        install=("yum", "-t", "-y", "install"),
    ),
    ZYPPER: Manager(
        tool=TOOLS[ZYPPER],
        update=("sh", "-c", ZYPPER_RUN, "zypper", "refresh"),
        upgrade=("sh", "-c", ZYPPER_RUN, "zypper", "update", "--auto-agree-with-licenses"),
        install=("sh", "-c", ZYPPER_RUN, "zypper", "install", "--auto-agree-with-licenses"),
        version="=",
        env=(("ZYPP_LOCK_TIMEOUT", LOCK_SECS),),
        says=ZYPPER_SAYS,
    ),
    APK: Manager(
        tool=TOOLS[APK],
        update=("apk", "--wait", LOCK_SECS, "update"),
        upgrade=("apk", "--wait", LOCK_SECS, "upgrade", "--update-cache", "--available"),
        install=("apk", "--wait", LOCK_SECS, "add"),
        version="=",
        update_first=True,
        says=("ERROR: ",),
    ),
}


def update(name: str, *, directory: str) -> Way:
    return _way(name, MANAGERS[name].update, directory)


def upgrade(name: str, *, directory: str) -> Way:
    return _way(name, MANAGERS[name].upgrade, directory)


def install(name: str, words: tuple[str, ...], *, directory: str) -> Way:
    return _way(name, (*MANAGERS[name].install, *words), directory)


def install_rest(name: str, words: tuple[tuple[str, str], ...], *, directory: str) -> Way | None:
    """After a failure of the whole list: what can be installed of it. Each: a package, and its name in a failure."""
    if name != APT or len(words) < 2:
        return None
    manager, told = MANAGERS[name], f"{directory}/packages.missing"
    simulate = " ".join((*APT_GET, "--simulate", "install", "--"))
    script = REST.replace("{simulate}", simulate).replace("{install}", " ".join(manager.install))
    flat = tuple(word for pair in words for word in pair)
    way = _way(name, ("sh", "-c", script, "sh", told, *flat), directory, progress=told)
    return Way(backend=f"{way.backend}, without those that cannot be installed", actions=way.actions)


def finish(*, directory: str) -> Way:
    """Configure what an interrupted dpkg left unpacked."""
    argv = ("dpkg", "--force-confold", "--configure", "--pending")
    return _way(APT, argv, directory)


def snap_install(words: tuple[str, ...], *, installed: bool, directory: str) -> Way | Declined:
    if not installed:
        return Declined(backend=SNAP, why="snap is not installed")
    run = Run(argv=("snap", "install", *words), timeout=LONG, output=log_path(directory), says=("error:",))
    return Way(backend=SNAP, actions=(_directory(directory), run))


def log_path(directory: str) -> str:
    return f"{directory}/packages.log"


def _directory(path: str) -> Action:
    return MakeDir(path=path, mode=0o700, kept=True)


def _way(name: str, argv: tuple[str, ...], directory: str, *, progress: str | None = None) -> Way:
    manager = MANAGERS[name]
    run = Run(
        argv=argv,
        timeout=LONG,
        output=log_path(directory),
        env=manager.env,
        says=manager.says,
        busy=manager.busy,
        progress=progress,
    )
    return Way(backend=manager.tool, actions=(_directory(directory), run))
