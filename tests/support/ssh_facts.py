"""What the tests of sshd's facts share."""

from __future__ import annotations

from azureinit.facts.key_files import KeysFile, read_keys_files
from azureinit.machine import Machine


def way(machine: Machine, home: str, path: str | None = None) -> KeysFile:
    (file,) = read_keys_files(machine, home=home, paths=(path or f"{home}/.ssh/authorized_keys",))
    return file
