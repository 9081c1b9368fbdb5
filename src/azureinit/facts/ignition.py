"""What Ignition left behind: when it ran, and whether somebody's configuration was in it."""

from __future__ import annotations

import json

from azureinit.facts.host import Ignition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.machine import Machine

HOSTNAME = "/etc/hostname"
LONGEST_RUN = 600.0  # seconds from its first file to its last, fetching what is far away included


def read_result(machine: Machine, path: str) -> Ignition:
    result = parse_result(machine.read(path, limit=64 << 10) or b"")
    boot = str(result.get("provisioningBootID", "")).replace("-", "")
    this = machine.boot_id().replace("-", "")
    fresh = result.get("userConfigProvided") is True and bool(boot) and boot == this
    return Ignition(sign=path, fresh=fresh, wrote_hostname=fresh and _came_with(machine, HOSTNAME, path))


def parse_result(data: bytes) -> dict[str, Any]:
    """Nothing, where it is not what Ignition writes."""
    try:
        result = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return result if isinstance(result, dict) else {}


def _came_with(machine: Machine, path: str, result: str) -> bool:
    """Written in the same run; one that came with the image is far older."""
    file, last = machine.stat(path), machine.stat(result)
    return file is not None and last is not None and file.st_mtime >= last.st_mtime - LONGEST_RUN
