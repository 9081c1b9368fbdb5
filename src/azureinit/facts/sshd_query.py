"""Asking sshd for the configuration in force. A module of its own, so that it can be asked before others are loaded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from azureinit.machine import Machine
    from azureinit.machine.processes import Ran


def start_sshd_query(machine: Machine) -> Callable[[float], Ran]:
    """The returned function waits for the answer."""
    return machine.start(("sshd", "-G"))
