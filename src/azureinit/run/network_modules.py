"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.command_modules import BOOTCMD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

MODULES: tuple[Module, ...] = (BOOTCMD,)
