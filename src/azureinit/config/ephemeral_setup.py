"""/etc/azure-ephemeral-disk-setup.conf, the file of azure-vm-utils: its eight options, as that service reads them.

A wrong value ends that service before it touches a disk. Here it is a warning, since the file must not prevent
provisioning, and the setup of disks refuses to begin.
"""

from __future__ import annotations

from azureinit.config.values import checked, shown
from azureinit.errors import ConfigInvalid
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "AZURE_EPHEMERAL_DISK_SETUP_"
TIMEOUTS = ("SYSTEMD_UNIT_TIMEOUT_SECS", "UDEVADM_SETTLE_TIMEOUT_SECS")
KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}


class Taken(Record):
    line: int
    key: str  # azure-init's key, as section.key
    value: object


class EphemeralSetup(Record):
    taken: tuple[Taken, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_ephemeral_setup(data: bytes) -> EphemeralSetup:
    """The last of several lines with the same name counts, and is the only one that is checked."""
    said: dict[str, tuple[int, str]] = {}
    warnings = []
    for at, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        name, _, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not name.startswith(PREFIX) or name[len(PREFIX) :] not in OPTIONS:
            warnings.append(f"line {at}: {shown(name)} is not an option: ignored")
            continue
        said[name] = at, _unquoted(value)
    taken, problems = [], []
    for name, (at, value) in said.items():
        key, meaning = OPTIONS[name[len(PREFIX) :]]
        try:
            found = checked_option(key, meaning(value))
        except ConfigInvalid as error:
            problems.append(f"line {at}: {name} {error.message}")
        else:
            if key:
                taken.append(Taken(line=at, key=key, value=found))
    return EphemeralSetup(taken=tuple(taken), problems=tuple(problems), warnings=tuple(warnings))


def checked_option(key: str, value: object) -> object:
    from azureinit.config.model import Config

    if not key:
        return value
    section, _, field = key.partition(".")
    record = Config.defaults_[section]
    return checked(type(record).fields_[field], value, default=getattr(record, field))


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _one_of(*allowed: str) -> Callable[[str], object]:
    def meaning(value: str) -> object:
        if value not in allowed:
            raise ConfigInvalid(f"must be one of {', '.join(allowed)}, not {shown(value) or 'empty'}")
        return value

    return meaning


def _chunk(value: str) -> object:
    digits, unit = value[:-1], value[-1:]
    if not digits.isdecimal() or not digits.isascii() or digits[0] == "0" or len(digits) > 9 or unit not in KIB:
        raise ConfigInvalid(f"must be a number with K, M, G or T, not {shown(value) or 'empty'}")
    return int(digits) * KIB[unit]


def _scsi(value: str) -> object:
    """That service uses the resource disk only where there is no local NVMe disk."""
    return {"true": "fallback", "false": "off"}[str(_one_of("true", "false")(value))]


def _timeout(value: str) -> object:
    if not value.isdecimal() or not value.isascii() or not value.strip("0"):
        raise ConfigInvalid(f"must be a number of seconds from 1 on, not {shown(value) or 'empty'}")
    return value


# The key of azure-init, and the value's meaning. The two timeouts have no key: azure-init bounds its own waiting.
OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "AGGREGATION": ("disk.aggregation", _one_of("auto", "mdadm", "none")),
    "FS_TYPE": ("disk.filesystem", _one_of("ext4", "xfs")),
    "MDADM_CHUNK": ("disk.chunk_kib", _chunk),
    "MDADM_NAME": ("disk.md_name", str),
    "MOUNT_POINT": ("disk.mount_point", str),
    "SCSI_RESOURCE": ("disk.scsi", _scsi),
    **dict.fromkeys(TIMEOUTS, ("", _timeout)),
}
