"""Host keys that the image carries are the same on every VM made of it: they are removed and made anew, once for a VM.

Facts cannot tell an old key from a new one, so the journal decides. All of it is one step, which counts as done when
the new keys are there and sshd knows them: a run that dies in between begins with it again.
"""

from __future__ import annotations

from azureinit.errors import HostKeysFailed
from azureinit.plan.actions import Caution, Declined, Remove, Run, Satisfied, Step, Way, work_left
from azureinit.plan.hostkeys import IMAGE_KEYS, TOOL, plan_host_keys
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Action, Plan

NAME = IMAGE_KEYS
CERTIFICATE = "-cert.pub"
PREFIX = "/etc/ssh/ssh_host_"
# sshd's own names for them; it no longer loads the last two without being told to.
DEFAULTS = tuple(f"{PREFIX}{kind}_key" for kind in ("ed25519", "ecdsa", "rsa", "dsa", "xmss"))


def plan_regeneration(
    *, early: tuple[str, ...], facts: Facts, config: Config, done: frozenset[str], own: frozenset[str]
) -> tuple[Plan, Facts]:
    """The plan, and the machine without the old keys.

    `early`: the types that are not left until after Ready. `own`: the keys that this VM made.
    """
    if not facts.ssh.installed:
        return (), facts
    if NAME in done:
        return (Satisfied(name=NAME, why="were made anew"),), facts
    every = config.ssh.regenerate_host_keys == "always"
    old = [path for path in facts.ssh.key_files if _goes(path, facts, every=every, own=own)]
    without = _without_keys(facts, old)
    made, types = work_left(plan_host_keys(types=early, facts=without)), early
    if not made and not _has_key(without):
        types = config.ssh.host_key_types
        made = work_left(plan_host_keys(types=types, facts=without))
    if not made and not _has_key(without):
        why = f"no key of {', '.join(types) or 'any type'} would be made here: those of the image stay"
        return (Caution(name=NAME, why=why),), facts
    return (*_plan_step(made, old, facts), *_left_alone(old, facts, every=every)), without


def _plan_step(made: tuple[Step, ...], old: list[str], facts: Facts) -> Plan:
    declined = next((way for step in made for way in step.ways if isinstance(way, Declined)), None)
    actions: list[Action] = [Remove(path=path) for path in old]
    actions += [action for step in made for way in step.ways if isinstance(way, Way) for action in way.actions]
    actions += _reload(facts)
    why = f"{', '.join(old) or 'none'}: removed and made anew for this VM"
    ways = (declined or Way(backend=TOOL, actions=tuple(actions)),)
    did = "removed the image's host keys and made new ones" if old else "made the host keys of this VM"
    return (Step(name=NAME, why=why, did=did, ways=ways, once=True, failure=HostKeysFailed),)


def _reload(facts: Facts) -> list[Action]:
    """sshd reads its keys when it starts. Not waited for: sshd may be ordered after the unit we are."""
    ssh = facts.ssh
    if not (ssh.running and facts.systemd and ssh.unit and "systemctl" in facts.tools):
        return []
    return [Run(argv=("systemctl", "--no-block", "try-reload-or-restart", ssh.unit), changes=False)]


def _left_alone(old: list[str], facts: Facts, *, every: bool) -> Plan:
    stay = [path for path in facts.ssh.key_files if path not in old]
    whys = [
        f"{path} certifies a key that is removed: it stays, and is of no use any more"
        for path in stay
        if path.endswith(CERTIFICATE) and path[: -len(CERTIFICATE)] in old
    ]
    if every:
        whys += [
            f"the name of {path} does not tell its type: it stays" for path in stay if not path.endswith(CERTIFICATE)
        ]
    return tuple(Caution(name=NAME, why=why) for why in whys)


def _goes(path: str, facts: Facts, *, every: bool, own: frozenset[str]) -> bool:
    private = path.removesuffix(".pub")
    if path.endswith(CERTIFICATE) or private in own:
        return False
    if not every:
        return private in DEFAULTS
    return path.startswith(PREFIX) or private in {key.path for key in facts.ssh.host_keys if key.type}


def _has_key(facts: Facts) -> bool:
    return any(key.whole for key in facts.ssh.host_keys)


def _without_keys(facts: Facts, old: list[str]) -> Facts:
    keys = tuple(
        replace(key, there=False, whole=False, exposed=None, public_link=None) if key.path in old else key
        for key in facts.ssh.host_keys
    )
    return replace(facts, ssh=replace(facts.ssh, host_keys=keys))
