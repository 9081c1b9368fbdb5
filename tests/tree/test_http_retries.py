"""Which requests are sent again, when, and until when."""

from __future__ import annotations

import os

import pytest

from azureinit.errors import HttpFailed, HttpTimeout, ImdsInvalid
from azureinit.http import Response, send
from azureinit.record import replace
from support.http_requests import ONCE, RETRY, ask, body_of, refused
from support.wire import Server, Ticking, answer, reset, unused_url


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_status_of_the_policy_is_asked_again(status: int) -> None:
    with Server(answer(status), answer(body=b"now")) as server:
        assert ask(server).body == b"now"
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [301, 302, 304, 307, 400, 401, 403, 404, 405, 418, 501])
def test_any_other_status_fails_at_once(status: int) -> None:
    redirect = "Location: http://127.0.0.1:1/\r\n"
    with Server(answer(status, headers=redirect)) as server, pytest.raises(HttpFailed, match="status") as caught:
        ask(server)
    assert caught.value.status == status
    assert not isinstance(caught.value, HttpTimeout)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 201, 202, 206, 299])
def test_every_2xx_is_a_success(status: int) -> None:
    with Server(answer(status, b"yes")) as server:
        response = ask(server)
    assert (response.status, response.body) == (status, b"yes")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\ncut",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
    ],
)
def test_a_refusal_counts_whatever_became_of_its_body(said: bytes) -> None:
    with Server(said) as server, pytest.raises(HttpFailed) as caught:
        ask(server)
    assert caught.value.status == 403
    assert len(server.requests) == 1


def test_delays_grow_with_jitter_up_to_their_limit_and_stay_inside_the_budget() -> None:
    clock = Ticking()
    with Server(answer(503)) as server, pytest.raises(HttpTimeout, match=r"status 503 \(\d+ times\)"):
        ask(server, clock=clock, retry=replace(RETRY, total=100.0, max_delay=8.0))
    expected = [min(1.5**number, 8.0) for number in range(len(clock.slept))]
    assert len(expected) > 8
    assert all(0.75 * full <= slept <= full for slept, full in zip(clock.slept, expected))
    assert len({slept / full for slept, full in zip(clock.slept, expected)}) > 1
    assert 1080.0 < clock.at <= 1100.0
    assert len(server.requests) == len(clock.slept) + 1


def test_a_policy_without_a_delay_still_slows_down() -> None:
    clock = Ticking()
    with Server(answer(503)) as server, pytest.raises(HttpTimeout):
        ask(server, clock=clock, retry=replace(RETRY, delay=0.0, total=30.0))
    assert clock.slept[0] == 0.0
    assert clock.slept[-1] > 1.0
    assert len(server.requests) < 50


def test_retry_after_is_waited_for_in_full() -> None:
    clock = Ticking()
    with Server(
        answer(503, headers="Retry-After: 20\r\n"), answer(429, headers="Retry-After: 0\r\n"), answer()
    ) as server:
        ask(server, clock=clock)
    assert clock.slept[0] == 20.0
    assert 0.0 < clock.slept[1] <= 1.5


@pytest.mark.parametrize("told", ["soon", "-5", "Fri, 31 Dec 1999 23:59:59 GMT", "\xb2", "1e3", "9" * 5000, ""])
def test_a_retry_after_that_is_no_number_is_passed_over(told: str) -> None:
    clock = Ticking()
    with Server(answer(503, headers=f"Retry-After: {told}\r\n".encode().decode("latin-1")), answer()) as server:
        ask(server, clock=clock)
    assert clock.slept[0] <= 1.0


def test_an_absurd_retry_after_is_capped() -> None:
    clock = Ticking()
    with Server(answer(503, headers="Retry-After: 86400\r\n"), answer()) as server:
        ask(server, clock=clock, retry=replace(RETRY, total=300.0))
    assert clock.slept == [60.0]


def test_a_retry_after_beyond_the_deadline_ends_it_now() -> None:
    clock = Ticking()
    with Server(answer(503, headers="Retry-After: 30\r\n")) as server, pytest.raises(HttpTimeout):
        ask(server, clock=clock, deadline=1020.0)
    assert clock.slept == []


def test_the_deadline_outranks_the_policy_s_own_budget() -> None:
    clock = Ticking()
    with pytest.raises(HttpTimeout):
        ask(unused_url(), clock=clock, deadline=1010.0, retry=replace(RETRY, total=500.0))
    assert clock.at <= 1010.0


def test_after_the_deadline_nobody_is_asked() -> None:
    with Server(answer()) as server, pytest.raises(HttpTimeout, match="timed out"):
        ask(server, clock=Ticking(), deadline=999.0)
    assert server.requests == []


def test_attempts_are_counted() -> None:
    with Server(answer(503)) as server, pytest.raises(HttpFailed, match=r"status 503 \(3 times\)") as caught:
        ask(server, retry=replace(RETRY, attempts=3))
    assert len(server.requests) == 3
    assert not isinstance(caught.value, HttpTimeout)


def test_a_malformed_body_is_asked_for_again_after_the_same_delay() -> None:
    clock = Ticking()

    def accept(response: Response) -> None:
        if response.body != b"good":
            raise ImdsInvalid("not good")

    with Server(answer(body=b"bad"), answer(body=b"worse"), answer(body=b"good")) as server:
        response = send("GET", server.url, retry=RETRY, deadline=1e9, clock=clock, headers={}, accept=accept)
    assert response.body == b"good"
    assert len(clock.slept) == 2
    assert all(0.75 * full <= slept <= full for slept, full in zip(clock.slept, (1.0, 1.5)))


def test_every_kind_of_failure_is_told_with_its_count() -> None:
    with (
        Server(answer(503), reset, answer(500), answer(503), answer(404)) as server,
        pytest.raises(HttpFailed) as caught,
    ):
        ask(server)
    assert str(caught.value).endswith("status 503 (2 times), connection reset by peer, status 500, status 404")
    assert caught.value.__cause__ is None  # the reset was not what ended it


def test_each_attempt_is_observed() -> None:
    told: list[dict[str, object]] = []
    with Server(answer(503), answer(201)) as server:
        ask(server, told=told)
    assert [(each["attempt"], each.get("failure"), each.get("status")) for each in told] == [
        (1, "status 503", None),
        (2, None, 201),
    ]


def test_no_file_stays_open_after_success_or_failure() -> None:
    nobody = unused_url()
    before = set(os.listdir("/proc/self/fd"))
    body_of(answer(body=b"x"))
    refused(b"nonsense")
    with pytest.raises(HttpFailed):
        ask(nobody, retry=ONCE)
    assert set(os.listdir("/proc/self/fd")) == before
