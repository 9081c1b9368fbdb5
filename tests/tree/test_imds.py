"""The instance metadata service: requests, retries, and the parser of its document."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from azureinit.config.model import Config, Imds as ImdsConfig
from azureinit.errors import (
    ImdsConnectFailed,
    ImdsConnectTimeout,
    ImdsInvalid,
    ImdsReadTimeout,
    ImdsRefused,
    ImdsUnavailable,
    ImdsUnparsable,
    ProxyAgentFailed,
)
from azureinit.machine import Clock
from azureinit.record import replace
from azureinit.sources.imds import Imds, query_imds
from support.imds_answers import DOCUMENT, WHOLE, profile
from support.wire import Answer, Server, Ticking, answer, reset, unused_url

GOOD = answer(body=json.dumps(DOCUMENT).encode())


def config(url: str) -> Config:
    return Config(imds=ImdsConfig(endpoint=url, request_timeout_secs=5.0))


def ask(*answers: Answer, **options: Any) -> tuple[Imds, list[str]]:
    """What came of it, and the path of every request."""
    with Server(*answers) as server:
        found = query_imds(config(server.url), clock=Ticking(), deadline=1e9, **options)
    return found, paths(server)


def failure(*answers: Answer, **options: Any) -> tuple[ImdsUnavailable, list[str]]:
    with Server(*answers) as server, pytest.raises(ImdsUnavailable) as caught:
        query_imds(config(server.url), clock=Ticking(), deadline=1e9, **options)
    return caught.value, paths(server)


def paths(server: Server) -> list[str]:
    return [request.split(b" ")[1].decode() for request in server.requests]


def test_the_newest_document_is_asked_for_in_full() -> None:
    with Server(GOOD) as server:
        assert query_imds(config(server.url + "/"), clock=Ticking(), deadline=1e9) == WHOLE
    assert server.requests[0].startswith(
        b"GET /metadata/instance?api-version=2023-11-15&extended=true HTTP/1.1\r\nHost: "
    )
    assert b"\r\nMetadata: true\r\n" in server.requests[0]
    assert b"\r\nUser-Agent: azure-init v" in server.requests[0]


def test_an_old_host_is_asked_for_older_versions_without_what_they_do_not_know() -> None:
    found, asked = ask(answer(400), answer(400), GOOD)
    assert found == WHOLE
    assert asked == [
        "/metadata/instance?api-version=2023-11-15&extended=true",
        "/metadata/instance?api-version=2021-08-01&extended=true",
        "/metadata/instance?api-version=2019-06-01",
    ]


def test_a_host_that_refuses_every_version_is_asked_all_of_them_again_for_the_whole_budget() -> None:
    refused = [answer(400)] * 3
    found, asked = ask(*refused, *refused, GOOD)
    assert found == WHOLE
    assert asked == [*asked[:3], *asked[:3], asked[0]]
    error, asked = failure(answer(400))
    assert error.reason == "http error 400 querying IMDS" and error.recoverable
    assert len(asked) > 30
    assert {path: asked.count(path) for path in asked} == dict.fromkeys(asked[:3], len(asked) // 3)


def test_a_host_that_refuses_every_version_is_not_asked_without_a_pause() -> None:
    clock = Ticking()
    with Server(answer(400)) as server, pytest.raises(ImdsRefused):
        hasty = ImdsConfig(endpoint=server.url, retry_interval_secs=0.0, total_retry_timeout_secs=60.0)
        query_imds(Config(imds=hasty), clock=clock, deadline=1e9)
    assert len(server.requests) < 100


@pytest.mark.parametrize("status", [404, 410, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_asked_again(status: int) -> None:
    found, asked = ask(answer(status), GOOD)
    assert found == WHOLE
    assert asked == ["/metadata/instance?api-version=2023-11-15&extended=true"] * 2


@pytest.mark.parametrize("status", [404, 410, 429, 500, 503])
def test_what_may_pass_is_asked_for_the_whole_budget_and_told_by_its_status(status: int) -> None:
    clock = Ticking()
    with Server(answer(status)) as server, pytest.raises(ImdsRefused) as caught:
        query_imds(config(server.url), clock=clock, deadline=1e9)
    assert caught.value.reason == f"http error {status} querying IMDS"
    assert caught.value.recoverable
    assert 1280 < clock.at <= 1300


FINAL = [301, 302, 401, 402, 403, 405, 406, 408, 409, 418, 451]


@pytest.mark.parametrize("status", FINAL)
def test_any_other_status_is_asked_again_and_final_after_half_a_minute(status: int) -> None:
    assert ask(*[answer(status)] * 4, GOOD)[0] == WHOLE
    clock = Ticking()
    with Server(answer(status)) as server, pytest.raises(ImdsRefused) as caught:
        query_imds(config(server.url), clock=clock, deadline=1e9)
    assert caught.value.reason == f"http error {status} querying IMDS"
    assert caught.value.data["status"] == str(status)
    assert not caught.value.recoverable
    assert 1030 <= clock.at < 1050
    assert len(server.requests) >= 5


def test_half_a_minute_of_the_same_is_not_enough_without_five_answers() -> None:
    slow = replace(config(""), imds=replace(config("").imds, retry_interval_secs=20.0))
    with Server(answer(403)) as server, pytest.raises(ImdsRefused):
        query_imds(replace(slow, imds=replace(slow.imds, endpoint=server.url)), clock=Ticking(), deadline=1e9)
    assert len(server.requests) == 5


@pytest.mark.parametrize("other", [answer(500), answer(405), reset, answer(body=b"<html>")])
def test_only_the_same_answer_in_a_row_is_final(other: Answer) -> None:
    found, asked = ask(*[answer(403), other] * 10, GOOD)
    assert found == WHOLE
    assert len(asked) == 21


def test_how_long_the_same_must_have_come_is_configured() -> None:
    clock = Ticking()
    with Server(answer(403)) as server, pytest.raises(ImdsRefused):
        quick = ImdsConfig(endpoint=server.url, final_after_secs=0.0, retry_interval_secs=0.1)
        query_imds(Config(imds=quick), clock=clock, deadline=1e9)
    assert len(server.requests) == 5
    assert clock.at < 1002


def test_what_was_seen_most_names_the_failure_where_time_ended_it() -> None:
    clock = Ticking()

    def hang(connection: Any) -> None:
        clock.at += 1000
        connection.sendall(answer(404))

    with Server(*[answer(503)] * 3, hang) as server, pytest.raises(ImdsRefused) as caught:
        query_imds(config(server.url), clock=clock, deadline=1e9)
    assert caught.value.reason == "http error 503 querying IMDS"


def test_silence_is_told_by_its_kind() -> None:
    def silent(connection: Any) -> None:
        connection.recv(1)

    quick = {"request_timeout_secs": 0.2, "total_retry_timeout_secs": 0.5}
    with Server(silent) as server, pytest.raises(ImdsReadTimeout) as caught:
        query_imds(Config(imds=ImdsConfig(endpoint=server.url, **quick)), clock=Clock(), deadline=1e9)
    assert caught.value.reason == "read timeout querying IMDS" and caught.value.recoverable
    with Server(reset) as server, pytest.raises(ImdsConnectFailed, match="reset|closed"):
        query_imds(Config(imds=ImdsConfig(endpoint=server.url, **quick)), clock=Clock(), deadline=1e9)
    with pytest.raises(ImdsConnectFailed, match="connection refused"):
        query_imds(Config(imds=ImdsConfig(endpoint=unused_url(), **quick)), clock=Clock(), deadline=1e9)


def test_a_connection_that_never_comes_about_is_told_as_such() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        waiting = [socket.socket() for _ in range(3)]  # the queue of connections that nobody accepts is full
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        imds = ImdsConfig(endpoint=url, connection_timeout_secs=0.2, total_retry_timeout_secs=0.5)
        try:
            with pytest.raises(ImdsConnectTimeout, match="connection timed out"):
                query_imds(Config(imds=imds), clock=Clock(), deadline=1e9)
        finally:
            for one in waiting:
                one.close()


def test_every_request_has_an_id_of_its_own_that_the_log_has_too() -> None:
    seen: list[str] = []

    def observe(_name: str, *, request_id: str, **_fields: object) -> None:
        seen.append(request_id)

    with Server(answer(503), answer(400), GOOD) as server:
        query_imds(config(server.url), clock=Ticking(), deadline=1e9, observe=observe)
    sent = [re.search(rb"\r\nx-ms-client-request-id: (\S+)\r\n", request) for request in server.requests]
    assert [match[1].decode() for match in sent if match] == seen
    assert len(set(seen)) == 3
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 4 for one in seen)


def saying(waited: list[str]) -> Callable[[str], str]:
    def wait(refusal: str) -> str:
        waited.append(refusal)
        return "; it was ready"

    return wait


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_waits_for_the_proxy_agent_and_asks_again(status: int) -> None:
    waited: list[str] = []
    found, asked = ask(answer(status), answer(503), GOOD, wait_for_proxy=saying(waited))
    assert found == WHOLE
    assert waited == [f"IMDS refused with status {status}"]
    assert len(asked) == 3


def test_the_proxy_agent_is_waited_for_only_once() -> None:
    waited: list[str] = []
    error, asked = failure(answer(403), answer(401), wait_for_proxy=saying(waited))
    assert "status 401" in str(error)
    assert str(error).endswith("; it was ready"), "what it said is kept"
    assert waited == ["IMDS refused with status 403"]
    assert len(asked) >= 1 + 5


def test_a_refusal_after_older_versions_asks_the_same_version_again() -> None:
    waited: list[str] = []
    _, asked = ask(answer(400), answer(403), GOOD, wait_for_proxy=saying(waited))
    assert asked[1] == asked[2] == "/metadata/instance?api-version=2021-08-01&extended=true"
    assert len(waited) == 1


def test_what_the_proxy_agent_failed_of_is_not_swallowed() -> None:
    def broken(refusal: str) -> str:
        raise ProxyAgentFailed(f"{refusal}, and it is broken")

    with Server(answer(403)) as server, pytest.raises(ProxyAgentFailed, match="status 403, and it is broken"):
        query_imds(config(server.url), clock=Ticking(), deadline=1e9, wait_for_proxy=broken)


def test_nobody_there_is_told_when_the_budget_is_gone() -> None:
    clock = Ticking()
    with pytest.raises(ImdsUnavailable, match=r"connection refused \(\d+ times\)") as caught:
        query_imds(config(unused_url()), clock=clock, deadline=1e9)
    assert 1280 < clock.at <= 1300  # the default budget
    assert caught.value.data["endpoint"].startswith("http://127.0.0.1:")


def test_all_versions_share_one_budget() -> None:
    clock = Ticking()

    def slow_refusal(connection: Any) -> None:
        clock.at += 200
        connection.sendall(answer(400))

    with Server(slow_refusal) as server, pytest.raises(ImdsUnavailable):
        query_imds(replace(config(server.url)), clock=clock, deadline=1e9)
    assert len(server.requests) == 2


def test_the_run_s_deadline_ends_the_asking() -> None:
    clock = Ticking()
    with pytest.raises(ImdsUnavailable):
        query_imds(config(unused_url()), clock=clock, deadline=1020.0)
    assert clock.at <= 1020.0


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(body=b"<html><body>Sign in</body></html>"), "not JSON: HTML"),
        (answer(body=b"\r\n <!DOCTYPE html>"), "not JSON: HTML"),
        (answer(body=json.dumps(DOCUMENT).encode()[:-20]), "not JSON: "),
        (answer(body=b""), "not JSON: no value at character 0"),
        (answer(body=b"\xff\xfe{"), "not JSON: UnicodeDecodeError"),
        (answer(body=b"[" * 200_000), "not JSON: "),
        (answer(body=b"[]"), "IMDS document has no object compute"),
        (answer(body=b"x" * ((1 << 20) + 1)), "answer larger than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2 << 20), "answer larger than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", "connection closed before the answer was complete"),
        (answer(body=profile(disablePasswordAuthentication="nonsense")), "disablePasswordAuthentication is neither"),
    ],
)
def test_a_malformed_body_is_asked_for_again_and_named_in_the_end(said: bytes, why: str) -> None:
    assert ask(*[said] * 4, reset, GOOD)[0] == WHOLE
    error, asked = failure(said)
    assert why in str(error)
    assert len(asked) >= 5
    # An answer that never came whole is silence; one that did is final.
    assert error.recoverable == isinstance(error, ImdsConnectFailed)
    cut_off = b"Content-Length: 500" in said or len(said) > 1 << 20
    assert isinstance(error, ImdsConnectFailed if cut_off else ImdsInvalid)
    if isinstance(error, ImdsUnparsable):
        assert error.reason == "error parsing IMDS metadata" and "not JSON" in why
    elif isinstance(error, ImdsInvalid):
        assert error.reason in (
            "invalid IMDS metadata for key=compute",
            "invalid IMDS metadata for key=disablePasswordAuthentication",
        )


def test_different_kinds_of_malformed_bodies_are_not_the_same_answer() -> None:
    found, _ = ask(*[answer(body=b"<html>"), answer(body=b"[]")] * 10, GOOD)
    assert found == WHOLE


def test_a_document_is_never_shown_in_an_error() -> None:
    error, _ = failure(answer(body=b'{"compute": {"customData": "c2VjcmV0"'))
    assert "c2VjcmV0" not in str(error) + str(error.supporting())
