"""The modules of the final stage, in the order in which they run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

# In this order: packages, write_files_deferred, scripts_per_once, scripts_per_boot, scripts_per_instance, scripts_user
# (runcmd and scripts), phone_home, final_message, power_state.
MODULES: tuple[Module, ...] = ()
