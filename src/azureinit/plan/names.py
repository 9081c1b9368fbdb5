"""Checks of user and host names from outside, before they become an account, a path, an argument or a host name."""

from __future__ import annotations

from azureinit.errors import InvalidHostname, InvalidUsername

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST_USERNAME = 32  # utmp's field, and useradd's limit
LONGEST_HOSTNAME = 64  # the kernel's HOST_NAME_MAX
LONGEST_LABEL = 63
SHOWN = 40
GENERIC = ("", "(none)", "localhost", "localhost4", "localhost6")
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
DIGITS = frozenset("0123456789")
IN_USERNAME = LETTERS | DIGITS | frozenset("_.-")
IN_LABEL = LETTERS | DIGITS | frozenset("-")


def check_username(name: str, *, reserved: Collection[str] = (), system: bool = False) -> str:
    """The name, if useradd of Debian and of RHEL would both accept it and it is not reserved.

    `system`: root is allowed. The name `nobody` never is, even where no account has it.
    """
    why = _username_problem(name)
    if not why and ((name == "root" and not system) or name == "nobody" or name in reserved):
        why = "belongs to the system"
    if why:
        hint = "choose an admin user name of letters, digits, '_', '.' and '-' that the image does not use itself"
        raise InvalidUsername(f"user name {quoted(name)} {why}", hint=hint)
    return name


def check_hostname(name: str) -> str:
    """The name, if it is a host name or a fully qualified one by RFC 1123 that fits into the kernel."""
    why = _hostname_problem(name)
    if why:
        hint = "choose a computer name of letters, digits and '-'"
        raise InvalidHostname(f"host name {quoted(name)} {why}", hint=hint)
    return name


def is_generic_hostname(hostname: str) -> bool:
    """Whether the name identifies no particular host: it must not reach DNS."""
    return hostname.lower().partition(".")[0] in GENERIC


def quoted(name: str) -> str:
    """Printable and short."""
    return ascii(name[:SHOWN]) + (f"... ({len(name)} characters)" if len(name) > SHOWN else "")


def _username_problem(name: str) -> str:
    if not name:
        return "is empty"
    if len(name) > LONGEST_USERNAME:
        return f"is longer than {LONGEST_USERNAME} characters"
    if name[0] in ".-" or name == "$":
        return f"begins with {name[0]!r}"
    # useradd accepts a final dollar sign, for Samba's machine accounts.
    stem = name[:-1] if name[-1] == "$" else name
    wrong = [letter for letter in stem if letter not in IN_USERNAME]
    if wrong:
        return f"contains {wrong[0]!a}"
    if DIGITS.issuperset(stem):
        return "has only digits"
    return ""


def _hostname_problem(name: str) -> str:
    if not name:
        return "is empty"
    if len(name) > LONGEST_HOSTNAME:
        return f"is longer than {LONGEST_HOSTNAME} characters"
    labels = name.split(".")
    for label in labels:
        wrong = [letter for letter in label if letter not in IN_LABEL]
        if wrong:
            return f"contains {wrong[0]!a}"
        if not label:
            return "has an empty label"
        if len(label) > LONGEST_LABEL:
            return f"has a label longer than {LONGEST_LABEL} characters"
        if label[0] == "-" or label[-1] == "-":
            return "has a label that begins or ends with '-'"
    if len(labels) == 4 and all(DIGITS.issuperset(label) for label in labels):
        return "looks like an IPv4 address"
    return ""


def listed(names: tuple[str, ...]) -> str:
    """As text: a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def name_problem(name: str) -> str:
    """Why this cannot be the name of a new account or group; else empty."""
    return _username_problem(name)
