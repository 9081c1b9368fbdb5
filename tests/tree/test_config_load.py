"""The modules that loading a configuration imports, in a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path


def test_a_run_without_files_imports_no_parser(tree: Path) -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:2]\n"
        "from azureinit.machine import Machine\n"
        "machine = Machine(root=sys.argv[2], environ={'AZURE_INIT_USER_GROUPS': 'a,b'})\n"
        "before = set(sys.modules)\n"
        "from azureinit.config.load import load\n"
        "load(machine, config=None, groups=('c',))\n"
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('azureinit')))\n"
    )
    source = str(Path(__file__).resolve().parents[2] / "src")
    ran = subprocess.run(
        [sys.executable, "-IS", "-c", program, source, str(tree)], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
