"""sudo for the admin; by default without a password only where the admin has none."""

from __future__ import annotations

from azureinit.errors import UserFailed
from azureinit.facts.gather import SUDOERS
from azureinit.plan.actions import Caution, Remove, Satisfied, Step, Unknown, Way, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.facts.accounts import Accounts
    from azureinit.facts.gather import Sudoers
    from azureinit.facts.host import Host
    from azureinit.plan.actions import Item, Plan

MODE = 0o440
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
# Names that sudo's grammar does not take for a user.
NOT_USERS = ("sudoedit", "sha224", "sha256", "sha384", "sha512")


def plan_sudoers(
    *, username: str, has_password: bool, host: Host, accounts: Accounts, sudoers: Sudoers, config: Config
) -> Plan:
    asked = config.user.sudo
    if asked == "none" and not sudoers.hidden:
        return (_plan_none(sudoers),)
    if sudoers.hidden:
        return (Unknown(name="sudo", why=f"{SUDOERS} cannot be read"),)
    if not sudoers.directory:
        return (Caution(name="sudo", why="there is no /etc/sudoers.d: sudo is not installed"),)
    needed = asked == "password" or (asked == "auto" and has_password)
    line = f"{_quoted(username)} ALL=(ALL) {'' if needed else 'NOPASSWD: '}ALL\n".encode()
    useless = needed and not has_password and not _has_password(username, accounts)
    why = f"user.sudo is password, and {username} has no password: sudo cannot be used"
    cautions = (Caution(name="sudo", why=why),) if useless else ()
    return (_plan_file(username, line, needed, host=host, sudoers=sudoers), *cautions)


def _plan_none(sudoers: Sudoers) -> Item:
    """Remove the file that an earlier run or the image left: it would grant sudo."""
    if sudoers.file is None:
        return Satisfied(name="sudo", why="user.sudo is none")
    way = Way(backend="native", actions=(Remove(path=SUDOERS),))
    did = f"removed {SUDOERS}: user.sudo is none"
    return Step(name="sudo", why="user.sudo is none", did=did, ways=(way,), failure=UserFailed)


def _has_password(username: str, accounts: Accounts) -> bool:
    """Whether the account has a password of its own, or may have one."""
    return accounts.user(username) is not None and accounts.password_state(username) in ("set", "unknown")


def _plan_file(username: str, line: bytes, needed: bool, *, host: Host, sudoers: Sudoers) -> Item:
    if sudoers.file == line:
        return Satisfied(name="sudo", why=f"{username} is a sudoer")
    check = None
    if not _is_plain(username):  # a plain name cannot break sudo's grammar
        from azureinit.backends.sudoers import check_sudoers

        check = check_sudoers(SUDOERS, host)
    write = Write(path=SUDOERS, data=line, mode=MODE, owner="0:0", was=sudoers.file, check=check)
    why = f"{username} may become root" + ("" if needed else " without a password")
    did = f"gave {username} sudo" + ("" if needed else " without a password")
    ways = (Way(backend="native", actions=(write,)),)
    return Step(name="sudo", why=why, did=did, ways=ways, failure=UserFailed)


def _quoted(username: str) -> str:
    """Quoted where sudo would take the name for an alias, a keyword, ALL or an address."""
    begins = (username[0].islower() or username[0] == "_") and username not in NOT_USERS
    return username if begins else f'"{username}"'


def _is_plain(username: str) -> bool:
    return username not in NOT_USERS and not username[0].isdigit() and not set(username) - PLAIN
