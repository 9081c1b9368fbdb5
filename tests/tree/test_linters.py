"""Linters are tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*argv: str) -> None:
    tool = shutil.which(argv[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if tool is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{argv[0]} is not installed")
        pytest.skip(f"{argv[0]} is not installed")
    ran = subprocess.run([tool, *argv[1:]], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.newer
def test_mypy_strict() -> None:
    run("mypy", "--no-color-output")


@pytest.mark.newer
def test_ruff() -> None:
    run("ruff", "check", "--no-cache", "src", "tests", "bench")


@pytest.mark.newer
def test_ruff_format() -> None:
    run("ruff", "format", "--no-cache", "--check", "src", "tests", "bench")
