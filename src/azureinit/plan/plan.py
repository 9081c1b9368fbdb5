"""The order of things."""

from __future__ import annotations

from azureinit.facts.gather import SUDOERS
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Caution, Run, Satisfied, Step, Way, work_left
from azureinit.plan.hostkeys import has_image_keys, plan_host_keys, plan_public_halves, types_before_ready
from azureinit.plan.hostname import plan_hostname
from azureinit.plan.keys import plan_keys
from azureinit.plan.sshd import plan_sshd
from azureinit.plan.sudoers import plan_sudoers
from azureinit.plan.waagent import plan_waagent
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan
    from azureinit.sources.metadata import Metadata

LABELLED = ("/etc/hostname", "/etc/hosts", SUDOERS, "/etc/ssh")


def make_plan(
    *,
    metadata: Metadata,
    facts: Facts,
    config: Config,
    done: frozenset[str],
    today: int,
    vm_id: str | None = None,
    own_keys: frozenset[str] | None = None,
) -> Plan:
    """Everything between this machine and the one that was asked for. `done`: what the journal remembers.

    `own_keys`: the host keys that this VM made; None where those here are not the image's.
    """
    username = metadata.username or ""
    allow = None if metadata.disable_password is None else not metadata.disable_password
    host_keys, facts = _plan_host_keys(facts, config, done, own_keys)
    steps = (
        *_plan_ignition(metadata, facts, done),
        *plan_waagent(vm_id=vm_id, waagent=facts.waagent, lib_dir=config.waagent.lib_dir, metadata=metadata),
        *plan_hostname(hostname=metadata.hostname or "", facts=facts, config=config),
        *_plan_published(metadata, facts, config),
        *host_keys,
        *plan_account(
            username=username,
            groups=config.user.groups,
            password_hash=metadata.password_hash,
            password_done=f"password {username}" in done,
            facts=facts,
            config=config,
            today=today,
        ),
        *plan_sudoers(username=username, has_password=metadata.has_password, facts=facts, config=config),
        *plan_keys(username=username, home=home_of(username, facts), keys=metadata.keys, facts=facts, config=config),
        *_plan_pairs(metadata, facts),
        *plan_sshd(allow_password=allow, facts=facts, config=config),
        *_plan_root(metadata, facts, config, today),
    )
    return (*steps, *_plan_labels(steps, home_of(username, facts), facts, done))


def _plan_ignition(metadata: Metadata, facts: Facts, done: frozenset[str]) -> Plan:
    if facts.ignition is None:
        return ()
    from azureinit.plan.ignition import plan_ignition

    return plan_ignition(metadata, done=done)


def _plan_pairs(metadata: Metadata, facts: Facts) -> Plan:
    if not metadata.key_pairs:
        return ()
    from azureinit.plan.keypairs import plan_key_pairs

    username = metadata.username or ""
    return plan_key_pairs(username=username, home=home_of(username, facts), pairs=metadata.key_pairs, facts=facts)


def _plan_root(metadata: Metadata, facts: Facts, config: Config, today: int) -> Plan:
    """Once the admin can log in: where that fails, root's may be the last way in."""
    if not config.user.lock_root:
        return ()
    from azureinit.plan.rootlock import NAME, plan_root_lock

    if metadata.username == "root" and metadata.has_password:
        return (Caution(name=NAME, why="user.lock_root is true, but root is the admin with a password: left alone"),)
    return (plan_root_lock(facts=facts, config=config, today=today),)


def _plan_published(metadata: Metadata, facts: Facts, config: Config) -> Plan:
    if facts.waagent is None:
        return ()
    from azureinit.plan.published import plan_published

    return plan_published(hostname=metadata.hostname or "", waagent=facts.waagent, lib_dir=config.waagent.lib_dir)


def _plan_host_keys(
    facts: Facts, config: Config, done: frozenset[str], own: frozenset[str] | None
) -> tuple[Plan, Facts]:
    """And the machine as everything after that finds it."""
    early = types_before_ready(config.ssh.host_key_types, facts.ssh)
    if config.ssh.regenerate_host_keys == "always":
        own = frozenset()
    elif own is not None and not has_image_keys(facts.ssh, own=own, done=done):
        own = None
    if own is not None:
        from azureinit.plan.regenerate import plan_regeneration

        anew, without = plan_regeneration(early=early, facts=facts, config=config, done=done, own=own)
        if work_left(anew):
            return anew, without
        return (*anew, *plan_host_keys(types=early, facts=facts)), facts
    return plan_host_keys(types=early, facts=facts), facts


def plan_after_ready(
    *, facts: Facts, config: Config, done: frozenset[str] = frozenset(), own_keys: frozenset[str] | None = None
) -> Plan:
    """What the admin does not need in order to log in."""
    _before, facts = _plan_host_keys(facts, config, done, own_keys)
    early = types_before_ready(config.ssh.host_key_types, facts.ssh)
    types = tuple(kind for kind in config.ssh.host_key_types if kind not in early)
    plan = (*plan_host_keys(types=types, facts=facts), *plan_public_halves(facts)) if facts.ssh.installed else ()
    return tuple(replace(item, why=f"{item.why}; after Ready") if isinstance(item, Step) else item for item in plan)


def home_of(username: str, facts: Facts) -> str:
    return facts.accounts.home_of(username)


def _plan_labels(steps: Plan, home: str, facts: Facts, done: frozenset[str]) -> Plan:
    """Files are labelled last and all at once: facts cannot see labels, so the journal remembers it."""
    name = "selinux labels"
    if not facts.selinux and facts.labels is None:
        return ()
    if name in done and not work_left(steps):
        return (Satisfied(name=name, why="restored"),)
    if facts.labels is not None:
        from azureinit.plan.labels import plan_labels

        return plan_labels(name, (*LABELLED, home), facts.labels, facts)
    if "restorecon" not in facts.tools:
        return (Caution(name=name, why="SELinux is enabled, but restorecon is not installed: left as they are"),)
    # -i: not every machine has every one of them.
    ways = (Way(backend="restorecon", actions=(Run(argv=("restorecon", "-i", "-R", "-F", *LABELLED, home)),)),)
    did = "restored the SELinux labels of the files that were written"
    return (Step(name=name, why="SELinux is enabled", did=did, ways=ways, once=True),)
