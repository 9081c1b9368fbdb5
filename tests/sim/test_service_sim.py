"""Boots with a fault: each ends with one verdict, from the run or from azure-init-failure.service."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fakeazure import Imds, Media, Vm
from fakeazure.platform.fabric import Fabric
from support.bench import QUICK
from support.need import need_root, unfit
from support.overlay_system import System

PLAIN: dict[str, dict[str, Any]] = {**QUICK, "ssh": {"host_key_types": []}, "disk": {"grow_root": False}}
NOBODY = "http://127.0.0.1:1"
OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Any]:
    need_root()
    made: list[System] = []

    def make(**platform: Any) -> System:
        one = System(tmp_path, b"")
        if platform:
            one.fabric.stop()
            one.fabric = Fabric(**{"vm": Vm(), **platform}).start()
        made.append(one)
        set_up(one)
        return one

    yield make
    for one in made:
        one.fabric.stop()


def set_up(one: System, **tables: dict[str, Any]) -> None:
    (one.place / "place/config.toml").write_text(one.fabric.config_text(**{**PLAIN, **tables}))


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ran.returncode == 125:
        unfit(f"no layer over this system's files: {ran.stderr.strip()}")
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran


def verdicts(one: System) -> list[str]:
    return [told.kind for told in one.fabric.ledger.verdicts]


def wait_for(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.05)


def test_a_service_that_is_started_hours_after_the_boot_has_time_for_its_work(system: Any) -> None:
    one = system()
    command = [word for word in one.service() if word not in ("--pid", "--fork", "--kill-child")]
    ran = run(command)  # among the processes of this computer, the first of which is old
    assert (ran.returncode, verdicts(one)) == (0, ["ready"]), ran.stderr


def test_a_configuration_that_cannot_be_used_is_told_once_in_a_boot(system: Any) -> None:
    one = system()
    set_up(one, boot={"hold_logins_secs": "long"})
    local = run(one.command("--stage", "local"))
    assert local.returncode != 0 and "boot.hold_logins_secs" in local.stderr
    assert verdicts(one) == [], "the network is not up yet, and the run comes upon it, too"
    assert run(one.service()).returncode != 0
    assert run(one.command("--stage", "failed")).returncode == 0
    assert verdicts(one) == ["failed"]


def test_a_run_that_dies_while_it_sends_its_failure_is_told_of(system: Any) -> None:
    one = system(imds=Imds(enable=False), media=Media(enable=False))
    with refusing() as (address, seen):
        endpoint = f"{address}/provisioning/health"
        wireserver = {**QUICK["wireserver"], "health_endpoint": endpoint, "total_retry_timeout_secs": 60}
        set_up(one, wireserver=wireserver)
        with subprocess.Popen(one.command(), stderr=subprocess.DEVNULL) as agent:
            wait_for(lambda: any("ProvisioningFailed" in text for text in seen))
            assert agent.poll() is None
            agent.kill()
    set_up(one)  # the platform is back
    ran = run(one.command("--stage", "failed"))
    assert verdicts(one) == ["failed"], ran.stderr
    assert "the platform has accepted it: nothing to add" in run(one.command("--stage", "failed")).stderr
    assert verdicts(one) == ["failed"]


def test_a_run_that_dies_while_it_sends_ready_leaves_that_to_the_service_that_sends_it_again(system: Any) -> None:
    """Otherwise no verdict would leave before the next boot; and a failure could contradict the Ready."""
    one = system()
    with refusing() as (address, seen):
        endpoint = f"{address}/provisioning/health"
        wireserver = {**QUICK["wireserver"], "health_endpoint": endpoint, "total_retry_timeout_secs": 60}
        set_up(one, wireserver=wireserver)
        with subprocess.Popen(one.command(), stderr=subprocess.DEVNULL) as agent:
            wait_for(lambda: any('"state":"Ready"' in text.replace(" ", "") for text in seen))
            assert agent.poll() is None
            agent.kill()
    set_up(one)  # the platform is back
    ran = run(one.command("--stage", "failed"))
    assert "the process that reported Ready has ended" in ran.stderr and "it is reported again" in ran.stderr
    assert verdicts(one) == [], ran.stderr
    assert run(one.command("--stage", "resend")).returncode == 0
    assert verdicts(one) == ["ready"]
    assert "nothing to add" in run(one.command("--stage", "failed")).stderr
    assert verdicts(one) == ["ready"]


def test_no_failure_is_told_while_another_run_is_at_work(system: Any, tmp_path: Path) -> None:
    one = system()
    set_up(one, azure_init_data_dir={"path": "/mnt/place/data"})
    (tmp_path / "place/data").mkdir(mode=0o700)
    with (tmp_path / "place/data/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = run(one.command("--stage", "failed"))
    assert ran.returncode == 0 and "another azure-init is running" in ran.stderr
    assert verdicts(one) == []


class Refusing(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        self.answer(403, self.path)

    def do_POST(self) -> None:
        self.answer(503, self.rfile.read(int(self.headers["Content-Length"])).decode())

    def answer(self, status: int, text: str) -> None:
        self.seen.append(text)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *values: object) -> None:
        pass


@contextlib.contextmanager
def refusing() -> Iterator[tuple[str, list[str]]]:
    """Its address, and what it is asked."""
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Refusing,), {"seen": seen}))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def test_a_metadata_service_that_refuses_is_not_asked_for_ever(system: Any) -> None:
    one = system()
    with refusing() as (address, seen):
        imds = {**QUICK["imds"], "endpoint": address}
        times = {"deadline_secs": 30, "verdict_reserve_secs": 2}
        set_up(one, imds=imds, provisioning_media={"enable": False}, run=times)
        ran = run(one.service())
    assert ran.returncode != 0 and verdicts(one) == ["failed"]
    assert "403" in one.fabric.ledger.verdicts[0].description
    assert len(seen) < 10


def without_keys(one: System) -> Callable[[], list[str]]:
    """This computer's ECDSA and RSA keys are not to be seen; what is there afterwards."""
    place = one.upper / "etc/ssh"
    place.mkdir(parents=True)
    for kind in ("ecdsa", "rsa"):
        for end in ("", ".pub"):
            os.mknod(place / f"ssh_host_{kind}_key{end}", stat.S_IFCHR, 0)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / "ssh_host_ed25519_key")],
        input="y\n",
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return lambda: sorted(path.name for path in place.glob("*_key") if not stat.S_ISCHR(path.lstat().st_mode))


def test_a_machine_of_which_nothing_is_asked_keeps_the_host_keys_it_has(system: Any) -> None:
    one = system(vm=Vm(specialised=True))
    set_up(one, ssh={})
    keys = without_keys(one)
    ran = run(one.service())
    assert (ran.returncode, keys()) == (0, ["ssh_host_ed25519_key"]), ran.stderr


def test_a_machine_that_stays_as_it_is_keeps_the_host_keys_it_has(system: Any) -> None:
    one = system(imds=Imds(enable=False), media=Media(enable=False))
    set_up(one, ssh={}, run={"deadline_secs": 8, "verdict_reserve_secs": 2})
    keys = without_keys(one)
    data = one.upper / "var/lib/azure-init"
    data.mkdir(parents=True)
    (data / f"{OTHER}.provisioned").touch()
    ran = run(one.service())
    assert "keeps its state" in ran.stderr and keys() == ["ssh_host_ed25519_key"]


def test_what_is_provisioned_is_not_said_to_be_at_work(system: Any, tmp_path: Path) -> None:
    one = system()
    dead = {**QUICK["wireserver"], "health_endpoint": f"{NOBODY}/provisioning/health", "total_retry_timeout_secs": 4}
    set_up(one, wireserver=dead, boot={"hold_logins_secs": 2})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "place/notify"))
        manager.settimeout(0.1)
        run(one.service())
        told = []
        try:
            while True:
                told.append(manager.recv(4096).decode())
        except TimeoutError:
            pass
    assert "STATUS=provisioned" in "".join(told) and "still provisioning" not in "".join(told)
