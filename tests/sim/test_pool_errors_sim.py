"""Errors of a run after the pool's Ready: as long as no customer has the VM they are no verdict, and the wait goes on.

A verdict would end the VM's life in the pool. After a silent end azure-init-failure.service starts the run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from fakeazure import Vm
from fakeazure.platform.pool import Pool
from support.bench import PYTHON, SRC, Bench, Benches
from support.need import need
from support.pooled import QUICKLY, PooledRun, kinds, polls, state

HEALTH, XML = "/provisioning/health", "/machine?comp=health"
SLEEPS = "clock_nanosleep,select,pselect6"


class FaultyRun(PooledRun):
    """A start of the agent whose system calls fail: `faults` is the part of strace's `inject` after its `=`."""

    def __init__(self, bench: Bench, faults: str, *options: str) -> None:
        need("strace")
        self.bench = bench
        agent = [PYTHON, "-B", "-m", "azureinit", "--config", str(bench.config), "--root", str(bench.tree)]
        environ = {"PATH": f"{bench.tools}:{os.environ['PATH']}", "PYTHONPATH": str(SRC)}
        command = ["strace", "-f", "-qq", "-o", "/dev/null", *options, "-e", f"inject={faults}", *agent]
        self.agent = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def _kill(self) -> None:
        os.killpg(self.agent.pid, signal.SIGKILL)  # without strace the agent would go on


def of_marker(one: Bench) -> tuple[str, str]:
    """For strace: only calls with the temporary file that becomes the marker."""
    return "-P", str(one.data / ".machine.pool.azure-init~")


def in_a_pool(bench: Benches, kind: str = "Running", **options: Any) -> Bench:
    one = bench(vm=Vm(pps_type=kind, username="carol", name="carols"), pool=Pool(on_call=True), **options)
    one.install_sshd()
    one.configure(boot=QUICKLY)
    return one


def waiting(bench: Benches) -> Bench:
    """The platform has accepted the pool's Ready, and the run was killed."""
    one = in_a_pool(bench)
    run = PooledRun(one)
    run.until(lambda: state(one) == "waiting")
    run.kill()
    return one


@pytest.mark.parametrize("call", [f"{SLEEPS}:error=EINVAL", "flock:error=EIO"])
def test_an_error_in_the_wait_or_before_it_reports_nothing_and_the_next_start_continues(
    bench: Benches, call: str
) -> None:
    one = waiting(bench)
    run = FaultyRun(one, call)
    errors = run.end()
    assert run.agent.returncode == 1 and "nothing is reported, and the next start continues" in errors, errors
    assert kinds(one) == ["ready"] and state(one) == "waiting"
    again = one.agent("--stage", "failed")
    assert "azure-init.service is started again: nothing to add" in again.err and kinds(one) == ["ready"]
    assert one.fabric.take()
    ran = one.agent(timeout=60)
    assert ran.status == 0 and kinds(one) == ["ready", "ready"], ran.err


@pytest.mark.parametrize("call", [f"{SLEEPS}:error=EINVAL", "flock:error=EROFS"])
def test_an_error_is_reported_once_a_customer_has_the_vm(bench: Benches, call: str) -> None:
    """Otherwise the run would be started again for ever, and the customer would not hear why nothing happens."""
    one = waiting(bench)
    assert one.fabric.take()
    run = FaultyRun(one, call)
    errors = run.end()
    assert run.agent.returncode == 1 and "the failure is the customer's" in errors, errors
    assert kinds(one) == ["ready", "failed"] and state(one) == "waiting"
    ran = one.agent(timeout=60)
    assert ran.status == 0 and state(one) == "reused", ran.err


def test_a_data_directory_that_is_full_does_not_end_the_wait_and_the_customer_hears_of_it(bench: Benches) -> None:
    """Without a marker the customer's data must not be used: the next boot would take the VM for one of the pool."""
    one = waiting(bench)
    before = len(polls(one))
    run = FaultyRun(one, "rename:error=ENOSPC", *of_marker(one))
    run.until(lambda: len(polls(one)) > before + 1)
    assert kinds(one) == ["ready"] and state(one) == "waiting"
    assert one.fabric.take()
    errors = run.end()
    assert run.agent.returncode == 1 and "no space left on device" in errors, errors
    assert kinds(one) == ["ready", "failed"] and state(one) == "waiting"
    ran = one.agent(timeout=60)
    assert ran.status == 0 and state(one) == "reused", ran.err


def test_a_marker_that_cannot_be_written_after_ready_is_no_failure(bench: Benches) -> None:
    one = in_a_pool(bench)
    run = FaultyRun(one, "rename:error=ENOSPC:when=2", *of_marker(one))
    run.until(lambda: len(polls(one)) > 1)
    assert kinds(one) == ["ready"] and state(one) == "offered"
    assert one.fabric.take()
    errors = run.end()
    assert run.agent.returncode == 0 and kinds(one) == ["ready", "ready"] and state(one) == "reused", errors
    assert one.fabric.judge().ok, one.fabric.judge()


def test_a_marker_that_cannot_be_written_before_ready_is_a_failure(bench: Benches) -> None:
    one = in_a_pool(bench)
    run = FaultyRun(one, "rename:error=ENOSPC", *of_marker(one))
    errors = run.end()
    assert run.agent.returncode == 1 and "no space left on device" in errors, errors
    assert kinds(one) == ["failed"] and not state(one)


def test_a_savable_vm_reports_ready_once_where_only_the_older_endpoint_is_served(bench: Benches) -> None:
    faults = [{"path": HEALTH, "answers": ["404*"]}, {"path": XML, "answers": ["ok", "lost", "ok*"]}]
    one = in_a_pool(bench, "Savable", faults=faults)
    run = PooledRun(one)
    run.until(lambda: polls(one))
    assert kinds(one) == ["ready"] and state(one) == "waiting"
    assert one.fabric.take()
    errors = run.end()
    assert run.agent.returncode == 0 and kinds(one) == ["ready", "ready"], errors
    assert one.fabric.judge().ok, one.fabric.judge()
