"""SIGTERM to a run that is a service: one failure before a verdict, and nothing after it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.bench import QUICK
from support.need import need_root, unfit
from support.overlay_system import System

PLAIN: dict[str, dict[str, Any]] = {**QUICK, "ssh": {"host_key_types": []}, "disk": {"grow_root": False}}
SLEEPS = b"#!/bin/sh\ntouch /mnt/place/begun\nsleep 61\n"
HANGS = [{"path": "/metadata/instance", "answers": ["hang*"]}]


class Service:
    """A run whose process is the one that is started here, so that it gets the signal."""

    def __init__(self, place: Path, script: bytes, tables: dict[str, Any], **platform: Any) -> None:
        self.place, self.system = place, System(place, script, **platform)
        text = self.system.fabric.config_text(**{**PLAIN, **tables})
        (place / "place/config.toml").write_text(text)
        command = [word for word in self.system.service() if word not in ("--pid", "--fork", "--kill-child")]
        self.agent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def until(self, seen: Callable[[], bool]) -> None:
        until = time.monotonic() + 30
        while not seen():
            if self.agent.poll() == 125:
                unfit("no layer over this system's files")
            assert self.agent.poll() is None and time.monotonic() < until, self.end()
            time.sleep(0.02)

    def told(self, kind: str) -> bool:
        return any(told.kind == kind for told in self.system.fabric.ledger.told)

    def stop(self, *, times: int = 1) -> None:
        for _ in range(times):
            self.agent.send_signal(signal.SIGTERM)
            time.sleep(0.05)

    def end(self) -> str:
        """The output of the agent, which has ended or is about to."""
        _, errors = self.agent.communicate(timeout=30)
        assert "Traceback" not in errors, errors
        return errors


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Any]:
    need_root()
    made: list[Service] = []

    def make(script: bytes = b"", tables: dict[str, Any] | None = None, **platform: Any) -> Service:
        made.append(Service(tmp_path, script, tables or {}, **platform))
        return made[-1]

    yield make
    for one in made:
        one.agent.kill()
        one.agent.wait()
        one.system.fabric.stop()


@pytest.mark.parametrize("times", [1, 3])
def test_a_run_that_waits_for_imds_reports_one_failure_with_the_vm_id(service: Any, times: int) -> None:
    one = service(tables={"imds": {"request_timeout_secs": 30, "total_retry_timeout_secs": 60}}, faults=HANGS)
    one.until(lambda: one.told("progress"))
    one.stop(times=times)
    errors = one.end()
    (verdict,) = one.system.fabric.ledger.verdicts
    assert verdict.kind == "failed" and "azure-init was stopped" in verdict.description, errors
    assert one.system.fabric.vm.id in verdict.description
    assert one.agent.returncode == 1


def test_a_run_that_is_stopped_while_a_program_runs_ends_the_program(service: Any, tmp_path: Path) -> None:
    one = service(SLEEPS, {"custom_data": {"execute": True}})
    one.until((tmp_path / "place/begun").exists)
    begun = time.monotonic()
    one.stop()
    errors = one.end()
    assert [told.kind for told in one.system.fabric.ledger.verdicts] == ["failed"], errors
    assert time.monotonic() - begun < 15
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x0061\x00" in read(path)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # the process has ended


def test_a_failure_that_is_on_its_way_is_sent_once_more_in_the_time_that_is_left(service: Any) -> None:
    """systemd takes an end by SIGTERM for a success, and would not start the unit that reports a run that died."""
    faults = [{"path": "/provisioning/health", "answers": ["ok", "hang", "ok*"]}]
    tables = {
        "report": {"protocol": "json"},
        "custom_data": {"execute": True},
        "wireserver": {"read_timeout_secs": 30, "total_retry_timeout_secs": 60},
    }
    one = service(b"#!/bin/sh\nexit 7\n", tables, faults=faults)
    log = one.system.upper / "var/log/azure-init.log"
    one.until(lambda: log.exists() and "exit status: 7" in log.read_text())
    time.sleep(0.5)  # the report leaves a moment after the log line
    one.stop()
    errors = one.end()
    (verdict,) = one.system.fabric.ledger.verdicts
    assert verdict.kind == "failed" and "azure-init was stopped" not in verdict.description, errors
    assert one.agent.returncode == 1


def test_after_the_verdict_nothing_is_reported(service: Any) -> None:
    """Ready is being sent, and the platform does not answer: a failure could contradict it."""
    silent = [{"path": "/provisioning/health", "answers": ["ok", "hang*"]}]
    tables = {"report": {"protocol": "json"}, "wireserver": {"read_timeout_secs": 30, "total_retry_timeout_secs": 60}}
    one = service(tables=tables, faults=silent)
    note = one.place / "run/azure-init/verdict"
    one.until(note.exists)
    time.sleep(0.3)
    one.stop()
    one.end()
    assert one.agent.returncode == -signal.SIGTERM
    assert one.system.fabric.ledger.verdicts == ()
    assert not list((one.system.upper / "var/lib/azure-init").glob("*.provisioned"))
