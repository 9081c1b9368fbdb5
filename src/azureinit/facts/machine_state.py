"""Per-machine state that must not reach an image: its usual places, and what of it is present."""

from __future__ import annotations

from fnmatch import fnmatchcase

from azureinit.errors import AzureInitError, LocalError
from azureinit.facts.network_own import read_own_files
from azureinit.facts.ssh import UNIT_DIRS
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureinit.machine import Machine

MACHINE_ID = "/etc/machine-id"
DBUS_ID = "/var/lib/dbus/machine-id"
RESOLV_CONF = "/etc/resolv.conf"
WAAGENT_SUDOERS = "/etc/sudoers.d/waagent"
WAAGENT_UNITS = ("walinuxagent.service", "waagent.service")
MONITORS = ("azure-init-hostname.service", "azure-init-network.service")
POOL = ".kvp_pool_*"
QUERY_TIMEOUT = 10.0
# By name: why it is removed, and its paths; the last part of a path may be a pattern.
PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "host keys": ("each machine has its own", ("/etc/ssh/ssh_host_*key*",)),
    "DHCP leases": (
        "the addresses were this machine's",
        (
            "/var/lib/dhclient/*",
            "/var/lib/dhcp/*",
            "/var/lib/dhcpcd/*",
            "/var/lib/dhcpcd5/*",
            "/var/db/dhcpcd/*",
            "/var/lib/NetworkManager/*.lease",
            "/var/lib/systemd/network/*",
            "/run/systemd/netif/leases/*",
            "/var/lib/wicked/*",
        ),
    ),
    "random seed": (
        "each machine needs its own",
        (
            "/var/lib/systemd/random-seed",
            "/var/lib/urandom/random-seed",
            "/var/lib/misc/random-seed",
            "/var/lib/random-seed",
            "/var/lib/seedrng/*",
            "/boot/efi/loader/random-seed",
            "/boot/loader/random-seed",
            "/efi/loader/random-seed",
        ),
    ),
    "cloud-init": (
        "otherwise it takes the machine for configured",
        # Not its seed and scripts: those belong to the image.
        (
            *(f"/var/lib/cloud/{name}" for name in ("instance", "instances", "data", "handlers", "sem")),
            "/var/log/cloud-init.log*",
            "/var/log/cloud-init-output.log*",
        ),
    ),
}
# WALinuxAgent's files outside its directories: its firewall's unit, and its resource limits.
UNIT_FILES = (
    *(f"/etc/systemd/system/{name}-network-setup.service" for name in ("waagent", "walinuxagent")),
    *(
        f"/etc/systemd/system/multi-user.target.wants/{name}-network-setup.service"
        for name in ("waagent", "walinuxagent")
    ),
    *(f"{place}/azure-walinuxagent-logcollector.slice" for place in UNIT_DIRS),
    *(
        f"{place}/{unit}.d/{dropin}"
        for place in UNIT_DIRS
        for unit in WAAGENT_UNITS
        for dropin in ("10-Slice.conf", "11-CPUAccounting.conf", "12-CPUQuota.conf", "13-MemoryAccounting.conf")
    ),
)
WAAGENT_FILES = ("/var/log/waagent.log*", *UNIT_FILES)
# azure-init's files in WALinuxAgent's directory, where that is shared and cannot be emptied.
IN_LIBRARY = ("provisioned", "ovf-env.xml", "CustomData", "disable_agent", "published_hostname")
HISTORIES = (
    ".bash_history", ".ash_history", ".sh_history", ".zsh_history", ".histfile", ".python_history", ".lesshst",
    ".viminfo", ".mysql_history", ".psql_history", ".sqlite_history",
)  # fmt: skip
UUID = "-".join("?" * length for length in (8, 4, 4, 4, 12))
# azure-init's files in a data directory that is shared.
DATA = (
    "*.provisioned", "*.pending", "*.saved", "*.journal", "*.disks", "*.userdata", "*.modules", "*.network",
    "*.reload", "*.pool", f"{UUID}.d",
    "trace.jsonl*", "published_hostname", "custom-data.log*", "lock",
)  # fmt: skip
RESOLVCONF = ("/etc/resolvconf/resolv.conf.d/original", "/etc/resolvconf/resolv.conf.d/tail")
BACKUPS = ("/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-")
SPOOLS = ("/var/mail", "/var/spool/mail", "/var/spool/cron/crontabs", "/var/spool/cron", "/var/lib/systemd/linger")


class Group(Record):
    """`paths` exist and are removed; a directory's ends with a slash. `mounts` are other file systems, which stay."""

    name: str
    why: str
    paths: tuple[str, ...]
    mounts: tuple[str, ...] = ()


class MachineState(Record):
    groups: tuple[Group, ...]
    machine_id: bytes | None
    dbus_id: bool  # a file, not a link
    pools: tuple[str, ...]  # that are not empty
    # None: does not exist. Empty: a file. Else the link's target.
    resolv_conf: str | None
    running: tuple[str, ...]  # of WALinuxAgent's units and azure-init's host name monitor


def read_machine_state(
    machine: Machine,
    *,
    data_dir: str,
    log: str,
    kvp_directory: str,
    waagent_dirs: tuple[str, ...],
    homes: tuple[str, ...],
) -> MachineState:
    places = dict(PLACES)
    places["histories"] = (
        "command histories of this machine",
        tuple(f"{home}/{name}" for home in homes for name in HISTORIES),
    )
    emptied = tuple(
        f"{path.rstrip('/')}/{name}" for path in waagent_dirs for name in (("*",) if is_own(path) else IN_LIBRARY)
    )
    places["WALinuxAgent"] = ("its state of this machine", (*emptied, *WAAGENT_FILES))
    network = tuple(path for path in read_own_files(machine) if not path.startswith("/run/"))
    places["network"] = ("the MAC addresses were this machine's", network)
    places["resolvconf"] = ("the name servers were this machine's", RESOLVCONF)
    data = tuple(f"{data_dir.rstrip('/')}/{name}" for name in (("*",) if is_own(data_dir) else DATA))
    places["azure-init"] = ("its state of this machine", (*data, log, f"{log}.1"))
    found = machine.stat(RESOLV_CONF, follow=False)
    dbus = machine.stat(DBUS_ID, follow=False)
    return MachineState(
        groups=tuple(_read_group(machine, name, why, patterns) for name, (why, patterns) in places.items()),
        machine_id=machine.read(MACHINE_ID),
        dbus_id=dbus is not None and machine.read_link(DBUS_ID) is None,
        pools=tuple(path for path in expand(machine, f"{kvp_directory.rstrip('/')}/{POOL}") if _size(machine, path)),
        resolv_conf=None if found is None else machine.read_link(RESOLV_CONF) or "",
        running=_read_running(machine),
    )


def read_spools(machine: Machine, name: str) -> tuple[str, ...]:
    """Files of an account in other programs' directories: mail and timed jobs."""
    return tuple(f"{spool}/{name}" for spool in SPOOLS if machine.is_file(f"{spool}/{name}"))


def read_backups(machine: Machine) -> tuple[str, ...]:
    return tuple(path for path in BACKUPS if machine.stat(path, follow=False) is not None)


def parse_sudoer(data: bytes) -> str | None:
    """The user of the last line that has one."""
    names = [line.split() for line in data.decode("utf-8", "surrogateescape").split("\n") if line[:1] not in ("#", "@")]
    users = [words[0].strip('"') for words in names if len(words) > 1 and words[0][0] not in "%+"]
    return users[-1] if users and users[-1] not in ("Defaults", "ALL") else None


def is_own(path: str) -> bool:
    """Whether the path is deep enough to be one program's directory: /var/lib, if configured, is not emptied."""
    parts = [part for part in path.split("/") if part]
    return path.startswith("/") and len(parts) >= 3 and not {".", ".."} & set(parts)


def _read_group(machine: Machine, name: str, why: str, patterns: tuple[str, ...]) -> Group:
    found = [path for pattern in patterns for path in expand(machine, pattern)]
    mounts = tuple(path for path in found if _is_mount(machine, path))
    paths = (f"{path}/" if _is_directory(machine, path) else path for path in found if path not in mounts)
    return Group(name=name, why=why, paths=tuple(dict.fromkeys(paths)), mounts=mounts)


def expand(machine: Machine, pattern: str) -> Iterator[str]:
    directory, _, last = pattern.rpartition("/")
    if machine.rooted and pattern.startswith("/run/"):
        return  # /run is not part of an image
    if not any(mark in last for mark in "*[?"):
        if machine.stat(pattern, follow=False) is not None:
            yield pattern
        return
    try:
        names = machine.names(directory) or ()
    except LocalError:
        return  # only root can read it, and only root removes
    yield from (f"{directory}/{name}" for name in names if fnmatchcase(name, last))


def _is_directory(machine: Machine, path: str) -> bool:
    return machine.read_link(path) is None and machine.is_dir(path)


def _is_mount(machine: Machine, path: str) -> bool:
    here, above = machine.stat(path, follow=False), machine.stat(path.rpartition("/")[0])
    return here is not None and above is not None and here.st_dev != above.st_dev


def _size(machine: Machine, path: str) -> int:
    found = machine.stat(path)
    return 0 if found is None else found.st_size


def _read_running(machine: Machine) -> tuple[str, ...]:
    if machine.rooted or not machine.is_dir("/run/systemd/system"):
        return ()
    running = []
    for unit in (*WAAGENT_UNITS, *MONITORS):
        if any(machine.stat(f"{place}/{unit}") is not None for place in UNIT_DIRS):
            try:
                asked = machine.run(("systemctl", "is-active", "--quiet", unit), timeout=QUERY_TIMEOUT)
            except AzureInitError:
                continue
            if asked.status == 0:
                running.append(unit)
    return tuple(running)
