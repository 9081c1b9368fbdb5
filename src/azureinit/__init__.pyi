"""For type checkers: the same names, from where they are."""

from azureinit.config.model import Config as Config
from azureinit.library import (
    Provision as Provision,
    User as User,
    configure_sshd as configure_sshd,
    create_user as create_user,
    install_ssh_keys as install_ssh_keys,
    lock_user as lock_user,
    query_imds as query_imds,
    read_media as read_media,
    report_failure as report_failure,
    report_in_progress as report_in_progress,
    report_ready as report_ready,
    set_hostname as set_hostname,
    set_user_password as set_user_password,
    vm_id as vm_id,
)
from azureinit.machine import Machine as Machine
from azureinit.record import Secret as Secret
from azureinit.sources.imds import PublicKey as PublicKey

__all__ = [
    "Config",
    "Machine",
    "Provision",
    "PublicKey",
    "Secret",
    "User",
    "configure_sshd",
    "create_user",
    "install_ssh_keys",
    "lock_user",
    "query_imds",
    "read_media",
    "report_failure",
    "report_in_progress",
    "report_ready",
    "set_hostname",
    "set_user_password",
    "vm_id",
]
