"""Facts that decide about a login beside sshd's configuration: the shell, the path to the keys, units, PAM."""

from __future__ import annotations

import stat

from azureinit.errors import LocalError
from azureinit.facts.path_safety import directories_above
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.ssh import Ssh
    from azureinit.facts.sshd_config import Values
    from azureinit.machine import Machine

NOLOGIN = "/etc/nologin"
DEFAULT_SHELL = "/bin/sh"
REFUSING = ("nologin", "false", "true", "sync", "halt", "shutdown")  # shells that end at once
EXECUTABLE = 0o111
UNIT_DIR = "/etc/systemd/system"
# The links of an enabled sshd in nearly every image; facts/sshd_units.py searches everywhere else.
USUAL = (
    "multi-user.target.wants/ssh.service",
    "multi-user.target.wants/sshd.service",
    "sockets.target.wants/ssh.socket",
)
MASKED = "/dev/null"
FORBIDDING = "/etc/ssh/sshd_not_to_be_run"  # a condition of Debian's unit
PAM_DIRS = ("/etc/pam.d", "/usr/lib/pam.d")
DEEPEST = 8
HOSTS_DENY = "/etc/hosts.deny"


class Node(Record):
    """A directory or file on the path to a key file, as sshd checks it."""

    path: str
    uid: int
    gid: int
    mode: int


class Start(Record):
    """Why sshd does not start; `certain`: no other unit or script seems to start it."""

    why: str
    certain: bool


class Module(Record):
    """A line of sshd's PAM stack."""

    control: str
    name: str
    arguments: tuple[str, ...]


class Pam(Record):
    account: tuple[Module, ...]
    auth: tuple[Module, ...]
    session: tuple[Module, ...] = ()


class Access(Record):
    nologin: bool = False
    # A line of /etc/hosts.deny for sshd, or for every service.
    denied: str = ""
    # Why the shell refuses logins; and the path to it, from / on.
    shell: str = ""
    shell_way: tuple[Node, ...] = ()
    # For each key file that exists: the directories from / on, and the file.
    ways: tuple[tuple[Node, ...], ...] = ()
    start: Start | None = None
    # None where sshd does not use it.
    pam: Pam | None = None
    # Contents of RevokedKeys files by path; None: cannot be read.
    revoked: tuple[tuple[str, bytes | None], ...] = ()
    # The values that sshd reports for connections from an address, and why it did not report them.
    answers: tuple[tuple[str, Values], ...] = ()
    unanswered: str = ""


def read_access(machine: Machine, ssh: Ssh, *, systemd: bool, shell: str, paths: tuple[str, ...]) -> Access:
    revoked = (said.arguments[0] for said in ssh.directives if said.keyword == "revokedkeys")
    return Access(
        nologin=machine.stat(NOLOGIN) is not None,
        denied=_read_denied(machine),
        shell=_shell_problem(machine, shell or DEFAULT_SHELL),
        shell_way=_read_way(machine, _followed(machine, shell or DEFAULT_SHELL)),
        ways=tuple(way for way in (_read_way(machine, path) for path in paths) if way),
        start=_read_start(machine) if systemd and not ssh.running else None,
        pam=_read_pam(machine) if ssh.use_pam else None,
        revoked=tuple((path, _read(machine, path)) for path in dict.fromkeys(revoked)),
    )


def _shell_problem(machine: Machine, shell: str) -> str:
    found = machine.stat(shell) if shell.startswith("/") else None
    if found is None:
        return f"its shell {shell} does not exist"
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & EXECUTABLE:
        return f"its shell {shell} is not a program"
    names = (path.rpartition("/")[2] for path in (shell, _followed(machine, shell)))
    return f"its shell {shell} refuses logins" if any(name in REFUSING for name in names) else ""


def _followed(machine: Machine, path: str) -> str:
    for _ in range(DEEPEST):
        link = machine.read_link(path) if path.startswith("/") else None
        if not link:
            break
        path = link if link.startswith("/") else f"{path.rpartition('/')[0]}/{link}"
    return path


def _read_denied(machine: Machine) -> str:
    """TCP wrappers, which Debian's sshd uses."""
    for line in (_read(machine, HOSTS_DENY) or b"").decode("utf-8", "replace").replace("\\\n", " ").split("\n"):
        services = line.partition("#")[0].partition(":")[0].replace(",", " ").split()
        if any(service.partition("@")[0] in ("sshd", "ALL") for service in services):
            return line.strip()
    return ""


def _read_way(machine: Machine, path: str) -> tuple[Node, ...]:
    nodes = []
    try:
        for step in (*directories_above(path), path):
            found = machine.stat(step)
            if found is None:
                return ()
            nodes.append(Node(path=step, uid=found.st_uid, gid=found.st_gid, mode=stat.S_IMODE(found.st_mode)))
    except LocalError:
        return ()  # the step that writes there reports it
    return tuple(nodes)


def _read(machine: Machine, path: str) -> bytes | None:
    try:
        return machine.read(path, limit=16 << 20)
    except LocalError:
        return None


# ---- whether it starts


def _read_start(machine: Machine) -> Start | None:
    links = [name for name in USUAL if machine.stat(f"{UNIT_DIR}/{name}", follow=False) is not None]
    units = {name.rpartition("/")[2] for name in USUAL}
    masked = [unit for unit in units if machine.read_link(f"{UNIT_DIR}/{unit}") == MASKED]
    if links and not masked and machine.stat(FORBIDDING) is None:
        return None
    from azureinit.facts.sshd_units import read_start

    return read_start(machine)


# ---- PAM


def _read_pam(machine: Machine) -> Pam:
    found: dict[str, list[Module]] = {"account": [], "auth": [], "session": []}
    _read_stack(machine, "sshd", tuple(found), found, depth=0)
    for kind, modules in found.items():
        if not modules:  # as PAM does
            _read_stack(machine, "other", (kind,), found, depth=0)
    return Pam(account=tuple(found["account"]), auth=tuple(found["auth"]), session=tuple(found["session"]))


def _read_stack(
    machine: Machine, name: str, kinds: tuple[str, ...], found: dict[str, list[Module]], *, depth: int
) -> None:
    paths = (name,) if name.startswith("/") else tuple(f"{place}/{name}" for place in PAM_DIRS)
    data = next((data for data in (_read(machine, path) for path in paths) if data is not None), b"")
    for line in data.decode("utf-8", "replace").replace("\\\n", " ").split("\n"):
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0] == "@include" and depth < DEEPEST:
            _read_stack(machine, words[1], kinds, found, depth=depth + 1)
        if len(words) < 3 or words[0].lstrip("-").lower() not in kinds:
            continue
        kind = words[0].lstrip("-").lower()
        end = next((at for at, word in enumerate(words) if at and word.endswith("]")), 1) if words[1][0] == "[" else 1
        control, rest = " ".join(words[1 : end + 1]), words[end + 1 :]
        if control in ("include", "substack") and rest and depth < DEEPEST:
            _read_stack(machine, rest[0], (kind,), found, depth=depth + 1)
        elif rest:
            module = rest[0].rpartition("/")[2]
            module = module[:-3] if module.endswith(".so") else module
            found[kind].append(Module(control=control, name=module, arguments=tuple(rest[1:])))
