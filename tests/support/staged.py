"""The agent as its package installs it in a tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.container import run_over
from support.disks import SUITE
from support.need import need

PROJECT = Path(__file__).parents[2]


def staged(tree: Path) -> Path:
    """The agent as its package lays it on a machine, compiled and switched on."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    stage = [sys.executable, str(PROJECT / "packaging/stage.py"), "azure-init", str(tree), "--debian"]
    subprocess.run(stage, check=True, env=environ, capture_output=True)
    run_over(tree / "usr/lib/azure-init", SUITE, "/mnt/bundle", "/mnt")
    switch_on(tree, "azure-init.service", "azure-init-local.service")
    return tree


def switch_on(tree: Path, *units: str) -> None:
    subprocess.run([need("systemctl"), f"--root={tree}", "--quiet", "enable", *units], check=True, capture_output=True)
