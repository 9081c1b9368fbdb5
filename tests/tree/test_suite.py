"""The test suite itself: any selection of files runs in one command, and signals reach the programs that it starts."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Ends itself by the signal that it is named, after a child that heeds it.
SUITE = """
import os, signal, subprocess, sys
from support.signals import pass_on_signals
pass_on_signals()
number = int(sys.argv[1])
os.kill(os.getpid(), number)  # and lives on
child = subprocess.run([sys.executable, "-c", f"import os, time; os.kill(os.getpid(), {number}); time.sleep(60)"],
                       stderr=subprocess.DEVNULL, timeout=50)
print(child.returncode)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_suite_in_the_background_lives_on_and_what_it_starts_heeds_the_signal(number: signal.Signals) -> None:
    ran = subprocess.run(
        ["sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh", sys.executable, "-c", SUITE, str(int(number))],
        env={"PYTHONPATH": str(TESTS)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, str(-number))


def test_one_command_collects_files_of_every_floor() -> None:
    """No file needs its neighbours: one of each floor is enough, and files of one name do not exclude each other."""
    floors = ("unit", "tree", "sim", "boot", "adversary") if sys.version_info >= (3, 11) else ("unit", "tree")
    files = [min(str(path.relative_to(TESTS.parent)) for path in (TESTS / floor).glob("test_*.py")) for floor in floors]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *reversed(files)],
        cwd=TESTS.parent, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {line.partition("::")[0] for line in ran.stdout.splitlines() if "::" in line} == set(files)


def test_no_test_file_imports_another() -> None:
    """What several files use is in tests/support, and conftest.py holds fixtures only."""
    floors = {path.name for path in TESTS.iterdir() if path.is_dir()} - {"support"}
    found = []
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
            for module in modules:
                if module.startswith(("test_", ".")) or module.partition(".")[0] in {"tests", "conftest", *floors}:
                    found.append(f"{path.relative_to(TESTS)}:{node.lineno}: {module}")
    assert found == []
