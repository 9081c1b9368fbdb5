"""The order of things."""

from __future__ import annotations

from azureinit.facts.gather import SUDOERS
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Caution, Run, Satisfied, Step, Way
from azureinit.plan.hostkeys import plan_host_keys
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

BEFORE_READY = ("ed25519", "ecdsa")


def make_plan(
    *,
    metadata: Metadata,
    facts: Facts,
    config: Config,
    done: frozenset[str],
    today: int,
    vm_id: str | None = None,
) -> Plan:
    """Everything between this machine and the one that was asked for. `done`: what the journal remembers."""
    username = metadata.username or ""
    allow = None if metadata.disable_password is None else not metadata.disable_password
    steps = (
        *plan_waagent(vm_id=vm_id, waagent=facts.waagent),
        *plan_hostname(hostname=metadata.hostname or "", facts=facts, config=config),
        *plan_host_keys(types=_early(config), facts=facts),
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
        *plan_sshd(allow_password=allow, facts=facts, config=config),
    )
    return (*steps, *_plan_labels(steps, home_of(username, facts), facts, done))


def plan_after_ready(*, facts: Facts, config: Config) -> Plan:
    """What the admin does not need in order to log in."""
    types = tuple(kind for kind in config.ssh.host_key_types if kind not in _early(config))
    plan = plan_host_keys(types=types, facts=facts) if facts.ssh.installed else ()
    return tuple(replace(item, why=f"{item.why}; after Ready") if isinstance(item, Step) else item for item in plan)


def _early(config: Config) -> tuple[str, ...]:
    """The host keys that are quickly made; where none of those is asked for, all: without one nobody logs in."""
    types = config.ssh.host_key_types
    return tuple(kind for kind in types if kind in BEFORE_READY) or types


def home_of(username: str, facts: Facts) -> str:
    return facts.accounts.home_of(username)


def work_left(plan: Plan) -> tuple[Step, ...]:
    return tuple(item for item in plan if isinstance(item, Step))


def _plan_labels(steps: Plan, home: str, facts: Facts, done: frozenset[str]) -> Plan:
    """Files are labelled last and all at once: facts cannot see labels, so the journal remembers it."""
    name = "selinux labels"
    if not facts.selinux:
        return ()
    if name in done and not work_left(steps):
        return (Satisfied(name=name, why="restored"),)
    if "restorecon" not in facts.tools:
        return (Caution(name=name, why="SELinux is enabled, but restorecon is not installed: left as they are"),)
    paths = ("/etc/hostname", "/etc/hosts", SUDOERS, "/etc/ssh", home)
    # -i: not every machine has every one of them.
    ways = (Way(backend="restorecon", actions=(Run(argv=("restorecon", "-i", "-R", "-F", *paths)),)),)
    return (Step(name=name, why="SELinux is enabled", ways=ways, once=True),)
