"""The settings of the OpenTelemetry exporter, by configuration and environment."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from azureinit.telemetry.collector import Collector as Chosen, choose_collector, parse_pairs, percent_decoded, public
from azureinit.telemetry.events import DEBUG, WARN
from azureinit.version import VERSION
from support.otel import Collector
from support.otlp_runs import ENDPOINT, LOGS, TRACES, configured, told_by


def test_the_request_is_json_with_our_name_and_the_headers_asked_for() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cret,x-tenant=a",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "x-tenant=b",
    }
    with Collector() as collector:
        told = told_by(collector, environ)
    found = {request.path: request.headers for request in collector.requests}
    assert found["/v1/traces"]["content-type"] == "application/json"
    assert found["/v1/traces"]["user-agent"] == f"azure-init v{VERSION}"
    assert (found["/v1/traces"]["authorization"], found["/v1/traces"]["x-tenant"]) == ("Bearer s3cret", "a")
    assert (found["/v1/logs"].get("authorization"), found["/v1/logs"]["x-tenant"]) == (None, "b")
    assert "s3cret" not in str(told)


def test_gzip_is_used_where_it_is_asked_for() -> None:
    with Collector() as collector:
        told_by(collector, {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
    assert [request.headers.get("content-encoding") for request in collector.requests] == ["gzip", "gzip"]
    assert collector.spans() and collector.records()


@pytest.mark.parametrize(
    ("endpoint", "environ", "urls"),
    [
        ("http://c:4318", {}, ["http://c:4318/v1/traces", "http://c:4318/v1/logs"]),
        ("http://c:4318/", {}, ["http://c:4318/v1/traces", "http://c:4318/v1/logs"]),
        ("http://c", {ENDPOINT: "http://e/base/?x=y"}, ["http://e/base/v1/traces", "http://e/base/v1/logs"]),
        ("http://c", {ENDPOINT: " "}, ["http://c/v1/traces", "http://c/v1/logs"]),
        ("http://c", {TRACES: "http://t/as/it/is?k=v"}, ["http://t/as/it/is?k=v", "http://c/v1/logs"]),
        ("", {TRACES: "http://t"}, ["http://t"]),
        ("", {LOGS: "http://l/", ENDPOINT: "http://e"}, ["http://e/v1/traces", "http://l/"]),
        ("http://c", {"OTEL_TRACES_EXPORTER": "none"}, ["http://c/v1/logs"]),
        ("http://c", {"OTEL_LOGS_EXPORTER": "console, OTLP"}, ["http://c/v1/traces", "http://c/v1/logs"]),
        ("http://c", {"OTEL_LOGS_EXPORTER": "console"}, ["http://c/v1/traces"]),
        ("http://c", {"OTEL_SDK_DISABLED": "TRUE"}, []),
        ("", {}, []),
    ],
)
def test_where_it_is_told(endpoint: str, environ: dict[str, str], urls: list[str]) -> None:
    chosen = choose_collector(configured(endpoint), environ)
    assert [one.url for one in chosen.destinations] == urls
    assert chosen.complaints == ()


HINT = "name a collector on this machine or network"


@pytest.mark.parametrize(
    ("environ", "complaints"),
    [
        (
            {ENDPOINT: "https://u:s3cret@c:4318/x?key=s3cret"},
            [(WARN, f"{ENDPOINT}: https://c:4318/x is not used, only http:// is supported: {HINT}")],
        ),
        (
            {TRACES: "user:s3cret@c:4318", "OTEL_LOGS_EXPORTER": "none"},
            [(WARN, f"{TRACES}: c:4318 is not an http:// URL: not used")],
        ),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            [(WARN, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: only http/json is supported, and used")],
        ),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            [(DEBUG, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf: only http/json is supported, and used")],
        ),
        ({ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, []),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "2s"},
            [(WARN, "OTEL_EXPORTER_OTLP_TIMEOUT=2s is not a number of milliseconds: ignored")],
        ),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"},
            [(WARN, "OTEL_EXPORTER_OTLP_COMPRESSION=zstd is neither gzip nor none: sent uncompressed")],
        ),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "s3cret"},
            [(WARN, "OTEL_EXPORTER_OTLP_HEADERS is not a list such as key=value,key=value: ignored")],
        ),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "x=s3cret%0d%0aHost: evil"},
            [(WARN, "OTEL_EXPORTER_OTLP_HEADERS has a header that cannot be sent: left out")],
        ),
        (
            {ENDPOINT: "http://c", "OTEL_RESOURCE_ATTRIBUTES": "a=%ff"},
            [(WARN, "OTEL_RESOURCE_ATTRIBUTES is not a list such as key=value,key=value: ignored")],
        ),
    ],
)
def test_what_cannot_be_done_as_it_was_asked_is_said_once(
    environ: dict[str, str], complaints: list[tuple[int, str]]
) -> None:
    chosen = choose_collector(configured(), environ)
    assert sorted(chosen.complaints) == sorted(complaints)
    assert "s3cret" not in repr(chosen)


@pytest.mark.parametrize("name", ["Host", "content-length", "a b", "x:y", "é", ""])
def test_a_header_that_is_ours_or_none_is_left_out(name: str) -> None:
    environ = {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": f"{name}=1,good=2"}
    chosen = choose_collector(configured(), environ)
    assert all("good" in one.headers or not one.headers for one in chosen.destinations)
    assert all(set(one.headers) <= {"good"} for one in chosen.destinations)
    assert len(chosen.complaints) == 1


def test_the_timeout_is_in_milliseconds() -> None:
    def seconds(**environ: str) -> list[float]:
        return [one.seconds for one in choose_collector(configured("http://c"), environ).destinations]

    assert seconds() == [10.0, 10.0]
    assert seconds(OTEL_EXPORTER_OTLP_TIMEOUT="250") == [0.25, 0.25]
    assert seconds(OTEL_EXPORTER_OTLP_TIMEOUT="250", OTEL_EXPORTER_OTLP_LOGS_TIMEOUT="500") == [0.25, 0.5]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        (" a = 1 ,, b=", {"a": "1", "b": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a%2e=%C3%A9%2C", {"a.": "é,"}),
        ("a=100%,b=%zz,c=%+1,d=%4", {"a": "100%", "b": "%zz", "c": "%+1", "d": "%4"}),
        ("a", None),
        ("=1", None),
        ("a=%ff", None),
    ],
)
def test_pairs_are_decoded_or_are_none(text: str, pairs: dict[str, str] | None) -> None:
    assert parse_pairs(text) == pairs


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_variable_gives_a_collector_and_never_a_traceback(text: str) -> None:
    for name in (ENDPOINT, TRACES, "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        assert isinstance(choose_collector(configured("http://c"), {name: text}), Chosen)
    parse_pairs(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_percent_signs_come_back_as_what_they_stand_for(text: str) -> None:
    assert percent_decoded("".join(f"%{byte:02x}" for byte in text.encode())) == text


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
        ("http://user:s3cret@c/x?token=s3cret#s3cret", "http://c/x"),
        ("c?s3cret", "c"),
        ("", ""),
    ],
)
def test_an_address_is_told_without_what_may_be_secret(url: str, told: str) -> None:
    assert public(url) == told
