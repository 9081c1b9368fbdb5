"""What each kind of value in the configuration accepts: checks, conversions, and the texts of their errors."""

from __future__ import annotations

from azureinit.addresses import host_of
from azureinit.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CHOICES = {
    "HostnameBackends": ("native", "hostnamectl"),
    "UserBackends": ("useradd", "files"),
    "PasswordBackends": ("chpasswd", "files", "passwd"),
    "HostKeyTypes": ("ed25519", "ecdsa", "rsa"),
}
CHOICE = {
    "Protocol": ("auto", "json", "xml"),
    "CryptId": ("auto", "y", "gy", "6", "5", "2b", "2a", "1"),
    "Discovery": ("dhcp", "static"),
    "ChangedId": ("provision", "keep"),
    "Regenerate": ("auto", "always", "never"),
    "Sudo": ("auto", "nopasswd", "password", "none"),
    "Required": ("auto", "true", "false"),
    "DiskSetup": ("off", "auto"),
    "NvmeUse": ("data", "swap", "off"),
    "ScsiUse": ("off", "fallback", "data", "swap"),
    "Aggregation": ("auto", "mdadm", "lvm", "none"),
    "Filesystem": ("ext4", "xfs", "btrfs"),
    "Table": ("none", "gpt"),
    "SwapKind": ("file", "partition"),
    "UserdataUse": ("customdata-first", "both"),
    "Unknown": ("caution", "fail"),
    "Interrupted": ("rerun", "fail"),
    "CommandErrors": ("auto", "stop", "ignore"),
    "AfterFailure": ("continue", "stop"),
    "ReadyAt": ("access", "config", "final"),
}
# The meaning of false and true for choices that were booleans before.
SWITCH = {"Regenerate": ("never", "always"), "Sudo": ("none", "auto"), "Required": ("false", "true")}
LONGEST_SECONDS = 86400  # longer values are reduced to this: no run lasts a day
LONGEST_TEXT = 4096
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
# Kinds of words: the characters besides letters and digits, the longest, and how a message calls them.
WORDS = {
    "ArrayName": ("_-", 32, "a name of at most 32 letters, digits, _ and -"),
    "Label": ("_.-", 16, "a label of at most 16 letters, digits, _, . and -"),
    "Owner": ("_.-:", 255, "USER, USER:GROUP or numeric ids"),
}


def checked(kind: str, value: object, *, default: object) -> object:
    """The checked and converted value. ConfigInvalid says what is expected, without naming the key."""
    if kind in CHOICES:
        return _choices(value, CHOICES[kind])
    if kind in SWITCH and isinstance(value, bool):
        return SWITCH[kind][value]
    if kind in CHOICE:
        return _choice(value, CHOICE[kind])
    if kind in ("Path", "Place", "VmId", "OptionalText", "Url"):
        return _text(kind, value, default)
    if kind in WORDS:
        return _word(kind, _text("Path", value, default) or "")
    return KINDS[kind](value)


def named(value: object) -> str:
    """A value as messages show it, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python refuses to convert an int of more than 4300 digits.
        return str(value) if abs(value) < 10**15 else "a number of that size"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, str):
        return f'the string "{shown(value)}"'
    return "a list" if isinstance(value, (list, tuple)) else "a table" if isinstance(value, dict) else "a date or time"


def shown(text: str, *, longest: int = 60) -> str:
    """Foreign text on one line, without control characters, shortened."""
    start = text[:longest]
    return (start if start.isprintable() else ascii(start)[1:-1]) + ("..." if len(text) > longest else "")


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigInvalid(f"must be true or false, not {named(value)}")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigInvalid(f"must be a number of seconds, not {named(value)}")
    if not value >= 0:  # also refuses NaN
        raise ConfigInvalid(f"must be 0 seconds or more, not {named(value)}")
    return float(min(value, LONGEST_SECONDS))


def _timeout(value: object) -> float:
    seconds = _seconds(value)
    if not seconds:
        raise ConfigInvalid("must be more than 0 seconds")
    return seconds


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise ConfigInvalid(f"must be a whole number from 0 on, not {named(value)}")
    return value


def _text(kind: str, value: object, default: object) -> str | None:
    if not isinstance(value, str):
        raise ConfigInvalid(f"must be a string, not {named(value)}")
    if len(value) > LONGEST_TEXT:
        raise ConfigInvalid(f"must be at most {LONGEST_TEXT} characters, not {len(value)}")
    if any(letter < " " or letter == "\x7f" for letter in value):
        raise ConfigInvalid(f"must have no control characters: {named(value)}")
    if kind == "OptionalText":
        return value.strip() or None
    if kind == "Path" and not value and default:
        raise ConfigInvalid("must not be empty")
    if kind == "Place" and (value[:1] != "/" or ".." in value.split("/")):
        raise ConfigInvalid(f"must be an absolute path without .. in it, not {named(value)}")
    if kind == "Url" and (value or default):
        value = _url(value)
    if kind == "VmId" and value:
        _check_vm_id(value)
    return value


def _check_vm_id(value: str) -> None:
    """Accepts only a UUID, since the id becomes part of file names."""
    letters = set(value.lower())
    lengths = [len(group) for group in value.split("-")]
    # All zeros or all f: the firmware has no id.
    if lengths != [8, 4, 4, 4, 12] or letters - set("0123456789abcdef-") or len(letters) == 2:
        raise ConfigInvalid(f"must be a VM's UUID, not {named(value)}")


def _url(value: str) -> str:
    """The URL with a lower-case scheme."""
    if value[: len("http://")].lower() != "http://":
        raise ConfigInvalid(f"must start with http://, not {named(value)}")
    url = "http://" + value[len("http://") :]
    if not host_of(url) or set(url) & set('"<>\\^`{|}#'):
        port = "with a port from 1 to 65535 if it names one"
        raise ConfigInvalid(f"must be a plain http:// URL with a host, and {port}, not {named(value)}")
    return url


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigInvalid(f"must be a list of strings, not {named(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigInvalid(f"must be a list of strings, but holds {named(item)}")
    return tuple(value)


def _names(value: object) -> tuple[str, ...]:
    names = _strings(value)
    for name in names:
        if not name or not name.isprintable() or name[0] == "-" or len(name) > 255 or set(name) & set(" ,:"):
            raise ConfigInvalid(f"must be a list of group names, but holds {named(name)}")
    return names


def _choice(value: object, allowed: tuple[str, ...]) -> object:
    if value not in allowed:
        told = ", ".join(f'"{name}"' for name in allowed)
        raise ConfigInvalid(f"must be one of {told}, not {named(value)}")
    return value


def _choices(value: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    chosen = _strings(value)
    for choice in chosen:
        if choice not in allowed:
            told = ", ".join(f'"{name}"' for name in allowed)
            raise ConfigInvalid(f"must be a list out of {told}, but holds {named(choice)}")
    return chosen


def _word(kind: str, value: str) -> str:
    others, longest, told = WORDS[kind]
    if len(value) > longest or value[:1] == "-" or set(value) - LETTERS - set(others):
        raise ConfigInvalid(f"must be {told}, not {named(value)}")
    return value


def _mount_point(value: object) -> str:
    """The characters are those that need no escape in /etc/fstab and in the name of a mount unit."""
    place = (_text("Place", value, "/") or "").rstrip("/")
    if not place or set(place) - LETTERS - set("_/.-") or "//" in place or "." in place.split("/"):
        told = "must be an absolute path of letters, digits, _, ., - and /, and not / itself"
        raise ConfigInvalid(f"{told}, not {named(value)}")
    return place


def _mount_options(value: object) -> str:
    options = _text("Path", value, "defaults") or ""
    if options != "".join(options.split()) or set(options) & set('#"\\') or not all(options.split(",")):
        raise ConfigInvalid(f"must be mount options, comma separated, without spaces, not {named(value)}")
    return options


def _chunk(value: object) -> int:
    size = _count(value)
    if not size or size % 4 or size > 1 << 20:
        raise ConfigInvalid(f"must be a multiple of 4 from 4 to {1 << 20}, not {named(value)}")
    return size


KINDS: dict[str, Callable[[object], object]] = {
    "bool": _bool,
    "Seconds": _seconds,
    "Timeout": _timeout,
    "OptionalNames": _names,
    "Count": _count,
    "Chunk": _chunk,
    "MountPoint": _mount_point,
    "MountOptions": _mount_options,
}
