"""A run that ended at its Ready in the pool: whether the platform had it is not known, and a customer may have the VM.

The next start asks IMDS alone. It neither reads the media nor reports progress, and reports Ready only while IMDS says
that the VM is in the pool.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Vm
from fakeazure.platform.pool import Pool
from fakeazure.platform.vm import Imds
from support.bench import PYTHON, SRC, Bench, Benches
from support.bounds import sample
from support.need import need
from support.pooled import QUICKLY, PooledRun, kinds, polls, state

CUSTOMER: dict[str, Any] = {"username": "carol", "name": "carols"}
HEALTH, INSTANCE = "/provisioning/health", "/metadata/instance"
PATIENT = {"read_timeout_secs": 30, "total_retry_timeout_secs": 60, "retry_interval_secs": 1}


def killed_at_ready(bench: Benches, *health: Any, kind: str = "Running", **options: Any) -> Bench:
    """Its Ready gets no answer. `health`: what the platform answers to later reports."""
    tables = options.pop("tables", {})
    progress = [] if "platform" in tables else ["ok"]  # not reported while the VM's id is not known
    faults = [{"path": HEALTH, "answers": [*progress, "silent", *health, "ok*"]}, *options.pop("faults", ())]
    vm = options.pop("vm", Vm(pps_type=kind, **CUSTOMER))
    one = bench(vm=vm, pool=Pool(on_call=True), faults=faults, **options)
    one.install_sshd()
    one.configure(**{"boot": QUICKLY, "wireserver": PATIENT, **tables})
    run = PooledRun(one)
    run.until(lambda: kinds(one) == ["ready"])
    run.kill()
    assert state(one) == "offered"
    one.fabric.reboot()
    return one


def eject(one: Bench) -> None:
    assert one.fabric.media_path is not None
    one.fabric.media_path.unlink()


def told(one: Bench) -> list[str]:
    return [told.kind for told in one.fabric.ledger.told]


def answers(one: Bench, path: str, status: int) -> int:
    return sum(one.path == path and one.status == status for one in one.fabric.ledger.requests)


def becomes_the_customers(one: Bench, run: PooledRun) -> str:
    errors = run.end()
    assert run.agent.returncode == 0, errors
    assert "\ncarol:" in one.read("etc/passwd") and "pooladmin" not in one.read("etc/passwd")
    assert one.fabric.judge().ok, one.fabric.judge()
    return errors


@pytest.mark.parametrize("kind", ["Running", "Savable"])
@pytest.mark.parametrize("ejected", [True, False])
def test_still_in_the_pool_ready_is_reported_without_a_wait_for_media(
    bench: Benches, kind: str, *, ejected: bool
) -> None:
    never = {"sources": {"grace_secs": 600}, "provisioning_media": {"wait_secs": 600}}
    one = killed_at_ready(bench, kind=kind)
    one.configure(boot=QUICKLY, **never)
    if ejected:
        eject(one)
    run = PooledRun(one)
    run.until(lambda: state(one) == "waiting")
    assert told(one) == ["progress", "ready", "ready"] and one.host_keys() == set()
    asked = [request.path for request in one.fabric.ledger.boot if hasattr(request, "path")]
    assert asked[-2:] == [INSTANCE, HEALTH], "right before Ready, IMDS has said once more that the VM is in the pool"
    assert one.fabric.take()
    assert "may get a second one" in becomes_the_customers(one, run)
    assert kinds(one) == ["ready"] * 3


def test_a_vm_that_a_customer_has_by_now_reports_no_second_ready(bench: Benches) -> None:
    one = killed_at_ready(bench)
    eject(one)
    assert one.fabric.take()
    assert "may get a second one" not in becomes_the_customers(one, PooledRun(one))
    assert told(one) == ["progress", "ready", "ready"] and len(polls(one)) == 1


def test_a_customer_who_comes_while_ready_is_refused_ends_the_reports(bench: Benches) -> None:
    one = killed_at_ready(bench, *[503] * 30)
    run = PooledRun(one)
    run.until(lambda: answers(one, HEALTH, 503))
    assert one.fabric.take()
    run.until(lambda: state(one) == "reused")
    script = one.fabric.scripts[HEALTH]
    script.used = len(script.answers)  # the platform accepts reports again
    becomes_the_customers(one, run)
    assert kinds(one) == ["ready", "ready"]


def test_an_imds_that_does_not_answer_gets_no_second_ready(bench: Benches) -> None:
    one = killed_at_ready(bench, faults=[{"path": INSTANCE, "answers": ["ok", "hang", "ok*"]}])
    one.configure(boot=QUICKLY, imds={"request_timeout_secs": 1, "total_retry_timeout_secs": 1})
    run = PooledRun(one)
    run.until(lambda: len(polls(one)) > 1)
    assert kinds(one) == ["ready"] and state(one) == "offered"
    assert one.fabric.take()
    assert "is not known: " in becomes_the_customers(one, run)
    assert kinds(one) == ["ready", "ready"]


@pytest.mark.parametrize("taken", [True, False])
def test_where_imds_names_no_type_the_customers_data_decide(bench: Benches, *, taken: bool) -> None:
    """Only the media said that the VM is in a pool, and they are ejected."""
    one = killed_at_ready(bench, imds=Imds(remove=("extended.compute.ppsType",)))
    eject(one)
    assert not taken or one.fabric.take()
    run = PooledRun(one)
    if not taken:
        run.until(lambda: state(one) == "waiting")
        assert one.fabric.take()
    becomes_the_customers(one, run)
    assert kinds(one) == ["ready"] * (2 if taken else 3)


@pytest.mark.parametrize("taken", [True, False])
def test_a_firmware_without_an_id_changes_nothing(bench: Benches, *, taken: bool) -> None:
    """Only IMDS tells whose marker it is; until then no host keys are made, and afterwards no media are used."""
    one = killed_at_ready(bench, tables={"platform": {"vm_id": ""}})
    assert not taken or one.fabric.take()
    run = PooledRun(one)
    if not taken:
        run.until(lambda: state(one) == "waiting")
        assert told(one) == ["ready", "ready"] and one.host_keys() == set()
        run.kill()
        before = len(polls(one))
        run = PooledRun(one)
        run.until(lambda: len(polls(one)) > before)
        assert one.fabric.take()
    becomes_the_customers(one, run)
    assert kinds(one) == ["ready"] * (2 if taken else 3)


def test_a_ready_that_is_refused_to_the_end_is_a_failure_and_the_next_start_asks_imds_again(bench: Benches) -> None:
    one = killed_at_ready(bench, *[503] * 90)
    one.configure(boot=QUICKLY, wireserver={**PATIENT, "total_retry_timeout_secs": 2}, run={"deadline_secs": 6})
    ran = one.agent(timeout=60)
    assert ran.status == 1 and "failed to report Ready in the pool" in ran.err, ran.err
    assert kinds(one) == ["ready"] and state(one) == "offered"


# ---- killed before every system call that changes a file or sends something


CHANGING = "rename,unlink,fsync,sendto,mkdir"
KILLED = -9


def start(one: Bench, *options: str) -> subprocess.Popen[bytes]:
    agent = [PYTHON, "-B", "-m", "azureinit", "--config", str(one.config), "--root", str(one.tree)]
    environ = {"PATH": f"{one.tools}:{os.environ['PATH']}", "PYTHONPATH": str(SRC)}
    return subprocess.Popen(["strace", "-f", "-qq", *options, *agent], env=environ, stderr=subprocess.DEVNULL)


def in_a_pool(bench: Benches, kind: str, *, after: float) -> Bench:
    vm = Vm(pps_type=kind, **CUSTOMER)
    one = bench(vm=vm, pool=Pool(after_secs=after))
    one.install_sshd()
    one.configure(boot=QUICKLY)
    return one


LIVES: list[tuple[str, float]] = [("Running", 0.0), ("Running", 3.0), ("Savable", 0.0), ("Savable", 3.0)]


@pytest.mark.parametrize(("kind", "after"), sample(LIVES, 1))
def test_killed_anywhere_on_the_way_the_vm_becomes_the_customers(
    bench: Benches, tmp_path: Path, kind: str, after: float
) -> None:
    """`after`: seconds from the first Ready in the pool until a customer takes the VM."""
    need("strace")
    trace = tmp_path / "trace"
    whole = start(in_a_pool(bench, kind, after=after), "-o", str(trace), "-e", f"trace={CHANGING}")
    assert whole.wait(timeout=60) == 0
    calls = [line.split()[1].partition("(")[0] for line in trace.read_text().splitlines() if "(" in line]
    points = [(call, n) for call in sorted({*calls}) for n in range(1, calls.count(call) + 1)]
    assert len(points) > 20, points
    for call, n in sample(points, 4):
        one = in_a_pool(bench, kind, after=after)
        killed = start(one, "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}").wait(timeout=60)
        if killed != 0:
            one.fabric.reboot()
            eject(one) if "ready" in kinds(one) else None
            ran = one.agent(timeout=60)
            assert ran.status == 0, f"after a kill before {call} {n}: {ran.err}"
        assert "\ncarol:" in one.read("etc/passwd") and state(one) == "reused", f"{call} {n}"
        assert one.fabric.judge().ok, f"after a kill before {call} {n}: {one.fabric.judge()}"
        one.fabric.stop()
