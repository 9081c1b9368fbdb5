"""The other stages of a boot, for a VM from a pool: the host name is left alone, and a run that died is no failure."""

from __future__ import annotations

import pytest

from fakeazure import Vm
from fakeazure.platform.pool import Pool
from support.bench import Bench, Benches
from support.pooled import QUICKLY, PooledRun, kinds, marker, state


def pooled(bench: Benches) -> Bench:
    one = bench(vm=Vm(pps_type="Running", username="carol", name="carols"), pool=Pool(on_call=True))
    one.configure(boot=QUICKLY)
    return one


def killed(one: Bench) -> None:
    """The machine waits in its pool, and the run has died."""
    run = PooledRun(one)
    run.until(lambda: state(one) == "waiting")
    run.kill()


def hostname(one: Bench) -> str:
    path = one.tree / "etc/hostname"
    return path.read_text() if path.exists() else ""


def test_local_leaves_the_name_alone_where_the_media_ask_for_a_pool(bench: Benches) -> None:
    one = pooled(bench)
    before = hostname(one)
    ran = one.agent("--stage", "local")
    assert ran.status == 0 and "the host name is the customer's" in ran.err
    assert hostname(one) == before


def test_local_does_not_read_the_media_of_the_pool_in_a_later_boot(bench: Benches) -> None:
    one = pooled(bench)
    killed(one)
    before = hostname(one)
    ran = one.agent("--stage", "local")
    assert ran.status == 0 and ran.err == "" and hostname(one) == before


def test_a_run_that_died_in_the_pool_is_no_failure(bench: Benches) -> None:
    one = pooled(bench)
    killed(one)
    ran = one.agent("--stage", "failed")
    assert ran.status == 0 and "this VM waits in a pool" in ran.err
    assert kinds(one) == ["ready"] and marker(one.data)["state"] == "waiting"


@pytest.mark.parametrize("verb", ["clean", "deprovision"])
def test_an_image_keeps_no_marker(bench: Benches, verb: str) -> None:
    one = pooled(bench)
    killed(one)
    words = (verb,) if verb == "clean" else (verb, "--force")
    ran = one.agent(*words, timeout=60)
    assert ran.status == 0, ran.err + ran.out
    assert not (one.data / "machine.pool").exists()


def test_a_run_that_dies_again_and_again_in_the_pool_is_started_ever_later(bench: Benches) -> None:
    """Otherwise it would reach systemd's limit of starts, or use up the CPU for weeks."""
    one = pooled(bench)
    killed(one)
    told = [one.agent("--stage", "failed").err for _ in range(3)]
    pauses = [line.rpartition("started after ")[2] for text in told for line in text.splitlines() if "after" in line]
    assert pauses == ["1 s", "3 s"] and all("is started again: nothing to add" in text for text in told), told
    assert kinds(one) == ["ready"]


def test_a_run_that_dies_at_every_start_is_a_failure_once_a_customer_has_the_vm(bench: Benches) -> None:
    """The first starts may come to the customer's data by themselves."""
    one = pooled(bench)
    killed(one)
    assert one.fabric.take()
    for _ in range(3):
        assert "is started again: nothing to add" in one.agent("--stage", "failed").err
    assert kinds(one) == ["ready"]
    last = one.agent("--stage", "failed")
    assert "started 3 times in this boot, and this VM has a customer" in last.err, last.err
    assert kinds(one) == ["ready", "failed"] and "azure-init ended without a verdict" in last.err
