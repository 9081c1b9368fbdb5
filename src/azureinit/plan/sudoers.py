"""The admin may become root: without being asked for a password only where there is none."""

from __future__ import annotations

from azureinit.errors import UserFailed
from azureinit.plan.actions import Caution, Run, Satisfied, Step, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan

SUDOERS = "/etc/sudoers.d/azure-init-user"
MODE = 0o440


def plan_sudoers(*, username: str, has_password: bool, facts: Facts, config: Config) -> Plan:
    if not config.user.sudo:
        return (Satisfied(name="sudo", why="user.sudo is false"),)
    if not facts.sudoers_dir:
        return (Caution(name="sudo", why="there is no /etc/sudoers.d: sudo is not installed"),)
    line = f"{_quoted(username)} ALL=(ALL) {'' if has_password else 'NOPASSWD: '}ALL\n".encode()
    if facts.sudoers_file == line:
        return (Satisfied(name="sudo", why=f"{username} is a sudoer"),)
    check = Run(argv=("visudo", "-c", "-f", SUDOERS)) if "visudo" in facts.tools and not facts.rooted else None
    owner = "0:0" if facts.privileged else None
    write = Write(path=SUDOERS, data=line, mode=MODE, owner=owner, was=facts.sudoers_file, check=check)
    why = f"{username} may become root" + ("" if has_password else " without a password")
    return (Step(name="sudo", why=why, ways=(Way(backend="native", actions=(write,)),), failure=UserFailed),)


def _quoted(username: str) -> str:
    """A bare name in capitals is an alias to sudo, and ALL is everybody."""
    return username if any(letter.islower() for letter in username) else f'"{username}"'
