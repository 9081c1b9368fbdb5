"""The suite itself: any of its files run together, and what it starts heeds signals, also in the background."""

from __future__ import annotations

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


def test_no_two_modules_share_a_name() -> None:
    """They are imported by it alone: two of one name cannot be selected together."""
    modules = sorted(path.stem for path in TESTS.rglob("test_*.py"))
    assert modules == sorted(set(modules))
