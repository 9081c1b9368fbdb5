"""The modules of a stage: the stages, `azure-init plan` and `azure-init userdata explain` iterate over these rows."""

from __future__ import annotations

from azureinit.run.modules import CONFIG, NETWORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module


def modules_of(stage: str) -> tuple[Module, ...]:
    if stage == NETWORK:
        from azureinit.run.network_modules import MODULES
    elif stage == CONFIG:
        from azureinit.run.config_modules import MODULES
    else:
        from azureinit.run.final_modules import MODULES
    return MODULES
