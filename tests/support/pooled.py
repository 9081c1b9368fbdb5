"""Runs of a VM from a pool, against the platform on loopback: started in the background, looked at, killed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bench import PYTHON, SRC, Bench

PATH = "/metadata/reprovisiondata"
QUICKLY = {"pool_poll_secs": 1}  # no link of this machine moves in these tests


class PooledRun:
    """One start of the agent."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        command = [PYTHON, "-m", "azureinit", "--config", str(bench.config), "--root", str(bench.tree)]
        environ = {"PATH": f"{bench.tools}:{os.environ['PATH']}", "PYTHONPATH": str(SRC)}
        self.agent = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)

    def until(self, seen: Callable[[], object]) -> None:
        until = time.monotonic() + 30
        while not seen():
            assert self.agent.poll() is None and time.monotonic() < until, self.end()
            time.sleep(0.02)

    def kill(self) -> str:
        self._kill()
        return self.end()

    def _kill(self) -> None:
        self.agent.kill()

    def end(self) -> str:
        try:
            _, errors = self.agent.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            self._kill()
            _, errors = self.agent.communicate(timeout=10)
        assert "Traceback" not in errors, errors
        return errors


def marker(directory: Path) -> dict[str, Any]:
    """The marker of the pool; empty if there is none."""
    try:
        found: dict[str, Any] = json.loads((directory / "machine.pool").read_text())
    except FileNotFoundError:
        return {}
    return found


def state(bench: Bench) -> str:
    return str(marker(bench.data).get("state", ""))


def polls(bench: Bench) -> list[float]:
    return [one.t for one in bench.fabric.ledger.requests if one.target.startswith(PATH)]


def kinds(bench: Bench) -> list[str]:
    return [told.kind for told in bench.fabric.ledger.told if told.kind != "progress"]
