"""Host keys of the image, which are the same on every VM made of it: they are removed and made anew, once per VM.

Facts cannot distinguish an old key from a new one, so the journal decides. All of it is one step, which is done once
the new keys exist and sshd was reloaded: an interrupted run starts it again.
"""

from __future__ import annotations

from azureinit.backends.service import reload_unit
from azureinit.backends.ssh_keygen import TOOL
from azureinit.errors import HostKeysFailed
from azureinit.plan.actions import Caution, Declined, Remove, Satisfied, Step, Way, work_left
from azureinit.plan.hostkeys import IMAGE_KEYS, plan_host_keys
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.host import Host
    from azureinit.facts.ssh import Ssh
    from azureinit.plan.actions import Action, Plan

NAME = IMAGE_KEYS
CERTIFICATE = "-cert.pub"
PREFIX = "/etc/ssh/ssh_host_"
# sshd's default paths; it loads the last two only if configured.
DEFAULTS = tuple(f"{PREFIX}{kind}_key" for kind in ("ed25519", "ecdsa", "rsa", "dsa", "xmss"))


def plan_regeneration(
    *, early: tuple[str, ...], host: Host, ssh: Ssh, config: Config, done: frozenset[str], own: frozenset[str]
) -> tuple[Plan, Ssh]:
    """The plan, and sshd's state without the old keys.

    `early`: the types that are made before Ready. `own`: the keys that this VM made.
    """
    if not ssh.installed:
        return (), ssh
    if NAME in done:
        return (Satisfied(name=NAME, why="were made anew"),), ssh
    every = config.ssh.regenerate_host_keys == "always"
    old = [path for path in ssh.key_files if _goes(path, ssh, every=every, own=own)]
    without = _without_keys(ssh, old)
    made, types = work_left(plan_host_keys(types=early, host=host, ssh=without)), early
    if not made and not _has_key(without):
        types = config.ssh.host_key_types
        made = work_left(plan_host_keys(types=types, host=host, ssh=without))
    if not made and not _has_key(without):
        why = f"no key of {', '.join(types) or 'any type'} can be made here: the image's keys stay"
        return (Caution(name=NAME, why=why),), ssh
    return (*_plan_step(made, old, host=host, ssh=ssh), *_left_alone(old, ssh, every=every)), without


def _plan_step(made: tuple[Step, ...], old: list[str], *, host: Host, ssh: Ssh) -> Plan:
    declined = next((way for step in made for way in step.ways if isinstance(way, Declined)), None)
    actions: list[Action] = [Remove(path=path) for path in old]
    actions += [action for step in made for way in step.ways if isinstance(way, Way) for action in way.actions]
    reload = reload_unit(ssh.unit, host) if ssh.running else None  # sshd reads its keys when it starts
    actions += [reload] if reload is not None else []
    why = f"{', '.join(old) or 'none'}: removed and made anew for this VM"
    ways = (declined or Way(backend=TOOL, actions=tuple(actions)),)
    did = "removed the image's host keys and made new ones" if old else "made the host keys of this VM"
    return (Step(name=NAME, why=why, did=did, ways=ways, once=True, failure=HostKeysFailed),)


def _left_alone(old: list[str], ssh: Ssh, *, every: bool) -> Plan:
    stay = [path for path in ssh.key_files if path not in old]
    whys = [
        f"{path} certifies a key that is removed: it stays, without effect"
        for path in stay
        if path.endswith(CERTIFICATE) and path[: -len(CERTIFICATE)] in old
    ]
    if every:
        whys += [f"the name of {path} has no key type: it stays" for path in stay if not path.endswith(CERTIFICATE)]
    return tuple(Caution(name=NAME, why=why) for why in whys)


def _goes(path: str, ssh: Ssh, *, every: bool, own: frozenset[str]) -> bool:
    private = path.removesuffix(".pub")
    if path.endswith(CERTIFICATE) or private in own:
        return False
    if not every:
        return private in DEFAULTS
    return path.startswith(PREFIX) or private in {key.path for key in ssh.host_keys if key.type}


def _has_key(ssh: Ssh) -> bool:
    return any(key.whole for key in ssh.host_keys)


def _without_keys(ssh: Ssh, old: list[str]) -> Ssh:
    keys = tuple(
        replace(key, there=False, whole=False, exposed=None, public_link=None) if key.path in old else key
        for key in ssh.host_keys
    )
    return replace(ssh, host_keys=keys)
