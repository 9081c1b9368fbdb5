"""Deadlines of a run, and runs beside other agents and other runs."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config, Imds, ProvisioningMedia, Run
from azureinit.memory.sealed import unseal
from azureinit.record import replace
from azureinit.run import provision
from azureinit.run.converge import MOST_STALE
from azureinit.run.state import Context
from azureinit.telemetry.events import Events
from support.engine_runs import ASKED, DEADLINE, ID, RESERVE, World, Worlds, field, make_worlds
from support.need import need
from support.trees import changed, listing
from support.wire import answer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Worlds]:
    yield from make_worlds(tmp_path)


# ---- time


def test_a_step_is_not_begun_after_the_work_deadline_and_the_reserve_carries_the_verdict(world: Worlds) -> None:
    one = world()
    one.on("finish", "hostname", lambda: setattr(one.clock, "at", one.clock.at + DEADLINE - RESERVE))
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "provisioning deadline exceeded"
    assert field(report, "step") == "hosts"
    assert one.read("etc/hostname") == "web-1\n", "what was done stays done"
    assert "web-1" not in one.read("etc/hosts")
    assert not one.state("provisioned").exists()
    assert not one.state("pending").exists()


def test_just_before_the_work_deadline_there_is_still_time(world: Worlds) -> None:
    one = world()
    one.on("finish", "metadata", lambda: setattr(one.clock, "at", one.clock.at + DEADLINE - RESERVE - 1))
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]


def test_a_verdict_that_keeps_failing_ends_with_the_run_and_is_kept(world: Worlds) -> None:
    one = world(health=(answer(503),))
    started = one.clock.monotonic()
    assert one.provision() == 75
    assert DEADLINE / 2 < one.clock.monotonic() - started <= DEADLINE
    assert unseal(one.state("pending").read_bytes()) == {"verdict": "ready", "failure": ""}
    assert not one.state("provisioned").exists()


def test_after_the_whole_deadline_not_even_a_failure_is_told_but_it_is_kept(world: Worlds) -> None:
    one = world()
    one.on("finish", "metadata", lambda: setattr(one.clock, "at", one.clock.at + 2 * DEADLINE))
    assert one.provision() == 1
    assert one.verdicts == []
    assert json.loads(one.state("pending").read_text())["failure"] == "provisioning deadline exceeded"


@pytest.mark.parametrize(
    ("deadline", "reserve", "work"), [(1200.0, 60.0, 1140.0), (60.0, 60.0, 30.0), (10.0, 0.0, 10.0), (10.0, 4.0, 6.0)]
)
def test_the_reserve_never_takes_more_than_half(world: Worlds, deadline: float, reserve: float, work: float) -> None:
    one = world()
    one.config = replace(one.config, run=Run(deadline_secs=deadline, verdict_reserve_secs=reserve))
    context = one.context()
    assert (context.deadline - context.started, context.work_deadline - context.started) == (deadline, work)


def test_a_boot_s_time_is_counted_from_the_machine_s_start(world: Worlds) -> None:
    one = world()
    given: dict[str, Any] = {
        "machine": one.machine,
        "config": Config(),
        "events": Events(clock=one.clock, listeners=()),
    }
    boot = Context(**given, started=150.0, booted=100.0)
    assert (boot.deadline, boot.work_deadline) == (1000.0, 940.0)
    late = replace(boot, started=1030.0)
    assert late.deadline == 1330.0, "a start that comes late has a third of it"
    by_hand = Context(**given, started=150.0)
    assert by_hand.deadline == 150.0 + Config().run.deadline_secs


def test_a_boot_asks_silent_sources_for_so_long_and_no_longer(world: Worlds) -> None:
    one = world()
    given: dict[str, Any] = {"machine": one.machine, "events": Events(clock=one.clock, listeners=())}
    boot = Context(**given, config=Config(), started=150.0, booted=100.0)
    assert boot.sources_deadline == 150.0 + 360.0
    patient = Config(imds=Imds(total_retry_timeout_secs=500.0))
    assert replace(boot, config=patient).sources_deadline == 650.0, "that key keeps its meaning"
    assert replace(boot, config=Config(imds=Imds(total_retry_timeout_secs=5000.0))).sources_deadline == 940.0
    assert replace(boot, booted=None).sources_deadline == boot.started + 1140.0


@pytest.mark.parametrize(("comes", "verdict"), [(300.0, "Ready"), (2000.0, "http error 503 querying IMDS")])
def test_a_platform_that_comes_minutes_after_the_start_finds_a_machine_that_waits(
    world: Worlds, comes: float, verdict: str
) -> None:
    """And one that is silent for the whole budget hears of it before ten minutes are over."""
    one = world()
    booted = one.clock.at - 10.0
    told: list[float] = []

    def imds(connection: Any) -> None:
        there = one.clock.at - booted >= comes
        connection.sendall(answer(200, json.dumps(ASKED).encode()) if there else answer(503))

    def health(connection: Any) -> None:
        told.append(one.clock.at - booted)
        connection.sendall(answer(200))

    one.imds.answers[:], one.health.answers[:] = [imds], [health]
    one.config = replace(one.config, run=Run())
    context = replace(one.context(), booted=booted)
    assert provision(context) == (0 if verdict == "Ready" else 1)
    (report,) = one.verdicts
    assert report == verdict or field(report, "reason") == verdict
    assert (comes <= told[-1] < comes + 60) if verdict == "Ready" else (350 < told[-1] < 400)


@pytest.mark.parametrize("refusal", [answer(403), answer(200, b"<html>"), answer(200, b'{"compute": "nothing"}')])
def test_a_refusal_is_told_after_half_a_minute_where_no_medium_can_come(world: Worlds, refusal: bytes) -> None:
    one = world()
    started = one.clock.at
    told: list[float] = []

    def health(connection: Any) -> None:
        told.append(one.clock.at - started)
        connection.sendall(answer(200))

    one.imds.answers[:], one.health.answers[:] = [refusal], [health]
    off = ProvisioningMedia(enable=False)
    one.config = replace(one.config, run=Run(), provisioning_media=off, imds=Imds(endpoint=one.imds.url))
    assert provision(replace(one.context(), booted=started)) == 1
    assert 30 <= told[-1] < 60


@pytest.mark.newer
def test_certificates_that_do_not_come_are_told_before_ten_minutes_are_over(world: Worlds, tmp_path: Path) -> None:
    from fakeazure import KeyPair, Media, Vm
    from fakeazure.platform.media import ovf_env

    need("openssl")
    one = world()
    booted = one.clock.at - 10.0
    told: list[float] = []

    def wireserver(connection: Any) -> None:
        health = one.health.requests[-1].startswith(b"POST")
        told.extend([one.clock.at - booted] * health)
        connection.sendall(answer(200 if health else 503))

    one.health.answers[:] = [wireserver]
    (tmp_path / "media").mkdir()
    vm = Vm(id=ID, name="web-1", username="ada", key_pairs=(KeyPair(path="/home/ada/id", fingerprint="00" * 20),))
    (tmp_path / "media/ovf-env.xml").write_bytes(ovf_env(vm, Media()))
    media = ProvisioningMedia(path=str(tmp_path / "media"))
    one.config = replace(one.config, run=Run(), provisioning_media=media)
    assert provision(replace(one.context(), booted=booted)) == 1
    assert b"reason=failed to retrieve the goal state" in one.health.requests[-1]
    assert 300 < told[-1] < 400


# ---- somebody else at work


def scribble(one: World) -> Callable[[], None]:
    """Somebody else writes the file we are about to write, another thing every time."""
    counted = iter(range(100))

    def write() -> None:
        (one.tree / "etc/hostname").write_text(f"other-{next(counted)}\n")

    return write


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_changes_under_the_plan_is_planned_for_again(world: Worlds, times: int) -> None:
    one = world()
    one.on("start", "hostname", scribble(one), times=times)
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert one.read("etc/hostname") == "web-1\n"
    assert len([event for event in one.heard if (event.kind, event.name) == ("start", "hostname")]) == times + 1


def test_a_file_that_keeps_changing_is_somebody_elses_fight(world: Worlds) -> None:
    one = world()
    one.on("start", "hostname", scribble(one), times=100)
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "file changed while provisioning"
    assert field(report, "path").endswith("/root/etc/hostname"), "with the root"
    assert len([event for event in one.heard if (event.kind, event.name) == ("start", "hostname")]) == MOST_STALE
    assert one.read("etc/hostname") == f"other-{MOST_STALE - 1}\n"


@pytest.mark.parametrize("times", [1, 2])
def test_work_that_somebody_undoes_is_done_again(world: Worlds, times: int) -> None:
    one = world()
    one.on("finish", "hostname", scribble(one), times=times)
    assert one.provision() == 0
    assert one.verdicts == ["Ready"]
    assert one.read("etc/hostname") == "web-1\n"


def test_work_that_somebody_undoes_every_time_is_named(world: Worlds) -> None:
    one = world()
    one.on("finish", "hostname", scribble(one), times=100)
    assert one.provision() == 1
    (report,) = one.verdicts
    assert field(report, "reason") == "work left after provisioning"
    assert "hostname (other-2 -> web-1)" in field(report, "error")
    assert not one.state("provisioned").exists()


def test_while_another_of_us_is_at_work_no_verdict_is_ours(world: Worlds) -> None:
    one = world()
    (one.tree / "var/lib/azure-init").mkdir()
    lock = os.open(one.tree / "var/lib/azure-init/lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = listing(one.tree)
        assert one.provision() == 1
        assert one.verdicts == []
        assert "another azure-init" in one.said
        assert changed(before, listing(one.tree)) == set()
    finally:
        os.close(lock)
