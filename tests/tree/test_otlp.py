"""The requests to an OpenTelemetry collector, its address, and a collector that does not answer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from azureinit.machine import Machine
from azureinit.telemetry.events import DEBUG, ERROR, INFO, WARN, Event, Events
from azureinit.telemetry.otlp import MOST_EVENTS, partial_success
from azureinit.telemetry.spans import Run, log_records, request, resource, spans
from azureinit.version import VERSION
from support.otel import Answer, Collector, decoded, reply, values
from support.otlp_runs import SEED, TRACES, Agent, configured, told_by
from support.wire import Ticking, unused_url

ROOT = bytes.fromhex(SEED[-16:])


# ---- spans


def test_a_run_is_one_trace_of_steps_within_steps() -> None:
    with Collector() as collector:
        agent = Agent(configured(collector.url))
        with agent.events.step("apply"), agent.events.step("hostname") as step:
            step.text = "set to web-1"
        told = agent.send()
    root, hostname, apply = collector.spans()
    assert {span.trace_id for span in (root, hostname, apply)} == {bytes.fromhex(SEED)}
    assert (root.name, root.span_id, root.parent_span_id) == ("azure-init", ROOT, b"")
    assert (apply.name, apply.parent_span_id) == ("apply", ROOT)
    assert (hostname.name, hostname.parent_span_id) == ("hostname", apply.span_id)
    assert values(hostname.attributes) == {"azure_init.result": "set to web-1"}
    assert {span.kind for span in (root, hostname, apply)} == {1}
    assert {span.status.code for span in (root, hostname, apply)} == {0}
    assert root.start_time_unix_nano <= apply.start_time_unix_nano <= hostname.start_time_unix_nano
    assert hostname.end_time_unix_nano <= apply.end_time_unix_nano <= root.end_time_unix_nano
    assert told == [(DEBUG, f"3 spans sent to {collector.url}/v1/traces")], "no log record is no request"
    assert [request.path for request in collector.requests] == ["/v1/traces"]


def test_a_step_that_fails_says_why_and_so_does_the_run() -> None:
    with Collector() as collector:
        agent = Agent(configured(collector.url))
        with pytest.raises(OSError), agent.events.step("hostname"):
            raise OSError("no space left")
        agent.events.tell(ERROR, "provision", "disk full: no space left")
        agent.send()
    root, hostname = collector.spans()
    assert (hostname.status.code, hostname.status.message) == (2, "no space left")
    assert (root.status.code, root.status.message) == (2, "disk full: no space left")


def test_a_request_is_a_span_by_the_semantic_conventions() -> None:
    url = "http://169.254.169.254/metadata/instance?api-version=2023-11-15"
    with Collector() as collector:
        agent = Agent(configured(collector.url))
        with agent.events.step("gather"):
            agent.events.observe("http", method="GET", url=url, attempt=1, seconds=1.0, failure="timed out")
            agent.events.observe("http", method="GET", url=url, attempt=2, seconds=0.5, status=200)
        agent.send()
    _root, failed, answered, gather = collector.spans()
    assert failed.name == answered.name == "GET /metadata/instance"
    assert failed.kind == answered.kind == 3
    assert failed.parent_span_id == answered.parent_span_id == gather.span_id
    assert (failed.status.code, answered.status.code) == (2, 0)
    assert "timed out" in failed.status.message
    assert values(failed.attributes) == {"http.request.method": "GET", "url.full": url}
    assert values(answered.attributes) == {
        "http.request.method": "GET",
        "url.full": url,
        "http.response.status_code": 200,
        "http.request.resend_count": 1,
    }
    assert answered.end_time_unix_nano - answered.start_time_unix_nano == pytest.approx(5e8, abs=1000)


def test_a_moment_is_an_event_of_the_span_it_happened_in() -> None:
    with Collector() as collector:
        agent = Agent(configured(collector.url))
        agent.events.tell(INFO, "config", "read")
        with agent.events.step("gather"):
            agent.events.tell(WARN, "imds", "slow", endpoint="http://169.254.169.254")
        agent.send()
    root, gather = collector.spans()
    assert [event.name for event in root.events] == ["config"]
    assert values(gather.events[0].attributes) == {
        "azure_init.text": "slow",
        "azure_init.level": "WARN",
        "azure_init.endpoint": "http://169.254.169.254",
    }


def test_a_step_that_has_not_ended_is_told_as_far_as_it_came() -> None:
    clock = Ticking()
    heard: list[Event] = []
    events = Events(clock=clock, listeners=(heard.append,), seed=SEED)
    with events.step("apply"):
        events.tell(INFO, "x", "inside")
        made = spans(heard, Run(trace_id=SEED, started=clock.now(), ended=clock.now() + 3))
    assert [span["name"] for span in made] == ["azure-init", "apply"]
    assert int(made[1]["endTimeUnixNano"]) - int(made[1]["startTimeUnixNano"]) == 3_000_000_000
    assert made[1]["events"][0]["name"] == "x"


def test_the_run_begins_with_its_first_step_whatever_the_clock_did() -> None:
    event = Event(at=100.0, kind="finish", level=INFO, name="x", seconds=7.0, id=SEED)
    root = spans([event], Run(trace_id=SEED, started=99.0, ended=101.0))[0]
    assert (root["startTimeUnixNano"], root["endTimeUnixNano"]) == ("93000000000", "101000000000")


def test_the_oldest_events_give_way() -> None:
    with Collector() as collector:
        agent = Agent(configured(collector.url))
        for number in range(MOST_EVENTS + 3):
            agent.events.tell(DEBUG, "x", str(number))
        agent.send()
    assert collector.spans()[0].dropped_events_count == 3
    assert [record.body.string_value for record in collector.records()][::1999] == ["3", str(MOST_EVENTS + 2)]


# ---- log records


def test_moments_and_warnings_are_log_records_of_their_span() -> None:
    with Collector() as collector:
        agent = Agent(configured(collector.url))
        agent.events.tell(INFO, "config", "read")
        with pytest.raises(ValueError), agent.events.step("gather"):
            agent.events.tell(DEBUG, "imds", "asked", attempt="1")
            agent.events.observe("http", method="GET", seconds=0.1)
            raise ValueError("no answer")
        told = agent.send()
    gather = collector.spans()[-1]
    first, second, third = collector.records()
    assert [(one.severity_number, one.severity_text) for one in (first, second, third)] == [
        (9, "INFO"),
        (5, "DEBUG"),
        (17, "ERROR"),
    ]
    assert [one.body.string_value for one in (first, second, third)] == ["read", "asked", "no answer"]
    assert [one.span_id for one in (first, second, third)] == [ROOT, gather.span_id, gather.span_id]
    assert {one.trace_id for one in (first, second, third)} == {bytes.fromhex(SEED)}
    assert values(second.attributes) == {"azure_init.name": "imds", "azure_init.attempt": "1"}
    assert first.time_unix_nano == first.observed_time_unix_nano > 0
    assert {text for _level, text in told} == {
        f"3 spans sent to {collector.url}/v1/traces",
        f"3 log records sent to {collector.url}/v1/logs",
    }


texts = st.text(st.characters(exclude_categories=()), max_size=20)
happened = st.builds(
    Event,
    at=st.floats(0, 4e9),
    kind=st.sampled_from(["start", "finish", "event"]),
    level=st.sampled_from([5, 10, 20, 30, 40, 17]),
    name=st.one_of(texts, st.just("http")),
    text=texts,
    seconds=st.one_of(st.none(), st.floats(0, 1e5)),
    failed=st.booleans(),
    id=st.integers(1, 5).map(lambda number: f"{number:032x}"),
    parent=st.one_of(st.just(""), st.integers(1, 5).map(lambda number: f"{number:032x}")),
    fields=st.dictionaries(
        st.one_of(texts, st.sampled_from(["method", "url", "status", "attempt"])), texts, max_size=3
    ),
)


@given(st.lists(happened, max_size=8), st.dictionaries(texts, texts, max_size=3))
def test_whatever_happened_is_told_in_the_schema(events: list[Event], said: dict[str, str]) -> None:
    run = Run(trace_id=SEED, started=1.0, ended=5e9)
    known = resource({"vm_id": "x"}, host_name="h", said=said)
    for signal, records in (("traces", spans(events, run)), ("logs", log_records(events, run))):
        decoded(signal, json.dumps(request(signal, records, known)).encode())


# ---- who speaks


def test_the_machine_is_told_by_the_semantic_conventions() -> None:
    with Collector() as collector:
        told_by(
            collector,
            vm_id="c0ffee00-1111-2222-3333-444444444444",
            vmSize="Standard_D2s_v5",
            location="westeurope",
            zone="",
            subscriptionId="8d10da13",
            resourceId="/subscriptions/8d10da13/x",
            os_description="Debian GNU/Linux 12",
            offer="not told",
        )
    expected = {
        "service.name": "azure-init",
        "service.version": VERSION,
        "cloud.provider": "azure",
        "cloud.platform": "azure.vm",
        "cloud.region": "westeurope",
        "cloud.account.id": "8d10da13",
        "cloud.resource_id": "/subscriptions/8d10da13/x",
        "host.id": "c0ffee00-1111-2222-3333-444444444444",
        "host.name": Machine(environ={}).hostname(),
        "host.type": "Standard_D2s_v5",
        "os.type": "linux",
        "os.description": "Debian GNU/Linux 12",
    }
    assert collector.resource() == expected
    logs = decoded("logs", collector.bodies("logs")[0]).resource_logs[0]
    assert values(logs.resource.attributes) == expected
    assert (logs.scope_logs[0].scope.name, logs.scope_logs[0].scope.version) == ("azure-init", VERSION)


def test_what_the_environment_says_of_the_machine_counts_first() -> None:
    environ = {
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other, cloud.region = west%20europe ,team=a%2Cb%3Dc",
        "OTEL_SERVICE_NAME": "images",
    }
    with Collector() as collector:
        told_by(collector, environ, location="westeurope")
    found = collector.resource()
    assert (found["service.name"], found["cloud.region"], found["team"]) == ("images", "west europe", "a,b=c")


# ---- a collector that is not well


def test_what_may_be_tried_again_is_after_the_time_it_asked_for() -> None:
    with Collector(reply(503), reply(429, Retry_After="0"), reply(502), reply(504), reply()) as collector:
        agent = Agent(configured(collector.url))
        told = agent.send()
    assert len(collector.requests) == 5
    assert told == [(DEBUG, f"1 spans sent to {collector.url}/v1/traces")]


@pytest.mark.parametrize("status", [400, 401, 404, 500, 501])
def test_what_must_not_be_tried_again_is_not(status: int) -> None:
    with Collector(reply(status)) as collector:
        told = Agent(configured(collector.url)).send()
    assert len(collector.requests) == 1
    [(level, text)] = told
    assert level == WARN
    assert text.startswith(f"spans were not sent: POST {collector.url}/v1/traces failed for ")
    assert text.endswith(f": status {status}")


def test_a_wait_beyond_the_budget_is_not_begun() -> None:
    with Collector(reply(429, Retry_After="50")) as collector:
        told = Agent(configured(collector.url, budget=30.0)).send()
    assert len(collector.requests) == 1 and told[0][0] == WARN


def garbage(handler: Any) -> None:
    handler.wfile.write(b"\x16\x03\x01 nothing of HTTP\r\n\r\n")
    handler.close_connection = True


@pytest.mark.parametrize("kind", ["refused", "hangs", "503", "garbage"])
def test_a_dead_collector_costs_the_budget_at_most(kind: str) -> None:
    answers: dict[str, Answer] = {"503": reply(503), "garbage": garbage}
    collector: Collector
    with Collector(*([answers[kind]] if kind in answers else [lambda handler: collector.hang(handler)])) as collector:
        url = unused_url() if kind == "refused" else collector.url
        agent = Agent(configured(url, budget=0.4))
        agent.events.tell(WARN, "x", "y")
        begun = time.monotonic()
        told = agent.send()
        taken = time.monotonic() - begun
    assert taken < 0.4 + 30.0, "the budget, and what a busy machine adds to it"
    assert [level for level, _text in told] == [WARN, WARN], told
    assert all(url in text for _level, text in told)


def test_a_run_without_time_left_gives_up_at_once() -> None:
    collector: Collector
    with Collector(lambda handler: collector.hang(handler)) as collector:
        begun = time.monotonic()
        told = Agent(configured(collector.url, budget=60.0)).send(seconds=-1.0)
        assert time.monotonic() - begun < 30.0
    assert [level for level, _text in told] == [WARN]


def test_the_secret_parts_of_an_address_are_in_no_failure() -> None:
    environ = {TRACES: f"{unused_url()}/x?key=s3cret", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=s3cret"}
    told = Agent(configured(budget=0.2), environ).send()
    assert [level for level, _text in told] == [WARN]
    assert "s3cret" not in str(told)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no-such-host.invalid"])
def test_a_name_that_is_none_is_a_sentence(host: str) -> None:
    told = Agent(configured(f"http://{host}:4318", budget=1.0)).send()
    assert [level for level, _text in told] == [WARN]


def test_an_answer_that_is_not_ours_to_understand_is_still_an_answer() -> None:
    with Collector(reply(200, b"<html>")) as collector:
        told = told_by(collector)
    assert [level for level, _text in told] == [DEBUG, DEBUG]


def test_what_a_collector_did_not_take_is_told_in_its_words() -> None:
    with Collector(reply(200, b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too\\nold"}}')) as collector:
        told = Agent(configured(collector.url)).send()
    assert told == [(DEBUG, f"1 spans sent to {collector.url}/v1/traces: 2 rejected: too\\nold")]


@given(st.one_of(st.binary(max_size=50), st.just(b'{"partialSuccess": []}'), st.just(b'{"partialSuccess": {}}')))
def test_no_answer_is_too_strange(body: bytes) -> None:
    assert partial_success(body) == ""


def test_nobody_need_listen(tmp_path: Path) -> None:
    agent = Agent(configured(unused_url(), budget=0.1))
    agent.otlp.send(agent.machine.clock.monotonic() + 1)
