"""What the tests of keys and sshd on a file tree share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from azureinit.apply.executor import apply_step
from azureinit.config.model import Config
from azureinit.facts.ssh import aliases_of
from azureinit.facts.sshd_config import Walk, expand
from azureinit.machine import Machine
from azureinit.memory.journal import Journal
from azureinit.plan.actions import Step
from support.need import need

MAIN = "/etc/ssh/sshd_config"
CONFIG = Config()


def apply(machine: Machine, plan: tuple[Any, ...]) -> None:
    for step in plan:
        if isinstance(step, Step):
            apply_step(machine, step, journal=Journal("/journal", []), deadline=float("inf"))


def ssh_keygen(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([need("ssh-keygen"), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def ours(config: Path) -> dict[str, tuple[str, ...]]:
    def read(path: str) -> bytes | None:
        return Path(path).read_bytes() if os.path.isfile(path) else None

    def names(path: str) -> tuple[str, ...] | None:
        return tuple(os.listdir(path)) if os.path.isdir(path) else None

    return Walk(
        str(config), read=read, expand=lambda pattern: expand(pattern, names), aliases=aliases_of((9, 2))
    ).values
