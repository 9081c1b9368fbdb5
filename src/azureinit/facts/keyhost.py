"""What this host's own keys need to know: read first of all, so that they can be made while the rest is read."""

from __future__ import annotations

from azureinit.facts.ssh import Ssh, read_files
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.config.model import Config
    from azureinit.machine import Machine

TOOLS = ("chpasswd", "hostnamectl", "restorecon", "ssh-keygen", "sshd", "systemctl", "useradd", "usermod", "visudo")


class KeyHost(Record):
    """The same words as in Facts."""

    tools: frozenset[str]
    selinux: bool
    ssh: Ssh


def read_key_host(machine: Machine, config: Config, tools: frozenset[str] | None = None) -> KeyHost:
    """`tools`: where they are known already."""
    return KeyHost(
        tools=frozenset(tool for tool in TOOLS if machine.find(tool)) if tools is None else tools,
        selinux=not machine.rooted and machine.stat("/sys/fs/selinux/enforce") is not None,
        ssh=read_files(machine, query=config.ssh.query_sshd_config, regenerate=config.ssh.regenerate_host_keys),
    )
