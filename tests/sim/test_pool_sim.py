"""VMs from a pool: Ready in the pool, the wait, the customer's data, and every state in which the run can end."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from fakeazure import Media, Vm
from fakeazure.platform.events import Kvp
from fakeazure.platform.media import ovf_env
from fakeazure.platform.pool import Pool
from fakeazure.platform.proxy_agent import write_stub
from fakeazure.platform.vm import Imds
from support.bench import Bench, Benches
from support.bounds import sample
from support.pooled import PATH, PooledRun, kinds, marker, polls, state
from support.pooled_lives import CUSTOMER, PASSWORD, accounts, is_customers, pooled
from support.trees import changed, listing
from support.waagent_machines import with_waagent


def records(one: Bench) -> list[Kvp]:
    """In the key-value pool, as the host has read them."""
    return [event for event in one.fabric.ledger.events if isinstance(event, Kvp)]


def has_polled(one: Bench, before: int) -> bool:
    return len(polls(one)) > before


@pytest.mark.parametrize("kind", ["Running", "Savable"])
def test_a_vm_from_a_pool_becomes_the_customers(bench: Benches, kind: str) -> None:
    """P34, P35: two reports of success with the type and the same VM id; nothing of the pool's VM is kept."""
    one = pooled(bench, kind, pool=Pool(after_polls=2), kvp=True)
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)
    told = ran.err.splitlines()
    assert any("request 3 to IMDS got the customer's data" in line for line in told), told
    assert any("ended after 3 requests" in line for line in told), told
    assert any("read this machine's settings from" in line and "the customer's data" in line for line in told), told
    known = {"state": "reused", "type": kind, "firmware_id": one.fabric.vm.id, "imds_id": one.fabric.vm.id}
    known |= {"new_firmware_id": one.fabric.vm.id, "new_imds_id": one.fabric.vm.id}
    found = marker(one.data)
    assert {name: found[name] for name in known} == known
    assert one.data.joinpath("machine.pool").stat().st_mode & 0o777 == 0o600
    reports = [record.value for record in records(one) if record.kind == "report"]
    assert len(reports) == 2 and all("result=success|agent=Azure-Init" in text for text in reports), reports
    assert all(f"pps_type={kind}|vm_id={one.fabric.vm.id}" in text for text in reports)
    assert float(one.read("run/azure-init/reused")) > 0
    again = one.agent()
    assert again.status == 0 and "already provisioned" in again.err and kinds(one) == ["ready", "ready"]


def test_the_password_is_in_no_log_record_or_journal(bench: Benches) -> None:
    """P30."""
    one = pooled(bench, kvp=True)
    library = with_waagent(one)
    ran = one.agent(timeout=60)
    assert ran.status == 0 and PASSWORD not in ran.err
    is_customers(one)
    kept = (library / "ovf-env.xml").read_text()
    assert "carol" in kept and PASSWORD not in kept
    for name, (_mode, _owner, content) in listing(one.tree).items():
        assert PASSWORD.encode() not in content, name
    assert records(one) and not [record for record in records(one) if PASSWORD in record.value]


def test_in_the_pool_the_machine_stays_as_in_the_image(bench: Benches) -> None:
    """P31, P34."""
    one = pooled(bench, pool=Pool(on_call=True))
    before = listing(one.tree)
    run = PooledRun(one)
    run.until(lambda: len(polls(one)) >= 2)
    after = listing(one.tree)
    found = changed(before, after)
    allowed = ("var/lib/azure-init", "var/log/azure-init.log", "var/lib", "var/log", "run")
    assert all(name.startswith(allowed) for name in found), found
    names = {name for name in found if name.startswith("var/lib/azure-init/")}
    assert {name.rpartition("/")[2] for name in names} <= {"machine.pool", "lock", "trace.jsonl"}
    assert one.fabric.take()
    assert run.end() and run.agent.returncode == 0
    is_customers(one)


# ---- the answers to a request for the data


def test_unusable_answers_are_told_once_each_and_asked_over(bench: Benches) -> None:
    """P26, P27: a warning for each kind, once; any other line about them is one of a request's number."""
    empty = {"status": 200, "body": ""}
    page = {"status": 200, "body": "<html><body>busy</body></html>"}
    other = {"status": 200, "body": "<Environment/>"}
    answers = [empty, page, page, other, "truncate 300", "oversized 2MiB", 403, 410, 429, 503, 404, "ok*"]
    one = pooled(bench, faults=[{"path": PATH, "answers": answers}])
    ran = one.agent(timeout=90)
    assert ran.status == 0, ran.err
    is_customers(one)
    told = [line for line in ran.err.splitlines() if "request" in line]
    warned = [line.partition(" got ")[2] for line in told if "warning: " in line]
    kinds_of_answers = ["an empty answer", "has no ProvisioningSection", "more than 1048576 bytes", "status 403"]
    assert [sum(words in line for line in warned) for words in kinds_of_answers] == [1] * 4, warned
    assert len(warned) == len({*warned}) <= 5, warned
    times = polls(one)
    assert all(later - sooner > 0.9 for sooner, later in pairwise(times)), times


OTHER = Vm(username="mallory", name="mallorys", password="Mallorys-9", disable_password=False)
OTHERS: dict[str, tuple[Media, bool, str, list[str]]] = {
    "another user and name": (
        Media(), False, "username: imds says 'carol', media says 'mallory'; using the first", ["ready", "ready"],
    ),
    "a password where none is asked for": (
        Media(), True, "is refused: the medium switches password logins on, and IMDS switches them off",
        ["ready", "ready"],
    ),
    "another VM's id": (
        Media(vm_id="99999999-2222-4333-8444-555555555555"), False,
        "provisioning media contradict IMDS: a password was given", ["ready", "failed"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_somebody_elses_data_make_no_account_of_theirs(bench: Benches, name: str) -> None:
    """As with media: what is certainly another VM's is refused, and of other names IMDS's win."""
    media, disable, told, verdicts = OTHERS[name]
    data = {"status": 200, "body": ovf_env(OTHER, media).decode("utf-8-sig")}
    customer = {"username": "carol", "name": "carols", "disable_password": disable}
    one = pooled(bench, vm=customer, faults=[{"path": PATH, "answers": [404, data]}])
    ran = one.agent(timeout=60)
    assert told in ran.err and "Mallorys-9" not in ran.err, ran.err
    assert kinds(one) == verdicts and state(one) == "reused"
    assert accounts(one) == (["carol"] if ran.status == 0 else [])
    refused = "is refused" in ran.err
    assert not refused or "$6$" not in one.read("etc/shadow"), "the other's password"


@pytest.mark.parametrize("answer", sample(["hang", "silent", "stall 0", "stall 300", "trickle 20"], 2))
def test_an_answer_that_never_ends_is_given_up_and_asked_for_again(bench: Benches, answer: str) -> None:
    """A trickle has bytes in every second: the whole answer has one time limit."""
    one = pooled(bench, faults=[{"path": PATH, "answers": [answer, 404, answer, answer, "ok*"]}],
                 tables={"imds": {"request_timeout_secs": 1}})  # fmt: skip
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)
    told = [line for line in ran.err.splitlines() if " to IMDS got " in line]
    assert any(line.endswith("got no answer: read timeout") for line in told), told
    times = polls(one)
    assert len(times) == 5 and all(later - sooner > 0.9 for sooner, later in pairwise(times)), times


def test_a_vm_that_imds_refuses_for_ever_says_so_and_waits_on(bench: Benches) -> None:
    """P25."""
    one = pooled(bench, pool=Pool(on_call=True), faults=[{"path": PATH, "answers": ["403*"]}])
    run = PooledRun(one)
    run.until(lambda: len(polls(one)) > 4)
    told = run.kill()
    assert told.count("warning: waiting: in a pool for ") == 1 and "got status 403, IMDS refuses this VM" in told, told
    assert kinds(one) == ["ready"] and state(one) == "waiting" and accounts(one) == []
    assert all(later - sooner > 0.9 for sooner, later in pairwise(polls(one)))


def test_a_server_that_asks_for_a_pause_gets_it(bench: Benches) -> None:
    answers = [{"status": 429, "retry_after": 3}, "ok*"]
    one = pooled(bench, faults=[{"path": PATH, "answers": answers}])
    assert one.agent(timeout=60).status == 0
    is_customers(one)
    first, second = polls(one)[:2]
    assert second - first > 2.9


@pytest.mark.parametrize("after", ["Savable", "Running", "odd"])
def test_imds_that_still_describes_a_pool_is_a_failure_and_no_boot_enters_the_pool_again(
    bench: Benches, after: str
) -> None:
    """P28; the marker does not go but says that no boot enters the pool again."""
    one = pooled(bench, pool=Pool(pps_type_after=after))
    ran = one.agent(timeout=60)
    assert ran.status == 1 and "invalid IMDS metadata for key=extended.compute.ppsType" in ran.err
    assert kinds(one) == ["ready", "failed"] and state(one) == "reused" and accounts(one) == []
    again = one.agent(timeout=60)
    assert again.status == 1 and "invalid IMDS metadata for key=extended.compute.ppsType" in again.err
    assert kinds(one) == ["ready", "failed", "failed"] and state(one) == "reused"


def test_the_proxy_agent_that_the_data_ask_for_is_waited_for_before_imds(bench: Benches) -> None:
    """P29: the medium of the pool does not ask for it."""
    one = pooled(bench, vm={**CUSTOMER, "proxy_agent": True})
    write_stub(one.tools, "ready", imds=one.fabric.imds)
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)
    asked = [(request.service, request.path) for request in one.fabric.ledger.requests]
    data = next(n for n, (_, path) in enumerate(asked) if path == PATH)
    assert [service for service, _ in asked[:data] if service == "proxy-agent"] == []
    after = [service for service, path in asked[data + 1 :] if service == "proxy-agent" or path == "/metadata/instance"]
    assert after[:2] == ["proxy-agent", "imds"], asked


# ---- ends of a run, at every state


def test_a_run_that_is_killed_in_the_pool_continues_without_another_ready(bench: Benches) -> None:
    """P5, P22, P38: the medium of the pool is still in its drive: the customer's data are others."""
    one = pooled(bench, pool=Pool(on_call=True))
    run = PooledRun(one)
    run.until(lambda: state(one) == "waiting")
    run.kill()
    for _ in range(2):
        before = len(polls(one))
        run = PooledRun(one)
        run.until(partial(has_polled, one, before))
        run.kill()
        assert kinds(one) == ["ready"] and state(one) == "waiting"
    assert one.fabric.take()
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)


@pytest.mark.parametrize("taken", [True, False])
def test_a_run_that_is_killed_at_its_ready_reports_it_once_more_at_most(bench: Benches, taken: bool) -> None:
    """P24. `taken`: a customer has got the VM by the next boot; the medium of the pool is still in its drive."""
    slow = {"wireserver": {"read_timeout_secs": 30, "total_retry_timeout_secs": 60}}
    silent = [{"path": "/provisioning/health", "answers": ["ok", "silent", "ok*"]}]
    one = pooled(bench, pool=Pool(on_call=True), faults=silent, tables=slow)
    run = PooledRun(one)
    run.until(lambda: kinds(one) == ["ready"])
    run.kill()
    assert state(one) == "offered"
    assert not taken or one.fabric.take()
    run = PooledRun(one)
    if not taken:
        run.until(lambda: state(one) == "waiting")
        assert one.fabric.take()
    told = run.end()
    assert run.agent.returncode == 0, told
    assert ("may get a second one" in told) is not taken
    assert kinds(one) == ["ready"] * (2 if taken else 3) and accounts(one) == ["carol"]


def test_a_run_that_is_killed_after_the_data_arrived_gets_them_again(bench: Benches) -> None:
    """P23."""
    one = pooled(bench, faults=[{"path": "/metadata/instance", "answers": ["ok", "hang", "ok*"]}],
                 tables={"imds": {"request_timeout_secs": 30, "total_retry_timeout_secs": 60}})  # fmt: skip
    run = PooledRun(one)
    run.until(lambda: state(one) == "reused")
    run.kill()
    assert kinds(one) == ["ready"] and accounts(one) == []
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)


def test_a_customers_vm_with_another_id_is_known_by_both(bench: Benches) -> None:
    """The firmware shows the pool's id until the next boot, or for ever."""
    former = "0b5e55ed-1111-4222-8333-444444444444"
    one = pooled(bench, pool=Pool(id=former), tables={"platform": {"vm_id": former}})
    ran = one.agent(timeout=60)
    assert ran.status == 0, ran.err
    is_customers(one)
    assert {name.name.partition(".")[0] for name in one.data.glob("*-*")} == {one.fabric.vm.id}
    for vm_id in (former, one.fabric.vm.id):
        one.configure(platform={"vm_id": vm_id})
        again = one.agent()
        assert again.status == 0 and "already provisioned" in again.err, again.err
    assert kinds(one) == ["ready", "ready"]


@pytest.mark.parametrize("found", ["offered", "waiting", "reused"])
def test_a_marker_of_another_vm_does_not_count(bench: Benches, found: str) -> None:
    """P6."""
    one = bench(vm=Vm(**CUSTOMER))
    one.data.mkdir(parents=True)
    (one.data / "machine.pool").write_text(f'{{"state":"{found}","type":"Running","firmware_id":"other"}}')
    ran = one.agent()
    assert ran.status == 0 and "another VM's" in ran.err, ran.err
    assert kinds(one) == ["ready"] and not state(one) and not polls(one)


def test_a_none_of_imds_outranks_the_media(bench: Benches) -> None:
    """P3: only an IMDS that names no type leaves the decision to the media."""
    one = bench(vm=Vm(**CUSTOMER), media=Media(texts={"PreprovisionedVm": "true", "PreprovisionedVMType": "Savable"}))
    ran = one.agent()
    assert ran.status == 0 and "the media say 'Savable'" in ran.err, ran.err
    assert kinds(one) == ["ready"] and accounts(one) == ["carol"] and not polls(one)


@pytest.mark.parametrize("told", ["savable", "Unknown"])
def test_an_odd_type_is_no_type(bench: Benches, told: str) -> None:
    """P4."""
    one = bench(vm=Vm(**CUSTOMER), imds=Imds(set={"extended": {"compute": {"ppsType": told}}}))
    ran = one.agent()
    assert ran.status == 0 and f"'{told}', which is no type" in ran.err, ran.err
    assert kinds(one) == ["ready"]


@pytest.mark.parametrize("source", ["run", "marker"])
def test_a_plan_in_the_pool_says_so(bench: Benches, source: str) -> None:
    one = pooled(bench, pool=Pool(on_call=True))
    if source == "marker":
        run = PooledRun(one)
        run.until(lambda: state(one) == "waiting")
        run.kill()
    ran = one.agent("plan")
    assert ran.status == 0 and "this VM is in a pool (type Running)" in ran.out, ran.out + ran.err
    assert kinds(one) == (["ready"] if source == "marker" else [])
