"""Ignition: whether it configures this machine, when it ran, and whether a user's configuration was given to it."""

from __future__ import annotations

from azureinit.facts.distros import IGNITION_WORDS
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine

RESULT = "/etc/.ignition-result.json"
ENVIRONMENT = "/run/ignition.env"
HOSTNAME = "/etc/hostname"
LONGEST_RUN = 600.0  # seconds from the first file of a run of Ignition to the last, downloads included


class Ignition(Record):
    """Ignition configures this machine, and may do so again in a later boot."""

    # The file or kernel argument that shows it.
    sign: str
    # Ignition ran in this boot with a user's configuration, which therefore takes precedence.
    fresh: bool = False
    # The same run wrote /etc/hostname.
    wrote_hostname: bool = False


def read_ignition(machine: Machine) -> Ignition | None:
    """None where Ignition does not configure this machine."""
    found = [path for path in (RESULT, ENVIRONMENT) if machine.stat(path)]
    if RESULT in found:
        return read_result(machine, RESULT)
    arguments = () if machine.rooted else (machine.read("/proc/cmdline") or b"").split()
    found += [word.decode("ascii", "replace") for word in arguments if word.startswith(IGNITION_WORDS)]
    return Ignition(sign=found[0]) if found else None


def read_result(machine: Machine, path: str) -> Ignition:
    result = parse_result(machine.read(path, limit=64 << 10) or b"")
    boot = str(result.get("provisioningBootID", "")).replace("-", "")
    this = machine.boot_id().replace("-", "")
    fresh = result.get("userConfigProvided") is True and bool(boot) and boot == this
    return Ignition(sign=path, fresh=fresh, wrote_hostname=fresh and _same_run(machine, HOSTNAME, path))


def parse_result(data: bytes) -> dict[str, Any]:
    """Empty where the data are not a JSON object."""
    import json  # only where Ignition left a result: a boot elsewhere does without

    try:
        result = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return result if isinstance(result, dict) else {}


def _same_run(machine: Machine, path: str, result: str) -> bool:
    """Whether the file was written in the run that wrote the result. A file of the image is far older."""
    file, last = machine.stat(path), machine.stat(result)
    return file is not None and last is not None and file.st_mtime >= last.st_mtime - LONGEST_RUN
