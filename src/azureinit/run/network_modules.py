"""The modules of the network stage, in the order in which they run."""

from __future__ import annotations

from azureinit.run.user_modules import ADMIN_CHECK, SET_PASSWORDS, SSH, USERS_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.run.modules import Module

# In this order: admin_check, seed_random, bootcmd (boothooks first), write_files, growpart, resizefs, disk_setup,
# mounts, set_hostname, update_hostname, manage_etc_hosts, ca_certs, rsyslog, users_groups, ssh, set_passwords.
MODULES: tuple[Module, ...] = (
    ADMIN_CHECK,
    USERS_GROUPS,
    SSH,
    SET_PASSWORDS,
)
