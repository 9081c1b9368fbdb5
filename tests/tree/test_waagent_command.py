"""The launcher of the waagent command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from azureinit.version import VERSION

ROOT = Path(__file__).parents[2]


def test_the_launcher_is_a_program() -> None:
    launcher = ROOT / "packaging/waagent"
    assert os.access(launcher, os.X_OK)
    assert launcher.read_text().startswith("#!/usr/bin/python3 -IS\n")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run([sys.executable, str(launcher), "--version"], capture_output=True, text=True, env=environ)
    assert (ran.returncode, ran.stdout) == (0, f"azure-init {VERSION}, called as waagent\n")
