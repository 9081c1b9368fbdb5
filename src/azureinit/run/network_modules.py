"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.command_modules import BOOTCMD
from azureinit.run.disk_modules import DISK_MODULES
from azureinit.run.user_modules import ADMIN_CHECK, SET_PASSWORDS, SSH, USERS_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

MODULES: tuple[Module, ...] = (ADMIN_CHECK, BOOTCMD, *DISK_MODULES, USERS_GROUPS, SSH, SET_PASSWORDS)
