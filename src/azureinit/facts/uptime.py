"""How long this machine has been up."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine


def read_uptime(machine: Machine) -> float:
    """Seconds; 0 where the kernel does not tell."""
    try:
        return float((machine.read("/proc/uptime", limit=4096) or b"0").split()[0])
    except (ValueError, IndexError):
        return 0.0
