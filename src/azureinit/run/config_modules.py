"""The modules of the config stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.user_modules import SSH_IMPORT_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

# In this order: ssh_import_id, keyboard, locale, apt_configure, yum_add_repo, ntp, timezone.
MODULES: tuple[Module, ...] = (SSH_IMPORT_ID,)
