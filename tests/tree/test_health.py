"""The health endpoint: the exact bodies, retries, and final failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from azureinit.config.model import Config, Wireserver
from azureinit.errors import VerdictUndelivered
from azureinit.report.health import send_failure, send_in_progress, send_ready
from azureinit.version import VERSION
from support.wire import Answer, Server, Ticking, answer, reset, silence, unused_url

ID = "550e8400-e29b-41d4-a716-446655440000"
PATH = "/provisioning/health"


def config(url: str, **changes: Any) -> Config:
    return Config(wireserver=Wireserver(health_endpoint=url + PATH, **changes))


def told(*answers: Answer, clock: Ticking | None = None, deadline: float = 1e9) -> list[Any]:
    """Every body that Ready took to be accepted."""
    with Server(*answers) as server:
        send_ready(config(server.url), clock=clock or Ticking(), deadline=deadline)
    return bodies(server)


def bodies(server: Server) -> list[Any]:
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]


def test_ready_is_one_post_with_these_headers() -> None:
    with Server(answer(201)) as server:
        send_ready(config(server.url), clock=Ticking(), deadline=1e9)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /provisioning/health HTTP/1.1"
    assert f"\r\nUser-Agent: azure-init v{VERSION}\r\n".encode() in head
    assert f"\r\nx-ms-guest-agent-name: azure-init v{VERSION}\r\n".encode() in head
    assert b"\r\nContent-Type: application/json\r\n" in head
    assert body == b'{"state":"Ready"}'
    assert len(server.requests) == 1


def test_a_failure_carries_the_report() -> None:
    report = 'result=error|reason=x|"error=a ""b""\n\u00e9 \\"|vm_id=' + ID
    with Server(answer(200)) as server:
        send_failure(config(server.url), report, clock=Ticking(), deadline=1e9)
    assert bodies(server) == [
        {"state": "NotReady", "details": {"subStatus": "ProvisioningFailed", "description": report}}
    ]


def test_text_that_is_no_unicode_still_leaves_the_machine() -> None:
    with Server(answer(200)) as server:
        send_failure(config(server.url), "bad \udcff byte", clock=Ticking(), deadline=1e9)
    assert bodies(server)[0]["details"]["description"] == "bad ? byte"


def test_in_progress_names_the_vm() -> None:
    with Server(answer(200)) as server:
        send_in_progress(config(server.url), ID, clock=Ticking(), deadline=1e9)
    details = bodies(server)[0]["details"]
    assert bodies(server)[0]["state"] == "NotReady"
    assert details["subStatus"] == "Provisioning"
    assert f"vm_id={ID}" in details["description"] and "|" not in details["description"]


@pytest.mark.parametrize("first", [answer(503), answer(500), reset, silence])
def test_in_progress_is_one_try(first: Answer) -> None:
    settings = {"read_timeout_secs": 0.2}
    with Server(first, answer(200)) as server, pytest.raises(VerdictUndelivered):
        send_in_progress(config(server.url, **settings), ID, clock=Ticking(), deadline=1e9)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_every_2xx_is_an_acceptance(status: int) -> None:
    assert told(answer(status)) == [{"state": "Ready"}]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_sent_again(status: int) -> None:
    clock = Ticking()
    assert told(answer(status), answer(201), clock=clock) == [{"state": "Ready"}] * 2
    assert 1.5 <= clock.slept[0] <= 2.0  # the default interval, not a minute


def test_a_broken_connection_is_tried_again() -> None:
    assert told(reset, b"nonsense", answer(201)) == [{"state": "Ready"}] * 3


def test_retry_after_is_kept() -> None:
    clock = Ticking()
    told(answer(503, headers="Retry-After: 7\r\n"), answer(201), clock=clock)
    assert clock.slept == [7.0]


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 405, 410])
def test_what_will_not_pass_is_undelivered_at_once(status: int) -> None:
    clock = Ticking()
    with Server(answer(status)) as server, pytest.raises(VerdictUndelivered, match=f"status {status}") as caught:
        send_ready(config(server.url), clock=clock, deadline=1e9)
    assert len(server.requests) == 1
    assert clock.slept == []
    assert caught.value.exit_code == 75
    assert caught.value.data["endpoint"] == server.url + PATH


def test_nothing_is_tried_beyond_the_deadline() -> None:
    clock = Ticking()
    with Server(answer(503)) as server, pytest.raises(VerdictUndelivered, match=r"status 503 \(\d+ times\)"):
        send_failure(config(server.url), "report", clock=clock, deadline=1060.0)
    assert 1045.0 < clock.at <= 1060.0  # most of what was kept for it is used
    assert len(server.requests) > 5


def test_nothing_is_tried_beyond_the_endpoint_s_own_budget() -> None:
    clock = Ticking()
    with pytest.raises(VerdictUndelivered, match="connection refused"):
        send_ready(config(unused_url()), clock=clock, deadline=1e9)
    assert 2180.0 < clock.at <= 2200.0


def test_an_interval_longer_than_usual_is_kept() -> None:
    clock = Ticking()
    with pytest.raises(VerdictUndelivered):
        send_ready(config(unused_url(), retry_interval_secs=100.0), clock=clock, deadline=1e9)
    assert all(75.0 <= slept <= 100.0 for slept in clock.slept)


def test_an_address_that_is_none_is_undelivered() -> None:
    with pytest.raises(VerdictUndelivered, match="not a plain http:// URL"):
        send_ready(Config(wireserver=Wireserver(health_endpoint="https://host/")), clock=Ticking(), deadline=1e9)
