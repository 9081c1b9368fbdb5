"""A delayed run: logins are released, and WALinuxAgent, which starts then, leaves provisioning to azure-init."""

from __future__ import annotations

import fcntl
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.bench import QUICK
from support.need import need_root, unfit
from support.overlay_system import System

HELD: dict[str, dict[str, Any]] = {
    **QUICK,
    "boot": {"hold_logins_secs": 0.3},
    "disk": {"grow_root": False},
    "ssh": {"host_key_types": []},
}


class Held:
    """A service that is started, and heard until it lets logins go."""

    def __init__(self, place: Path, **tables: dict[str, Any]) -> None:
        self.place, self.system = place, System(place, b"")
        (place / "place/config.toml").write_text(self.system.fabric.config_text(**{**HELD, **tables}))
        (place / "upper/etc").mkdir()
        (place / "upper/etc/waagent.conf").write_text("Provisioning.Agent=auto\n")
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.bind(str(place / "place/notify"))
        self._manager.settimeout(20)

    def until_logins_go(self) -> str:
        """What the service manager is told then."""
        self.agent = subprocess.Popen(self.system.service(), stderr=subprocess.PIPE, text=True)
        told = ""
        while self.agent.poll() is None and "READY=1" not in told:
            told = self._manager.recv(4096).decode()
        return told

    def marker(self) -> str:
        path = self.place / "upper/var/lib/waagent/provisioned"
        return path.read_text() if path.exists() else ""

    def end(self) -> str:
        """What the agent said."""
        _, errors = self.agent.communicate(timeout=30)
        if self.agent.returncode == 125:
            unfit(f"no layer over this system's files: {errors.strip()}")
        return errors

    def close(self) -> None:
        self._manager.close()
        self.system.fabric.stop()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Any]:
    need_root()
    made: list[Held] = []

    def make(**tables: dict[str, Any]) -> Held:
        made.append(Held(tmp_path, **tables))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_walinuxagent_knows_before_it_is_let_go_that_provisioning_is_not_its_job(held: Any) -> None:
    one = held(
        imds={**QUICK["imds"], "endpoint": "http://127.0.0.1:1"},
        provisioning_media={"enable": False},
        run={"deadline_secs": 4, "verdict_reserve_secs": 2},
    )
    told, marker = one.until_logins_go(), one.marker()
    errors = one.end()
    assert "still provisioning" in told, errors
    assert marker == f"{one.system.fabric.vm.id}\n"


def test_a_run_that_waits_for_another_one_holds_nobody_up(held: Any, tmp_path: Path) -> None:
    one = held(azure_init_data_dir={"path": "/mnt/place/data"}, run={"deadline_secs": 30})
    (tmp_path / "place/data").mkdir(mode=0o700)
    with (tmp_path / "place/data/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told, marker = one.until_logins_go(), one.marker()
        waiting = one.agent.poll() is None
    errors = one.end()
    assert "still provisioning" in told and waiting, errors
    assert marker == f"{one.system.fabric.vm.id}\n"
    assert "another azure-init is running: waiting for its end" in errors and one.agent.returncode == 0
    assert [verdict.kind for verdict in one.system.fabric.ledger.verdicts] == ["ready"]
