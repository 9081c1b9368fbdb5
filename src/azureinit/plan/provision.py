"""The rows of a whole run: what it enacts before Ready, and after it."""

from __future__ import annotations

from azureinit.facts.gather import SUDOERS
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Caution, Step, work_left
from azureinit.plan.hostkeys import has_image_keys, plan_host_keys, plan_public_halves, types_before_ready
from azureinit.plan.keys import plan_keys
from azureinit.plan.plan import HOSTNAME, Planner
from azureinit.plan.sshd import plan_sshd
from azureinit.plan.sudoers import plan_sudoers
from azureinit.plan.waagent import plan_waagent
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts
    from azureinit.facts.host import Host
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Plan
    from azureinit.plan.plan import Wanted

LABELLED = ("/etc/hostname", "/etc/hosts", SUDOERS, "/etc/ssh")


def _ignition(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    if facts.ignition is None:
        return ()
    from azureinit.plan.ignition import plan_ignition

    return plan_ignition(wanted.metadata, done=wanted.done)


def _waagent(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    library = wanted.config.waagent.lib_dir
    return plan_waagent(vm_id=wanted.vm_id, waagent=facts.waagent, lib_dir=library, metadata=wanted.metadata)


def _published_name(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    if facts.waagent is None:
        return ()
    from azureinit.plan.published import plan_published

    name, library = wanted.metadata.hostname or "", wanted.config.waagent.lib_dir
    return plan_published(hostname=name, waagent=facts.waagent, lib_dir=library)


def _host_keys(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    return _plan_host_keys(wanted, host=facts.host, ssh=facts.ssh)[0]


def _plan_host_keys(wanted: Wanted, *, host: Host, ssh: Ssh) -> tuple[Plan, Ssh]:
    """The plan, and sshd's state for the rows after it: without the image's keys where they are made anew."""
    config, own = wanted.config, wanted.own_keys
    early = types_before_ready(config.ssh.host_key_types, ssh)
    if config.ssh.regenerate_host_keys == "always":
        own = frozenset()
    elif own is not None and not has_image_keys(ssh, own=own, done=wanted.done):
        own = None
    if own is None:
        return plan_host_keys(types=early, host=host, ssh=ssh), ssh
    from azureinit.plan.regenerate import plan_regeneration

    anew, without = plan_regeneration(early=early, host=host, ssh=ssh, config=config, done=wanted.done, own=own)
    if work_left(anew):
        return anew, without
    return (*anew, *plan_host_keys(types=early, host=host, ssh=ssh)), ssh


def _account(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    metadata, config = wanted.metadata, wanted.config
    username = metadata.username or ""
    return plan_account(
        username=username,
        groups=config.user.groups,
        password_hash=metadata.password_hash,
        password_done=f"password {username}" in wanted.done,
        host=facts.host,
        accounts=facts.accounts,
        config=config,
        today=wanted.today,
    )


def _sudoers(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    return plan_sudoers(
        username=wanted.metadata.username or "",
        has_password=wanted.metadata.has_password,
        host=facts.host,
        accounts=facts.accounts,
        sudoers=facts.sudoers,
        config=wanted.config,
    )


def _keys(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    username = wanted.metadata.username or ""
    return plan_keys(
        username=username,
        home=facts.accounts.home_of(username),
        keys=wanted.metadata.keys,
        host=facts.host,
        accounts=facts.accounts,
        ssh=facts.ssh,
        admin=facts.admin,
        config=wanted.config,
    )


def _key_pairs(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    if not wanted.metadata.key_pairs:
        return ()
    from azureinit.plan.keypairs import plan_key_pairs

    username = wanted.metadata.username or ""
    return plan_key_pairs(
        username=username,
        home=facts.accounts.home_of(username),
        pairs=wanted.metadata.key_pairs,
        host=facts.host,
        accounts=facts.accounts,
        admin=facts.admin,
    )


def _sshd(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    disable = wanted.metadata.disable_password
    _keys, ssh = _plan_host_keys(wanted, host=facts.host, ssh=facts.ssh)
    allow = None if disable is None else not disable
    return plan_sshd(allow_password=allow, host=facts.host, ssh=ssh, config=wanted.config)


def _root_lock(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    """After the admin's account: where that fails, root's password may be the only way in."""
    metadata, config = wanted.metadata, wanted.config
    if not config.user.lock_root:
        return ()
    from azureinit.plan.rootlock import NAME, plan_root_lock

    if metadata.username == "root" and metadata.has_password:
        return (Caution(name=NAME, why="user.lock_root is true, but root is the admin with a password: left alone"),)
    item = plan_root_lock(
        host=facts.host, accounts=facts.accounts, old_root=facts.old_root, config=config, today=wanted.today
    )
    return (item,)


def _labels(wanted: Wanted, facts: Facts, before: Plan) -> Plan:
    if not facts.host.selinux and facts.labels is None:
        return ()
    from azureinit.plan.labels import plan_labels

    return plan_labels(
        paths=(*LABELLED, facts.accounts.home_of(wanted.metadata.username or "")),
        host=facts.host,
        accounts=facts.accounts,
        labels=facts.labels,
        before=before,
        done=wanted.done,
    )


def _later_host_keys(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    """The types that no login needs, such as RSA, which takes long to make."""
    _early, ssh = _plan_host_keys(wanted, host=facts.host, ssh=facts.ssh)
    if not ssh.installed:
        return ()
    early = types_before_ready(wanted.config.ssh.host_key_types, ssh)
    types = tuple(kind for kind in wanted.config.ssh.host_key_types if kind not in early)
    return _after_ready(plan_host_keys(types=types, host=facts.host, ssh=ssh, late=True))


def _public_halves(wanted: Wanted, facts: Facts, _before: Plan) -> Plan:
    _early, ssh = _plan_host_keys(wanted, host=facts.host, ssh=facts.ssh)
    return _after_ready(plan_public_halves(host=facts.host, ssh=ssh))


def _after_ready(plan: Plan) -> Plan:
    return tuple(replace(item, why=f"{item.why}; after Ready") if isinstance(item, Step) else item for item in plan)


WAAGENT = Planner(name="waagent", parts=("waagent",), plan=_waagent)

PROVISION = (
    Planner(name="ignition", parts=("ignition",), plan=_ignition),
    WAAGENT,
    HOSTNAME,
    Planner(name="published name", parts=("waagent",), plan=_published_name),
    Planner(name="host keys", parts=("host", "ssh"), plan=_host_keys),
    Planner(name="account", parts=("host", "accounts"), plan=_account),
    Planner(name="sudoers", parts=("host", "accounts", "sudoers"), plan=_sudoers),
    Planner(name="keys", parts=("host", "accounts", "ssh", "admin"), plan=_keys),
    Planner(name="key pairs", parts=("host", "accounts", "admin"), plan=_key_pairs),
    Planner(name="sshd", parts=("host", "ssh"), plan=_sshd),
    Planner(name="root lock", parts=("host", "accounts", "old_root"), plan=_root_lock),
    Planner(name="labels", parts=("host", "accounts", "labels"), plan=_labels),  # last: of all files that were written
)
# A VM made of a specialised image: nothing is asked for but that WALinuxAgent does not provision.
SPECIALISED = (WAAGENT,)
AFTER_READY = (
    Planner(name="later host keys", parts=("host", "ssh"), plan=_later_host_keys),
    Planner(name="public host keys", parts=("host", "ssh"), plan=_public_halves),
)
