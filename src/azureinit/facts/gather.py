"""Everything a plan needs to know of the machine, read in one go."""

from __future__ import annotations

from azureinit.facts.accounts import Accounts, fields_of, read_accounts
from azureinit.facts.dhcpnames import NameFile, read_name_files
from azureinit.facts.distros import Distro, choose_distro, read_release
from azureinit.facts.host import Ignition, read_ignition, runs_systemd
from azureinit.facts.keyhost import read_key_host
from azureinit.facts.ssh import KeysFile, Ssh, with_host_keys_again
from azureinit.facts.sshd_answer import ask_sshd, remembered, with_answer
from azureinit.machine import MOST_BYTES
from azureinit.record import Record, Secret, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.config.model import Config
    from azureinit.facts.access import Access
    from azureinit.facts.keyhost import KeyHost
    from azureinit.facts.keypairs import PairFile
    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran
    from azureinit.machine.threads import Flag

WAAGENT = (
    "/etc/waagent.conf",
    "/usr/share/waagent/waagent.conf",
    "/usr/share/oem/waagent.conf",
    "/usr/sbin/waagent",
    "/usr/bin/waagent",
)
SHIM = "../lib/azure-init/waagent"  # our own answer to that name, where a package has put a link to it
SELINUX = "/etc/selinux/config"
SUDOERS_DIR = "/etc/sudoers.d"
SUDOERS = "/etc/sudoers.d/azure-init-user"
OLD_SHADOW = "/etc/shadow-"


class Kept(Record):
    """A file that may hold secrets, as it lies there."""

    data: Secret
    mode: int


class Waagent(Record):
    """WALinuxAgent is here, for extensions; what its directory says of this machine."""

    marker: bytes | None  # the VM that is provisioned
    hidden: bool = False  # cannot be read without privileges
    media: Kept | None = None  # its copy of ovf-env.xml
    disabled: bool = False
    published: bytes | None = None  # the host's name, as DNS was told it


class Labels(Record):
    """Of a tree under --root: the file that tells them, where its homes really lie, and the tool that gives them."""

    contexts: str
    homes: str
    tool: str | None


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
    name_files: tuple[NameFile, ...] = ()
    sudoers_dir: bool
    sudoers_file: bytes | None
    # Whether it is there cannot be told without privileges.
    sudoers_hidden: bool = False
    accounts: Accounts
    ssh: Ssh
    waagent: Waagent | None = None
    ignition: Ignition | None = None
    labels: Labels | None = None
    # Root's password as it was before the last change; looked at where root is to be locked.
    old_root: Secret | None = None
    # Of the admin's home, once the admin's name is known; the names of the pieces only where somebody merges them.
    keys_files: tuple[KeysFile, ...] = ()
    pair_files: tuple[PairFile, ...] = ()
    key_pieces: tuple[str, ...] = ()
    # What decides about the admin's login, beside all of this.
    access: Access | None = None


def read_facts(
    machine: Machine,
    config: Config,
    before: Facts | None = None,
    host: KeyHost | None = None,
    sshd: Callable[[float], Ran] | None = None,
    keys: tuple[Flag, ...] = (),
) -> Facts:
    """With `before`, what provisioning cannot change is taken from there.

    What was begun earlier: `host` is read, `sshd` was asked what is in force, and `keys` are being made.
    """
    host = host or read_key_host(machine, config, before.tools if before else None)
    tools, query = host.tools, config.ssh.query_sshd_config
    asking = None
    if before is None or before.ssh.heard is None:
        asking = ask_sshd(machine, tools=tools, query=query, asked=sshd)
    accounts = read_accounts(machine, before.accounts if before else None)
    sudoers = machine.is_open(SUDOERS_DIR) and machine.is_open(SUDOERS)
    facts = Facts(
        root="" if not machine.rooted else machine.root,
        rooted=machine.rooted,
        privileged=machine.privileged,
        distro=before.distro if before else choose_distro(read_release(machine)),
        tools=tools,
        systemd=runs_systemd(machine),
        selinux=host.selinux,
        kernel_hostname=machine.hostname(),
        hostname_file=machine.read("/etc/hostname"),
        hosts_file=machine.read("/etc/hosts", limit=MOST_BYTES),
        name_files=read_name_files(machine),
        sudoers_dir=machine.is_dir(SUDOERS_DIR),
        sudoers_file=machine.read(SUDOERS) if sudoers else None,
        sudoers_hidden=not sudoers,
        accounts=accounts,
        ssh=host.ssh,
        waagent=read_waagent(machine, config.waagent.lib_dir),
        ignition=before.ignition if before else read_ignition(machine),
        labels=before.labels if before else _read_labels(machine, accounts.policy.home),
        old_root=_read_old_root(machine) if config.user.lock_root else None,
    )
    for made in keys:
        made.wait()
    if keys:
        facts = replace(facts, ssh=with_host_keys_again(machine, facts.ssh))
    if asking is None and before is not None:
        again = remembered(machine, facts.ssh, before.ssh)
        if again is not None:
            return replace(facts, ssh=again)
        asking = ask_sshd(machine, tools=tools, query=query)
    return facts if asking is None else replace(facts, ssh=with_answer(machine, facts.ssh, asking()))


def _read_labels(machine: Machine, home_base: str) -> Labels | None:
    if not machine.rooted or machine.stat(SELINUX) is None:
        return None
    from azureinit.facts.labels import read_labels

    return read_labels(machine, SELINUX, home_base=home_base)


def _read_old_root(machine: Machine) -> Secret | None:
    data = machine.read(OLD_SHADOW, limit=MOST_BYTES) if machine.is_open(OLD_SHADOW) else None
    fields = fields_of(Secret(data), "root") if data else None
    return fields[1] if fields and len(fields) > 1 else None


def read_waagent(machine: Machine, lib_dir: str) -> Waagent | None:
    if all(machine.stat(path) is None or machine.read_link(path) == SHIM for path in WAAGENT):
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
