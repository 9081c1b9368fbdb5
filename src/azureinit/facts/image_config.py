"""Configuration that the image brings: files that lie below customData."""

from __future__ import annotations

from azureinit.errors import LocalError
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.machine import Machine

OWN = "/etc/azure-init/userdata.d"
PEER = "/etc/cloud/cloud.cfg"
ENDING = ".cfg"
MOST_FILES = 1000
MOST_BYTES = 1 << 20


class ConfigFile(Record):
    path: str
    content: bytes
    strict: bool  # a mistake in it is an error; the other agent's files have keys that only it knows
    trouble: str = ""  # why it cannot be read


def read_image_config(machine: Machine, settings: Config) -> tuple[ConfigFile, ...]:
    """The file that wins first: of a directory, the last by name; the other agent's own file last."""
    found = _directory(machine, OWN, strict=True)
    if settings.userdata.cloud_init_compat:
        found += _directory(machine, f"{PEER}.d", strict=False)
        found += _file(machine, PEER, strict=False)
    return found


def _directory(machine: Machine, path: str, *, strict: bool) -> tuple[ConfigFile, ...]:
    names = sorted((name for name in machine.names(path) or () if name.endswith(ENDING)), reverse=True)
    return tuple(one for name in names[:MOST_FILES] for one in _file(machine, f"{path}/{name}", strict=strict))


def _file(machine: Machine, path: str, *, strict: bool) -> tuple[ConfigFile, ...]:
    if not machine.is_file(path):
        return ()
    try:
        content = machine.read(path, limit=MOST_BYTES)
    except LocalError as error:
        return (ConfigFile(path=path, content=b"", strict=strict, trouble=str(error)),)
    return () if content is None else (ConfigFile(path=path, content=content, strict=strict),)
