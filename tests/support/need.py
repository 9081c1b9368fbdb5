"""Requirements of a test: if one is missing, the test is skipped with a reason; with CI=true it fails."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def need(tool: str) -> str:
    """The tool's path."""
    path = shutil.which(tool, path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN)))
    if path is None:
        unfit(f"{tool} is not installed")
    return path


def need_root() -> None:
    if os.geteuid() != 0:
        unfit("only root can do this")


def unfit(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"cannot run here: {why}")
    pytest.skip(why)
