"""Whether the system is going down."""

from __future__ import annotations

from azureinit.errors import AzureInitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

ASK_SECS = 3.0


def is_stopping(machine: Machine) -> bool:
    """By systemd; False where it gives no answer."""
    if machine.rooted or not machine.is_dir("/run/systemd/system"):
        return False
    try:
        return machine.run(("systemctl", "is-system-running"), timeout=ASK_SECS).out.strip() == b"stopping"
    except AzureInitError:
        return False
