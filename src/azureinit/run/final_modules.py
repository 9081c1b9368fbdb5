"""The modules of the final stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.command_modules import FINAL_MESSAGE, PHONE_HOME, POWER_STATE, SCRIPT_MODULES
from azureinit.run.package_modules import PACKAGES
from azureinit.run.system_modules import WRITE_FILES_DEFERRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

MODULES: tuple[Module, ...] = (
    PACKAGES,
    WRITE_FILES_DEFERRED,
    *SCRIPT_MODULES,
    PHONE_HOME,
    FINAL_MESSAGE,
    POWER_STATE,
)
