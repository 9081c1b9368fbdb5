"""What importing the package imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"


def test_importing_it_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import azureinit; print(sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True)
    assert ran.stdout.strip() == "['azureinit']"
