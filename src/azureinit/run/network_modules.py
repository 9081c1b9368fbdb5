"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.disk_modules import DISK_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

# In this order: seed_random, bootcmd (boothooks first), write_files, growpart, resizefs, disk_setup, mounts,
# set_hostname, update_hostname, manage_etc_hosts, ca_certs, rsyslog, users_groups, ssh, set_passwords.
MODULES: tuple[Module, ...] = (*DISK_MODULES,)
