"""The admin may become root; by default without being asked for a password only where there is none."""

from __future__ import annotations

from azureinit.errors import UserFailed
from azureinit.facts.gather import SUDOERS
from azureinit.plan.actions import Caution, Remove, Run, Satisfied, Step, Unknown, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.gather import Facts
    from azureinit.plan.actions import Item, Plan

MODE = 0o440
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
# What sudo's own grammar takes for something else where a user is expected.
NOT_USERS = ("sudoedit", "sha224", "sha256", "sha384", "sha512")


def plan_sudoers(*, username: str, has_password: bool, facts: Facts, config: Config) -> Plan:
    asked = config.user.sudo
    if asked == "none" and not facts.sudoers_hidden:
        return (_plan_none(facts),)
    if facts.sudoers_hidden:
        return (Unknown(name="sudo", why=f"{SUDOERS} cannot be read"),)
    if not facts.sudoers_dir:
        return (Caution(name="sudo", why="there is no /etc/sudoers.d: sudo is not installed"),)
    needed = asked == "password" or (asked == "auto" and has_password)
    line = f"{_quoted(username)} ALL=(ALL) {'' if needed else 'NOPASSWD: '}ALL\n".encode()
    return (*_plan_file(username, line, needed, facts), *_plan_useless(username, has_password, facts, needed=needed))


def _plan_none(facts: Facts) -> Item:
    """What an earlier run or the image has left in our file would be sudo all the same."""
    if facts.sudoers_file is None:
        return Satisfied(name="sudo", why="user.sudo is none")
    way = Way(backend="native", actions=(Remove(path=SUDOERS),))
    did = f"removed {SUDOERS}: user.sudo is none"
    return Step(name="sudo", why="user.sudo is none", did=did, ways=(way,), failure=UserFailed)


def _plan_useless(username: str, has_password: bool, facts: Facts, *, needed: bool) -> Plan:
    if not needed or has_password:
        return ()
    if facts.accounts.user(username) is not None and facts.accounts.password_state(username) in ("set", "unknown"):
        return ()
    return (Caution(name="sudo", why=f"user.sudo is password, and {username} has none: sudo cannot be used"),)


def _plan_file(username: str, line: bytes, needed: bool, facts: Facts) -> Plan:
    if facts.sudoers_file == line:
        return (Satisfied(name="sudo", why=f"{username} is a sudoer"),)
    # Of a plain name sudo thinks what we do.
    checked = not _is_plain(username) and "visudo" in facts.tools and not facts.rooted
    check = Run(argv=("visudo", "-c", "-f", SUDOERS), changes=False) if checked else None
    write = Write(path=SUDOERS, data=line, mode=MODE, owner="0:0", was=facts.sudoers_file, check=check)
    why = f"{username} may become root" + ("" if needed else " without a password")
    did = f"gave {username} sudo" + ("" if needed else " without a password")
    ways = (Way(backend="native", actions=(write,)),)
    return (Step(name="sudo", why=why, did=did, ways=ways, failure=UserFailed),)


def _quoted(username: str) -> str:
    """A capital begins sudo's aliases and keywords, and ALL is everybody; a digit begins an address."""
    begins = (username[0].islower() or username[0] == "_") and username not in NOT_USERS
    return username if begins else f'"{username}"'


def _is_plain(username: str) -> bool:
    return username not in NOT_USERS and not username[0].isdigit() and not set(username) - PLAIN
