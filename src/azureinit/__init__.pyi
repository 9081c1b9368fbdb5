"""For type checkers: the same names, from where they are."""

from azureinit.config.model import Config as Config
from azureinit.library import (
    Provision as Provision,
)
from azureinit.library import (
    User as User,
)
from azureinit.library import (
    configure_sshd as configure_sshd,
)
from azureinit.library import (
    create_user as create_user,
)
from azureinit.library import (
    install_ssh_keys as install_ssh_keys,
)
from azureinit.library import (
    lock_user as lock_user,
)
from azureinit.library import (
    query_imds as query_imds,
)
from azureinit.library import (
    read_media as read_media,
)
from azureinit.library import (
    report_failure as report_failure,
)
from azureinit.library import (
    report_in_progress as report_in_progress,
)
from azureinit.library import (
    report_ready as report_ready,
)
from azureinit.library import (
    set_hostname as set_hostname,
)
from azureinit.library import (
    set_user_password as set_user_password,
)
from azureinit.library import (
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
