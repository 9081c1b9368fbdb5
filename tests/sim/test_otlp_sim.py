"""A whole run sent to a collector; a collector that does not answer changes only the log."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from fakeazure import Expect, Media, Vm
from support.bench import PYTHON, SRC, Bench, Benches, Ran
from support.otel import Collector, reply, values

PASSWORD = "C4nary+pass"
CUSTOM_DATA = "C4nary+custom-data"
BUDGET = 0.5


def run(one: Bench, **environ: str) -> Ran:
    """The agent, with variables of the operator's."""
    command = [PYTHON, "-m", "azureinit", "--config", str(one.config), "--root", str(one.tree)]
    known = {"PATH": f"{one.tools}:{os.environ['PATH']}", "PYTHONPATH": str(SRC)}
    ran = subprocess.run(command, env={**known, **environ}, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in ran.stderr, ran.stderr
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def test_a_run_is_a_trace(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"))
    one.install_sshd()
    with Collector() as collector:
        ran = run(one, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_HEADERS="authorization=C4nary")
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    assert [request.path for request in collector.requests].count("/v1/traces") == 1
    assert {request.headers["authorization"] for request in collector.requests} == {"C4nary"}
    spans = collector.spans()
    ids = {span.span_id: span for span in spans}
    root = spans[0]
    assert len(ids) == len(spans), "no id is used twice"
    assert root.name == "azure-init" and not root.parent_span_id and root.status.code == 0
    assert all(span.parent_span_id in ids for span in spans[1:])
    names = {span.name for span in spans}
    assert {"hostname", "report Ready"} <= names, names
    asked = [span for span in spans if span.name == "GET /metadata/instance"]
    assert asked and all(span.kind == 3 for span in asked)
    assert values(asked[-1].attributes)["http.response.status_code"] == 200
    told = [span for span in spans if span.name == "POST /provisioning/health"]
    assert "report Ready" in {ids[span.parent_span_id].name for span in told}
    for span in spans[1:]:
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= root.end_time_unix_nano
    assert {record.trace_id for record in collector.records()} <= {root.trace_id}
    assert all(record.span_id in ids for record in collector.records())


def test_a_machine_is_told_with_what_the_platform_says_of_it(bench: Benches) -> None:
    one = bench(vm=Vm(name="web-1"))
    with Collector() as collector:
        one.configure(telemetry={"otlp_endpoint": collector.url})
        assert run(one, OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test").status == 0
    found = collector.resource()
    assert found["host.id"] == one.fabric.vm.id
    assert found["cloud.region"] == one.fabric.vm.location
    assert found["cloud.resource_id"].endswith("/virtualMachines/web-1")
    assert found["service.name"] == "azure-init"
    assert found["deployment.environment.name"] == "test"
    assert {"cloud.account.id", "host.type", "cloud.provider", "cloud.platform"} <= set(found)


def test_a_failure_names_its_cause(bench: Benches) -> None:
    one = bench(vm=Vm(username="root"), expect=Expect(verdict="failure"), media=Media(enable=False))
    with Collector() as collector:
        ran = run(one, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert ran.status == 1, ran.err
    root = collector.spans()[0]
    assert root.status.code == 2 and "invalid username" in root.status.message
    assert "report failure" in {span.name for span in collector.spans()}
    assert 17 in {record.severity_number for record in collector.records()}


def test_no_secret_is_told(bench: Benches) -> None:
    one = bench(vm=Vm(password=PASSWORD, disable_password=False, keys=(), custom_data=CUSTOM_DATA))
    with Collector() as collector:
        ran = run(one, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, AZURE_INIT_LOG="trace")
    assert ran.status == 0, ran.err
    hashed = one.read("etc/shadow").split("azureuser:")[1].split(":")[0]
    assert hashed.startswith("$6$")
    bodies = b"".join(request.body for request in collector.requests).decode()
    assert bodies
    for secret in (PASSWORD, CUSTOM_DATA, hashed):
        assert secret not in bodies


def garbage(handler: Any) -> None:
    handler.wfile.write(b"\x16\x03\x01 nothing of HTTP\r\n\r\n")
    handler.close_connection = True


@pytest.mark.parametrize("kind", ["refused", "hangs", "503", "garbage", "https"])
def test_a_dead_collector_changes_nothing_and_costs_its_budget_at_most(bench: Benches, kind: str) -> None:
    answers: dict[str, Callable[[Any], None]] = {"503": reply(503), "garbage": garbage}
    well, ill = bench(), bench()
    begun = time.monotonic()
    usual = run(well)
    without = time.monotonic() - begun
    collector: Collector
    with Collector(answers.get(kind, lambda handler: collector.hang(handler))) as collector:
        url = {"refused": "http://127.0.0.1:9", "https": "https://127.0.0.1:4318"}.get(kind, collector.url)
        ill.configure(telemetry={"otlp_budget_secs": BUDGET})
        begun = time.monotonic()
        ran = run(ill, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        taken = time.monotonic() - begun
    assert ran.status == usual.status == 0, ran.err
    assert ill.fabric.judge().ok
    assert [told.kind for told in ill.fabric.ledger.told] == [told.kind for told in well.fabric.ledger.told]
    assert ill.state("provisioned").exists()
    assert "warning: otlp: " in ran.err
    assert taken < without + BUDGET + 30.0, "the budget, and what a busy machine adds to it"


def test_a_provisioned_machine_tells_nothing(bench: Benches) -> None:
    one = bench()
    assert run(one).status == 0
    with Collector() as collector:
        assert run(one, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url).status == 0
    assert collector.requests == []
