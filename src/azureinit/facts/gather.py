"""Everything a plan needs to know of the machine, read in one go."""

from __future__ import annotations

from azureinit.facts.accounts import Accounts, read_accounts
from azureinit.facts.distros import Distro, choose_distro, read_release
from azureinit.facts.ssh import KeysFile, Ssh, read_ssh
from azureinit.machine import MOST_BYTES
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.machine import Machine

TOOLS = ("chpasswd", "hostnamectl", "restorecon", "ssh-keygen", "sshd", "systemctl", "useradd", "usermod", "visudo")
WAAGENT = ("/etc/waagent.conf", "/usr/share/waagent/waagent.conf", "/usr/sbin/waagent", "/usr/bin/waagent")
WAAGENT_DIR = "/var/lib/waagent"
SUDOERS_DIR = "/etc/sudoers.d"
SUDOERS = "/etc/sudoers.d/azure-init-user"


class Waagent(Record):
    """WALinuxAgent is here, for extensions; what its marker of a provisioned machine says."""

    marker: bytes | None


class Host(Record):
    """What its name needs to know: the same words as in Facts, a few reads."""

    rooted: bool
    privileged: bool
    distro: Distro
    tools: frozenset[str]
    systemd: bool
    kernel_hostname: str
    hostname_file: bytes | None
    hosts_file: bytes | None


class Facts(Record):
    # Put before a path in a program's arguments: "" on the running system.
    root: str
    rooted: bool
    privileged: bool
    distro: Distro
    tools: frozenset[str]
    systemd: bool
    selinux: bool
    kernel_hostname: str
    hostname_file: bytes | None
    hosts_file: bytes | None
    sudoers_dir: bool
    sudoers_file: bytes | None
    accounts: Accounts
    ssh: Ssh
    waagent: Waagent | None = None
    # Of the admin's home, once the admin's name is known.
    keys_files: tuple[KeysFile, ...] = ()


def read_host(machine: Machine) -> Host:
    return Host(
        rooted=machine.rooted,
        privileged=machine.privileged,
        distro=choose_distro(read_release(machine)),
        tools=frozenset(("hostnamectl",)) if machine.find("hostnamectl") else frozenset(),
        systemd=_runs_systemd(machine),
        kernel_hostname=machine.hostname(),
        hostname_file=machine.read("/etc/hostname"),
        hosts_file=machine.read("/etc/hosts", limit=MOST_BYTES),
    )


def read_facts(machine: Machine, config: Config, before: Facts | None = None) -> Facts:
    """With `before`, what provisioning cannot change is taken from there."""
    tools = before.tools if before else frozenset(tool for tool in TOOLS if machine.find(tool))
    return Facts(
        root="" if not machine.rooted else machine.root,
        rooted=machine.rooted,
        privileged=machine.privileged,
        distro=before.distro if before else choose_distro(read_release(machine)),
        tools=tools,
        systemd=_runs_systemd(machine),
        selinux=not machine.rooted and machine.stat("/sys/fs/selinux/enforce") is not None,
        kernel_hostname=machine.hostname(),
        hostname_file=machine.read("/etc/hostname"),
        hosts_file=machine.read("/etc/hosts", limit=MOST_BYTES),
        sudoers_dir=machine.is_dir(SUDOERS_DIR),
        sudoers_file=machine.read(SUDOERS) if machine.is_open(SUDOERS_DIR) and machine.is_open(SUDOERS) else None,
        accounts=read_accounts(machine, before.accounts if before else None),
        ssh=read_ssh(machine, tools=tools, query=config.ssh.query_sshd_config),
        waagent=read_waagent(machine),
    )


def _runs_systemd(machine: Machine) -> bool:
    return not machine.rooted and machine.is_dir("/run/systemd/system")


def read_waagent(machine: Machine) -> Waagent | None:
    if all(machine.stat(path) is None for path in WAAGENT):
        return None
    seen = machine.is_open(WAAGENT_DIR)
    return Waagent(marker=machine.read(f"{WAAGENT_DIR}/provisioned", limit=4096) if seen else None)
