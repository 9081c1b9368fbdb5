"""The Ready of a VM in a pool: refused, never accepted, and without an answer."""

from __future__ import annotations

from functools import partial

import pytest

from fakeazure.platform.pool import Pool
from support.bench import Bench, Benches
from support.pooled import PooledRun, kinds, polls, state
from support.pooled_lives import HEALTH, is_customers, pooled


def has_refused(one: Bench, times: int) -> bool:
    return sum(request.path == HEALTH and request.status == 500 for request in one.fabric.ledger.requests) >= times


def test_a_ready_that_is_refused_for_a_while_is_sent_again_and_then_marked(bench: Benches) -> None:
    """P12: while Ready is refused the marker says only that it is about to be reported."""
    refusals = [{"path": HEALTH, "answers": ["ok", *[500] * 5, "ok*"]}]
    patient = {"wireserver": {"retry_interval_secs": 0.5, "total_retry_timeout_secs": 30}}
    one = pooled(bench, pool=Pool(on_call=True), faults=refusals, tables=patient)
    run = PooledRun(one)
    for number in range(1, 6):
        run.until(partial(has_refused, one, number))
        assert state(one) == "offered" and kinds(one) == [] and not polls(one)
    run.until(lambda: state(one) == "waiting")
    assert kinds(one) == ["ready"]
    assert one.fabric.take()
    told = run.end()
    assert run.agent.returncode == 0, told
    is_customers(one)


def test_a_ready_that_is_never_accepted_is_a_failure_without_a_marker(bench: Benches) -> None:
    """P13."""
    one = pooled(bench, faults=[{"path": "/provisioning/health", "answers": ["ok", "503*"]}])
    ran = one.agent(timeout=60)
    assert ran.status == 1 and "failed to report Ready in the pool" in ran.err
    assert not state(one) and not polls(one) and kinds(one) == []


@pytest.mark.parametrize("answer", ["lost", "silent"])
def test_a_savable_vm_goes_on_where_the_answer_to_ready_is_lost(bench: Benches, answer: str) -> None:
    """P14, without the link: the boot floor pulls it."""
    one = pooled(bench, "Savable", faults=[{"path": "/provisioning/health", "answers": ["ok", answer, "ok*"]}])
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)


@pytest.mark.parametrize("kind", ["Running", "PreprovisionedOSDisk"])
@pytest.mark.parametrize("answer", ["lost", "silent"])
def test_a_ready_whose_answer_is_lost_is_sent_again_only_while_imds_says_that_the_vm_is_in_the_pool(
    bench: Benches, kind: str, answer: str
) -> None:
    faults = [{"path": HEALTH, "answers": ["ok", answer, "ok*"]}]
    one = pooled(bench, kind, pool=Pool(on_call=True), faults=faults)
    run = PooledRun(one)
    run.until(lambda: kinds(one) == ["ready", "ready"])
    asked = [request.path for request in one.fabric.ledger.requests if request.path in (HEALTH, "/metadata/instance")]
    assert asked[-3:] == [HEALTH, "/metadata/instance", HEALTH]
    told = run.kill()
    assert told.count("reported Ready in the pool") <= 1 and kinds(one) == ["ready", "ready"]


@pytest.mark.parametrize("answer", ["lost", "silent"])
def test_a_customer_who_has_the_vm_when_the_answer_to_ready_is_lost_gets_no_ready_of_the_pool(
    bench: Benches, answer: str
) -> None:
    """The platform had the pool's Ready: another one would be taken for the customer's, whose machine is not made."""
    one = pooled(bench, faults=[{"path": HEALTH, "answers": ["ok", answer, "ok*"]}])
    ran = one.agent(timeout=60)
    assert ran.status == 0 and "Ready is not reported again" in ran.err, ran.err
    is_customers(one)


def test_imds_and_the_answer_to_ready_fail_together_and_ready_waits_for_imds(bench: Benches) -> None:
    faults = [
        {"path": HEALTH, "answers": ["ok", "lost", "ok*"]},
        {"path": "/metadata/instance", "answers": ["ok", *["reset"] * 4, "ok*"]},
    ]
    tables = {"imds": {"total_retry_timeout_secs": 0.1}, "wireserver": {"total_retry_timeout_secs": 20}}
    one = pooled(bench, pool=Pool(on_call=True), faults=faults, tables=tables)
    run = PooledRun(one)
    run.until(lambda: state(one) == "waiting")
    assert kinds(one) == ["ready", "ready"]
    assert "whether this VM is still in its pool is not known" in run.kill()


def test_a_ready_that_gets_no_answer_to_the_end_is_a_failure_and_the_marker_stays(bench: Benches) -> None:
    """The platform may have had it: the next start asks IMDS before it reports Ready."""
    one = pooled(bench, pool=Pool(on_call=True), faults=[{"path": HEALTH, "answers": ["ok", "lost*"]}])
    ran = one.agent(timeout=60)
    assert ran.status == 1 and "failed to report Ready in the pool" in ran.err, ran.err
    assert state(one) == "offered" and not polls(one)
