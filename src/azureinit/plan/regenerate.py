"""Host keys that an image carries are every copy's: once for each VM they go, and new ones are made.

Facts cannot tell an old key from a new one, so the journal decides. All of it is one step, which counts as done when
the new keys are there and sshd knows them: cut off anywhere, it begins again.
"""

from __future__ import annotations

from azureinit.errors import HostKeysFailed
from azureinit.plan.actions import Caution, Declined, Remove, Run, Satisfied, Step, Way
from azureinit.plan.hostkeys import TOOL, plan_host_keys
from azureinit.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Action, Plan

NAME = "host keys of the image"
CERTIFICATE = "-cert.pub"
PREFIX = "/etc/ssh/ssh_host_"


def plan_regeneration(*, types: tuple[str, ...], facts: Facts, done: frozenset[str]) -> tuple[Plan, Facts]:
    """The plan, and the machine without the old keys. `types`: those that are not left until after Ready."""
    if not facts.ssh.installed:
        return (), facts
    if NAME in done:
        return (Satisfied(name=NAME, why="were made anew"),), facts
    without = _without_keys(facts)
    made = [item for item in plan_host_keys(types=types, facts=without) if isinstance(item, Step)]
    if not made:
        why = f"no key of {', '.join(types) or 'any type'} would be made here: those there are stay"
        return (Caution(name=NAME, why=why),), facts
    return (*_plan_step(made, facts), *_left_alone(facts)), without


def _plan_step(made: list[Step], facts: Facts) -> Plan:
    declined = next((way for step in made for way in step.ways if isinstance(way, Declined)), None)
    old = [path for path in facts.ssh.key_files if _is_ours_to_remove(path, facts)]
    actions: list[Action] = [Remove(path=path) for path in old]
    actions += [action for step in made for way in step.ways if isinstance(way, Way) for action in way.actions]
    actions += _reload(facts)
    why = f"{', '.join(old) or 'none'}: made anew, as is asked"
    ways = (declined or Way(backend=TOOL, actions=tuple(actions)),)
    return (Step(name=NAME, why=why, ways=ways, once=True, failure=HostKeysFailed),)


def _reload(facts: Facts) -> list[Action]:
    """It reads its keys when it starts. Not waited for: sshd may be ordered after the unit we are."""
    ssh = facts.ssh
    if not (ssh.running and facts.systemd and ssh.unit and "systemctl" in facts.tools):
        return []
    return [Run(argv=("systemctl", "--no-block", "try-reload-or-restart", ssh.unit))]


def _left_alone(facts: Facts) -> Plan:
    whys = (
        f"{path} vouches for a key that goes: left alone, and of no use any more"
        if path.endswith(CERTIFICATE)
        else f"{path} does not tell its type by its name: left alone"
        for path in facts.ssh.key_files
        if not _is_ours_to_remove(path, facts)
    )
    return tuple(Caution(name=NAME, why=why) for why in whys)


def _is_ours_to_remove(path: str, facts: Facts) -> bool:
    known = {key.path for key in facts.ssh.host_keys if key.type}
    return not path.endswith(CERTIFICATE) and (path.startswith(PREFIX) or path.removesuffix(".pub") in known)


def _without_keys(facts: Facts) -> Facts:
    keys = tuple(
        replace(key, there=False, whole=False, exposed=None, public_link=None) if key.type else key
        for key in facts.ssh.host_keys
    )
    return replace(facts, ssh=replace(facts.ssh, host_keys=keys))
