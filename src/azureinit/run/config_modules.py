"""The modules of the config stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.package_modules import APT, YUM_REPOS, ZYPPER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

MODULES: tuple[Module, ...] = (APT, YUM_REPOS, ZYPPER)
