"""The admin may become root: without being asked for a password only where there is none."""

from __future__ import annotations

from azureinit.errors import UserFailed
from azureinit.facts.gather import SUDOERS
from azureinit.plan.actions import Caution, Run, Satisfied, Step, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Plan

MODE = 0o440
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
# What sudo's own grammar takes for something else where a user is expected.
NOT_USERS = ("sudoedit", "sha224", "sha256", "sha384", "sha512")


def plan_sudoers(*, username: str, has_password: bool, facts: Facts, config: Config) -> Plan:
    if not config.user.sudo:
        return (Satisfied(name="sudo", why="user.sudo is false"),)
    if not facts.sudoers_dir:
        return (Caution(name="sudo", why="there is no /etc/sudoers.d: sudo is not installed"),)
    line = f"{_quoted(username)} ALL=(ALL) {'' if has_password else 'NOPASSWD: '}ALL\n".encode()
    if facts.sudoers_file == line:
        return (Satisfied(name="sudo", why=f"{username} is a sudoer"),)
    # Of a plain name sudo thinks what we do.
    checked = not _is_plain(username) and "visudo" in facts.tools and not facts.rooted
    check = Run(argv=("visudo", "-c", "-f", SUDOERS)) if checked else None
    write = Write(path=SUDOERS, data=line, mode=MODE, owner="0:0", was=facts.sudoers_file, check=check)
    why = f"{username} may become root" + ("" if has_password else " without a password")
    return (Step(name="sudo", why=why, ways=(Way(backend="native", actions=(write,)),), failure=UserFailed),)


def _quoted(username: str) -> str:
    """A capital begins sudo's aliases and keywords, and ALL is everybody; a digit begins an address."""
    begins = (username[0].islower() or username[0] == "_") and username not in NOT_USERS
    return username if begins else f'"{username}"'


def _is_plain(username: str) -> bool:
    return username not in NOT_USERS and not username[0].isdigit() and not set(username) - PLAIN
