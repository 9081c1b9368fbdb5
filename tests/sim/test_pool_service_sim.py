"""A VM from a pool as a service: SIGTERM, logins, the service manager's time, and the disk of an image."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Fabric, Vm
from fakeazure.platform.pool import Pool
from support.bench import QUICK
from support.need import need_root, unfit
from support.overlay_system import System
from support.pooled import PATH, marker

TABLES: dict[str, dict[str, Any]] = {
    **QUICK,
    "ssh": {"host_key_types": []},
    "disk": {"grow_root": False},
    "boot": {"pool_poll_secs": 1, "hold_logins_secs": 1, "deadline_secs": 6},
    "run": {"deadline_secs": 6, "verdict_reserve_secs": 1},
}


class Service:
    """The agent as a service on this system below a layer, and what it tells its service manager."""

    def __init__(self, place: Path, kind: str, pool: Pool) -> None:
        self.system = System(place, b"")
        self.system.fabric.stop()
        vm = Vm(pps_type=kind, username="carol", name="carols")
        self.fabric = self.system.fabric = Fabric(vm=vm, pool=pool).start()
        (place / "place/config.toml").write_text(self.fabric.config_text(**TABLES))
        self.data = place / "upper/var/lib/azure-init"
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(place / "place/notify"))
        self.manager.setblocking(False)
        self.said = ""
        self.start()

    def start(self) -> None:
        command = [word for word in self.system.service() if word not in ("--pid", "--fork", "--kill-child")]
        self.agent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def heard(self) -> str:
        """Everything that the service manager was told so far."""
        while True:
            try:
                self.said += self.manager.recv(1 << 16).decode() + "\n"
            except BlockingIOError:
                return self.said

    def until(self, seen: Callable[[], object]) -> None:
        until = time.monotonic() + 40
        while not seen():
            if self.agent.poll() == 125:
                unfit("no layer over this system's files")
            assert self.agent.poll() is None and time.monotonic() < until, self.end()
            time.sleep(0.02)

    def kinds(self) -> list[str]:
        return [told.kind for told in self.fabric.ledger.verdicts]

    def polls(self) -> int:
        return sum(one.target.startswith(PATH) for one in self.fabric.ledger.requests)

    def end(self) -> str:
        _, errors = self.agent.communicate(timeout=60)
        assert "Traceback" not in errors, errors
        return errors


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    need_root()
    made: list[Service] = []

    def make(kind: str = "Running", **pool: Any) -> Service:
        made.append(Service(tmp_path, kind, Pool(**pool)))
        return made[-1]

    yield make
    for one in made:
        one.agent.kill()
        one.agent.wait()
        one.manager.close()
        one.fabric.stop()


def test_in_the_pool_no_deadline_counts_and_logins_stay_held(service: Callable[..., Service]) -> None:
    """P31, P32: the wait is longer than boot.deadline_secs, run.deadline_secs and boot.hold_logins_secs."""
    one = service(on_call=True)
    one.until(lambda: one.polls() >= 8)
    assert "READY=1" not in one.heard()
    kept = [line for line in one.heard().splitlines() if line.startswith("EXTEND_TIMEOUT_USEC=")]
    assert max(int(line.partition("=")[2]) for line in kept) >= 86400_000_000
    assert one.kinds() == ["ready"] and marker(one.data)["state"] == "waiting"
    assert one.fabric.take()
    errors = one.end()
    assert one.agent.returncode == 0 and one.kinds() == ["ready", "ready"], errors
    assert "READY=1" in one.heard() and (one.system.upper / "home/carol").is_dir()


def test_sigterm_in_the_pool_is_no_verdict_and_the_next_start_continues(service: Callable[..., Service]) -> None:
    """P37."""
    one = service(on_call=True)
    one.until(lambda: marker(one.data).get("state") == "waiting")
    one.agent.send_signal(signal.SIGTERM)
    errors = one.end()
    assert one.agent.returncode == 0 and "stopped by SIGTERM in the pool" in errors
    assert one.kinds() == ["ready"] and marker(one.data)["state"] == "waiting"
    assert "READY=1" not in one.heard()
    one.start()
    one.until(lambda: one.polls() >= 1)
    assert one.fabric.take()
    errors = one.end()
    assert one.agent.returncode == 0 and one.kinds() == ["ready", "ready"], errors


def test_the_disk_of_an_image_waits_for_the_power_off(service: Callable[..., Service]) -> None:
    """P21."""
    one = service("PreprovisionedOSDisk", on_call=True)
    one.until(lambda: "waiting for the host to power this VM off" in one.heard())
    time.sleep(1.5)
    one.agent.send_signal(signal.SIGTERM)
    errors = one.end()
    assert one.agent.returncode == 0, errors
    assert one.kinds() == ["ready"] and not marker(one.data) and one.polls() == 0
    assert "READY=1" not in one.heard()
