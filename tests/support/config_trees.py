"""What the tests of the configuration's layers share."""

from __future__ import annotations

from pathlib import Path

from azureinit.config.load import load
from azureinit.config.model import Config
from azureinit.machine import Machine

ETC = "etc/azure-init.toml"


def write(tree: Path, name: str, text: str | bytes) -> Path:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def machine(tree: Path, **environ: str) -> Machine:
    return Machine(root=str(tree), environ=environ)


def config(tree: Path, **environ: str) -> Config:
    return load(machine(tree, **environ), config=None, groups=None).config
