"""The modules of the config stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.package_modules import APT, YUM_REPOS, ZYPPER
from azureinit.run.system_modules import KEYBOARD, LOCALE, NTP, TIMEZONE
from azureinit.run.user_modules import SSH_IMPORT_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

MODULES: tuple[Module, ...] = (SSH_IMPORT_ID, KEYBOARD, LOCALE, APT, YUM_REPOS, ZYPPER, NTP, TIMEZONE)
