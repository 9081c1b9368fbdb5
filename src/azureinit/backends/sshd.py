"""Checking sshd's configuration: by sshd -t."""

from __future__ import annotations

from azureinit.plan.actions import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host


def check_config(host_key: str | None, host: Host) -> Run | None:
    """None where sshd cannot be asked. `host_key`: sshd -t fails without one."""
    if host.rooted or "sshd" not in host.tools or host_key is None:
        return None
    return Run(argv=("sshd", "-t", "-h", host_key), changes=False)
