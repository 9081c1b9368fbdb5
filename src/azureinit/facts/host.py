"""The system that is provisioned: where it lies, its distribution, its tools, its init system."""

from __future__ import annotations

from azureinit.facts.distros import Distro, choose_distro, read_release
from azureinit.machine import MOST_BYTES
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

TOOLS = (
    "chpasswd", "hostnamectl", "restorecon", "ssh-keygen", "sshd", "systemctl", "useradd", "userdel", "usermod",
    "visudo",
)  # fmt: skip
SYSTEMD, OPENRC = "systemd", "openrc"
OPENRC_TOOL = "rc-service"
OPENRC_STATE = "/run/openrc"


class Host(Record):
    # Prefix of a path in a program's arguments: "" on the running system.
    root: str
    # The system lies under --root, and is not the running one.
    rooted: bool
    privileged: bool
    distro: Distro
    # Those of TOOLS that are installed.
    tools: frozenset[str]
    # The running service manager: SYSTEMD, OPENRC, or "" for another one and under --root.
    init: str
    # The kernel enforces or reports by a policy of SELinux.
    selinux: bool

    @property
    def systemd(self) -> bool:
        return self.init == SYSTEMD


def read_host(machine: Machine, before: Host | None = None) -> Host:
    """`before`: an earlier reading of this run. Provisioning installs no tools."""
    if before is not None:
        return before
    init = read_init(machine)
    tools = TOOLS if init != OPENRC else (*TOOLS, OPENRC_TOOL)
    return Host(
        root=machine.root if machine.rooted else "",
        rooted=machine.rooted,
        privileged=machine.privileged,
        distro=choose_distro(read_release(machine)),
        tools=frozenset(tool for tool in tools if machine.find(tool)),
        init=init,
        selinux=not machine.rooted and machine.stat("/sys/fs/selinux/enforce") is not None,
    )


def read_init(machine: Machine) -> str:
    if machine.rooted:
        return ""
    if machine.is_dir("/run/systemd/system"):
        return SYSTEMD
    return OPENRC if machine.is_dir(OPENRC_STATE) else ""


def has_account(machine: Machine, name: str) -> bool:
    """Whether /etc/passwd has an account of that name."""
    accounts = machine.read("/etc/passwd", limit=MOST_BYTES) or b""
    return any(line.partition(b":")[0] == name.encode() for line in accounts.split(b"\n") if line)
