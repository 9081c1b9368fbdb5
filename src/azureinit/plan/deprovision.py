"""Prepare a machine for an image: remove the state that is this machine's alone.

The account is removed first, while the files that name it exist; azure-init's own state last. After an interruption the
next run does the rest.
"""

from __future__ import annotations

from azureinit.backends.account_removal import REMOVE
from azureinit.backends.service import stop_unit
from azureinit.facts.gather import SUDOERS
from azureinit.facts.machine_state import BACKUPS, DBUS_ID, MACHINE_ID, RESOLV_CONF, WAAGENT_SUDOERS
from azureinit.plan.account import is_system_account
from azureinit.plan.actions import Caution, Declined, Remove, Satisfied, Step, Way, Write
from azureinit.plan.dhcpnames import plan_no_dhcp_names
from azureinit.plan.hostname import OWN_ADDRESS
from azureinit.plan.names import quoted
from azureinit.plan.rootlock import plan_root_lock
from azureinit.plan.sshd import BEGIN, END, HEADER
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts, Passwd
    from azureinit.facts.gather import Sudoers
    from azureinit.facts.host import Host
    from azureinit.facts.hostnames import HostNames
    from azureinit.facts.machine_state import Group, MachineState
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Action, Item, Plan
    from azureinit.record import Secret

NAMELESS = (b"", b"localhost", b"localhost.localdomain")
UNSET = (b"", b"uninitialized")


class Leaving(Record):
    """The account to remove, and its files in other programs' directories."""

    name: str
    spools: tuple[str, ...]
    waagent_sudoers: bytes | None


def plan_deprovision(
    *,
    host: Host,
    names: HostNames,
    accounts: Accounts,
    sudoers: Sudoers,
    ssh: Ssh,
    old_root: Secret | None,
    state: MachineState,
    config: Config,
    user: bool,
    leaving: Leaving | None,
    backups: tuple[str, ...],
    today: int,
) -> Plan:
    """`user`: remove the account too; `leaving`: which one, where it is known. `today` in days, as in /etc/shadow."""
    account: Plan = (Caution(name="user", why="no provisioned account is known here"),) if user else ()
    if leaving is not None:
        account = (*_plan_user(leaving, host=host, accounts=accounts), *_plan_sudoers(leaving, accounts, sudoers))
    root: Plan = ()
    if config.user.lock_root:
        root = (plan_root_lock(host=host, accounts=accounts, old_root=old_root, config=config, today=today),)
    groups = {group.name: group for group in state.groups}
    last = groups.pop("azure-init")
    resolvconf = groups.pop("resolvconf")
    return (
        *(_stopped(unit) for unit in state.running),
        *account,
        *root,
        *_plan_backups(backups, changed=any(isinstance(item, Step) for item in (*account, *root))),
        *_plan_sshd(host, ssh),
        *_plan_hostname(names),
        _plan_machine_id(state),
        *_plan_resolver(state, resolvconf),
        _plan_pools(state),
        *(item for group in groups.values() for item in _plan_group(group)),
        *_plan_group(last),
    )


def _step(name: str, why: str, *actions: Action) -> Step:
    return Step(name=name, why=why, ways=(Way(backend="native", actions=actions),))


def _removal(name: str, why: str, paths: tuple[str, ...]) -> Item:
    if not paths:
        return Satisfied(name=name, why="nothing to remove")
    return _step(name, why, *(Remove(path=path, whole=path.endswith("/")) for path in paths))


def _plan_group(group: Group) -> Plan:
    mounts = (Caution(name=group.name, why=f"{path} is another file system: not removed") for path in group.mounts)
    return (_removal(group.name, group.why, group.paths), *mounts)


def _stopped(unit: str) -> Step:
    return Step(name=unit, why="is running, and would write the files again", ways=(stop_unit(unit),))


# ---- the account


def _plan_user(leaving: Leaving, *, host: Host, accounts: Accounts) -> Plan:
    name = f"user {quoted(leaving.name)}"
    user = accounts.user(leaving.name)
    spools = (_removal(f"spools of {leaving.name}", "mail and timed jobs", leaving.spools),) if leaving.spools else ()
    if user is None:
        return (Satisfied(name=name, why="does not exist"), *spools)
    if is_system_account(user, accounts):
        declined = Declined(backend="native", why=f"it belongs to the system (uid {user.uid})")
        return (Step(name=name, why="is to be removed", ways=(declined,)),)
    home, problem = _home(user, host=host, accounts=accounts)
    cautions = (Caution(name=f"home of {leaving.name}", why=f"{user.home} stays: {problem}"),) if problem else ()
    ways = tuple(remove(user, home, host=host, accounts=accounts) for remove in REMOVE)
    return (Step(name=name, why=f"was this machine's admin (uid {user.uid})", ways=ways), *cautions, *spools)


def _home(user: Passwd, *, host: Host, accounts: Accounts) -> tuple[str | None, str]:
    """The directory that goes with the account, and why it does not."""
    home = user.home.rstrip("/")
    found = accounts.home(user.home)
    if found is None:
        return None, ""
    if len([part for part in home.split("/") if part]) < 2 or "/../" in f"{home}/":
        return None, "it is not a directory of one user's"
    if host.privileged and found.uid != user.uid:
        return None, f"it belongs to another account (uid {found.uid})"
    lives = [other.name for other in accounts.users if other != user and f"{other.home}/".startswith(f"{home}/")]
    return (None, f"{lives[0]} has its home there too") if lives else (home, "")


def _plan_sudoers(leaving: Leaving, accounts: Accounts, sudoers: Sudoers) -> Plan:
    """Only with the account: an account that stays keeps sudo. WALinuxAgent's file may name other accounts."""
    items: list[Item] = []
    user = accounts.user(leaving.name)
    if user is not None and is_system_account(user, accounts):
        return ()
    why = f"{leaving.name} is removed"
    if sudoers.file is not None:
        items.append(_step("sudo", why, Remove(path=SUDOERS)))
    old = leaving.waagent_sudoers
    if old is not None:
        new = without_sudoer(old, leaving.name)
        if not new.strip():
            items.append(_step("sudo by WALinuxAgent", why, Remove(path=WAAGENT_SUDOERS)))
        elif new != old:
            items.append(_step("sudo by WALinuxAgent", why, Write(path=WAAGENT_SUDOERS, data=new, was=old)))
    return tuple(items)


def without_sudoer(data: bytes, name: str) -> bytes:
    """Only lines for that very user: a name may be a part of another name."""
    own = {spelt.encode("utf-8", "surrogateescape") for spelt in (name, f'"{name}"')}
    return b"".join(line for line in data.splitlines(keepends=True) if not own & set(line.split()[:1]))


def _plan_backups(backups: tuple[str, ...], *, changed: bool) -> Plan:
    """Tools that edit the account files leave the old ones beside them, with every password's hash."""
    if changed:  # this run makes them
        backups = BACKUPS
    if not backups:
        return ()
    return (_step("account backups", "they still have the removed account", *(Remove(path=path) for path in backups)),)


# ---- the machine


def _plan_sshd(host: Host, ssh: Ssh) -> Plan:
    """azure-init's sshd settings: the platform asked them of this machine."""
    items: list[Item] = []
    dropin = ssh.data(host.distro.sshd_dropin)
    if dropin is not None and dropin.startswith(HEADER):
        items.append(_step("sshd", "was set for this machine by azure-init", Remove(path=host.distro.sshd_dropin)))
    main = ssh.data(ssh.config_path) if ssh.config_path else None
    if main is not None and ssh.config_path and not ssh.vendor:
        before, begin, rest = main.partition(BEGIN)
        _, end, after = rest.partition(END)
        if begin and end:
            write = Write(path=ssh.config_path, data=before + after, was=main)
            items.append(_step("sshd", "was set for this machine by azure-init", write))
    return tuple(items)


def _plan_hostname(names: HostNames) -> Plan:
    """/etc/hostname last: it says which lines in other files are this machine's."""
    name = (names.hostname_file or b"").strip()
    if name in NAMELESS:
        return (Satisfied(name="hostname", why="there is none"),)
    items: list[Item] = []
    old = names.hosts_file or b""
    new = without_host(old, name)
    if new != old:
        items.append(_step("hosts", f"{OWN_ADDRESS} was this machine", Write(path="/etc/hosts", data=new, was=old)))
    items += plan_no_dhcp_names(hostname=name, files=names.name_files)
    items.append(_step("hostname", "each machine gets its own from the platform", Remove(path="/etc/hostname")))
    return tuple(items)


def without_host(data: bytes, name: bytes) -> bytes:
    def is_own(line: bytes) -> bool:
        fields = line.partition(b"#")[0].split()
        return fields[:1] == [OWN_ADDRESS.encode()] and name in fields[1:]

    return b"".join(line for line in data.splitlines(keepends=True) if not is_own(line))


def _plan_machine_id(state: MachineState) -> Item:
    actions: list[Action] = []
    if (state.machine_id or b"").strip() not in UNSET:
        # Emptied, not removed: on a read-only root systemd cannot create the file.
        actions.append(Write(path=MACHINE_ID, data=b"", mode=0o444, was=state.machine_id))
    if state.dbus_id:
        actions.append(Remove(path=DBUS_ID))
    if not actions:
        return Satisfied(name="machine id", why="there is none")
    return _step("machine id", "each machine makes its own", *actions)


def _plan_resolver(state: MachineState, resolvconf: Group) -> Plan:
    """A link leads to a file that is made at every boot: it stays."""
    link = state.resolv_conf
    extra = _plan_group(resolvconf) if resolvconf.paths else ()
    if link is None:
        return (Satisfied(name="resolv.conf", why="is not there"), *extra)
    if link:
        return (Satisfied(name="resolv.conf", why=f"is a link to {link}: made anew at every boot"), *extra)
    return (_step("resolv.conf", "the name servers were this machine's", Remove(path=RESOLV_CONF)), *extra)


def _plan_pools(state: MachineState) -> Item:
    """Emptied, not removed: the KVP daemon ends when one is missing."""
    if not state.pools:
        return Satisfied(name="KVP pools", why="are empty")
    writes = (Write(path=path, data=b"") for path in state.pools)
    return _step("KVP pools", "records between the host and this machine", *writes)
