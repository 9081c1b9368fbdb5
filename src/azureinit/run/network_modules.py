"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.command_modules import BOOTCMD
from azureinit.run.disk_modules import DISK_MODULES
from azureinit.run.system_modules import (
    CA_CERTS,
    RSYSLOG,
    SEED_RANDOM,
    SET_HOSTNAME,
    UPDATE_ETC_HOSTS,
    UPDATE_HOSTNAME,
    WRITE_FILES,
)
from azureinit.run.user_modules import ADMIN_CHECK, SET_PASSWORDS, SSH, USERS_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

MODULES: tuple[Module, ...] = (
    ADMIN_CHECK,
    SEED_RANDOM,
    BOOTCMD,
    WRITE_FILES,
    *DISK_MODULES,
    SET_HOSTNAME,
    UPDATE_HOSTNAME,
    UPDATE_ETC_HOSTS,
    CA_CERTS,
    RSYSLOG,
    USERS_GROUPS,
    SSH,
    SET_PASSWORDS,
)
