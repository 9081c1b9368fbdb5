"""Checking a sudoers file: by visudo."""

from __future__ import annotations

from azureinit.plan.actions import Run
from azureinit.record import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host


def check_sudoers(path: str, host: Host) -> Run | None:
    """None where visudo is not installed, or would check the running system's files instead of those under --root."""
    if host.rooted or "visudo" not in host.tools:
        return None
    return Run(argv=("visudo", "-c", "-f", path), changes=False)


def check_rules(data: bytes, host: Host) -> Run | None:
    """Check a file before it is written, by its content; also for a file tree. None where visudo is not installed."""
    if "visudo" not in host.tools:
        return None
    return Run(argv=("visudo", "-c", "-f", "-"), stdin=Secret(data), changes=False)
