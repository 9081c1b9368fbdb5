"""http.py with servers that send exactly the given bytes."""

from __future__ import annotations

import os
import re
import socket
import threading
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.addresses import parse_url
from azureinit.errors import HttpFailed, HttpTimeout, ImdsInvalid
from azureinit.http import FINAL_ANSWERS, MAX_HEADERS, Response, Retry, send
from azureinit.machine import Clock
from azureinit.record import replace
from support.need import unfit
from support.wire import Answer, Server, Ticking, answer, reset, silence, unused_url

RETRY = Retry(connect_timeout=5.0, request_timeout=5.0, total=60.0, delay=1.0, statuses=frozenset((429, 500, 503)))
ONCE = replace(RETRY, attempts=1)


def ask(
    server: Server | str,
    *,
    retry: Retry = RETRY,
    clock: Clock | None = None,
    deadline: float = 1e9,
    limit: int = 1 << 20,
    told: list[dict[str, object]] | None = None,
) -> Response:
    return send(
        "GET",
        (server if isinstance(server, str) else server.url) + "/x?y=z",
        retry=retry,
        deadline=deadline,
        clock=clock or Ticking(),
        headers={"Metadata": "true"},
        limit=limit,
        observe=None if told is None else lambda _name, **fields: told.append(fields),
    )


def body_of(*answers: Answer) -> bytes:
    with Server(*answers) as server:
        return ask(server, retry=ONCE).body


def refused(*answers: Answer, limit: int = 1 << 20) -> str:
    """Why the one attempt failed."""
    with Server(*answers) as server, pytest.raises(HttpFailed) as caught:
        ask(server, retry=ONCE, limit=limit)
    assert not isinstance(caught.value, HttpTimeout)
    return str(caught.value).partition(" s: ")[2]


# ---- what is asked


def test_the_request_is_one_whole_message_that_closes_the_connection() -> None:
    with Server(answer()) as server:
        ask(server)
    (request,) = server.requests
    head, request_id, tail = re.split(rb"(?<=x-ms-client-request-id: )(\S+)", request)
    assert (head, tail) == (
        b"GET /x?y=z HTTP/1.1\r\nHost: " + server.address.encode() + b"\r\n"
        b"Connection: close\r\nAccept: */*\r\nx-ms-client-request-id: ",
        b"\r\nMetadata: true\r\n\r\n",
    )
    assert str(uuid.UUID(request_id.decode())) == request_id.decode()


def test_a_body_is_sent_with_its_length() -> None:
    with Server(answer()) as server:
        send("POST", server.url, retry=RETRY, deadline=1e9, clock=Ticking(), headers={}, body=b"\xc3\xa9" * 100_000)
    assert server.requests[0].startswith(b"POST / HTTP/1.1\r\n")
    assert b"\r\nContent-Length: 200000\r\n\r\n\xc3\xa9" in server.requests[0]


def test_an_ipv6_literal_is_asked() -> None:
    try:
        server = Server(answer(body=b"six"), family=socket.AF_INET6)
    except OSError:
        unfit("this machine has no IPv6 loopback")
    with server:
        assert ask(server).body == b"six"
    assert f"\r\nHost: {server.address}\r\n".encode() in server.requests[0]


def test_the_environment_s_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, unused_url())
    assert body_of(answer(body=b"direct")) == b"direct"


# ---- what is understood


def test_a_body_of_a_given_length_ends_there() -> None:
    assert body_of(answer(body=b"hello") + b"and more") == b"hello"


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    assert body_of(b"HTTP/1.1 200 OK\r\n\r\nuntil the end") == b"until the end"


def test_http_1_0_is_understood() -> None:
    assert body_of(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nold") == b"old"


def test_a_status_line_needs_no_words() -> None:
    assert body_of(b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok") == b"ok"


def test_a_204_has_no_body_and_is_not_waited_for() -> None:
    def no_content(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        silence(connection)

    assert body_of(no_content) == b""


def test_chunks_are_put_together_whatever_their_extensions_and_trailers() -> None:
    chunks = b"4;name=value\r\nwiki\r\n5\r\npedia\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    assert body_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" + chunks) == b"wikipedia0123456789"


def test_chunks_that_come_byte_by_byte_are_put_together() -> None:
    def drip(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":
            connection.sendall(bytes((byte,)))

    assert body_of(drip) == b"abc"


def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    assert body_of(interim + answer(body=b"final")) == b"final"


def test_header_names_are_found_whatever_their_case() -> None:
    assert body_of(b"HTTP/1.1 200 OK\r\ncONTENT-lENGTH:  3  \r\n\r\nabcd") == b"abc"


def test_a_length_told_twice_alike_is_a_length() -> None:
    assert body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc") == b"abc"


# ---- what is broken


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "connection closed before the answer was complete"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "connection closed before the answer was complete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "connection closed before the answer was complete"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/1.1\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/1.1 20\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/1.1 000 OK\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/1.1 -20 OK\r\n\r\n", "answer is not HTTP"),
        ("HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n".encode("latin-1"), "answer is not HTTP"),
        (b"\x00\xff\xfe\r\n\r\n", "answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "answer has two different lengths"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "answer has an invalid length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n", "answer has an invalid length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "answer has an invalid length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "answer has an invalid length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n", "answer larger than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "answer has a malformed chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", "answer has a malformed chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n", "answer has a malformed chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n", "answer has a malformed chunk"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 100 + b"\r\n",
            "answer larger than 1048576 bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
            "connection closed before the answer was complete",
        ),
    ],
)
def test_a_broken_answer_is_told_by_what_is_wrong_with_it(said: bytes, why: str) -> None:
    assert refused(said) == why


def flood(piece: bytes, sent: list[int] | None = None) -> Answer:
    def pour(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1000):
            connection.sendall(piece)
            if sent is not None:
                sent.append(len(piece))

    return pour


def test_a_flood_of_headers_is_cut_off() -> None:
    assert refused(flood(b"X-Again: and again\r\n" * 1000)) == "answer has a header that is too long"


def test_a_flood_of_interim_answers_is_cut_off() -> None:
    assert refused(flood(b"\r\nHTTP/1.1 100 Continue\r\n" * 4000)) == "answer larger than 1048576 bytes"


def test_an_endless_body_is_cut_off() -> None:
    sent: list[int] = []
    assert refused(flood(b"\r\n" + b"x" * 100_000, sent)) == "answer larger than 1048576 bytes"
    assert sum(sent) < 50_000_000


def test_an_endless_row_of_chunks_is_cut_off() -> None:
    chunk = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert refused(head + chunk * 100) == "answer larger than 1048576 bytes"


def test_the_cap_is_on_the_body_to_the_byte() -> None:
    with Server(answer(body=b"x" * 1000)) as server:
        assert len(ask(server, limit=1000).body) == 1000
    assert refused(answer(body=b"x" * 1001), limit=1000) == "answer larger than 1000 bytes"
    assert refused(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001, limit=1000) == "answer larger than 1000 bytes"
    assert MAX_HEADERS > 1001  # so that the last one was not merely cut off while reading


def test_a_slow_drip_is_bounded_by_the_timeout_of_the_whole_attempt() -> None:
    dripped: list[int] = []
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for number in range(1000):
            connection.sendall(b"x")
            dripped.append(number)
            if stop.wait(0.02):
                return

    with Server(drip) as server:
        with pytest.raises(HttpFailed, match="timed out"):
            ask(server, retry=replace(ONCE, request_timeout=2.0), clock=Clock())
        stop.set()
    assert 0 < len(dripped) < 1000


def test_a_server_that_never_answers_times_out_and_is_asked_again() -> None:
    with Server(silence, answer(body=b"late")) as server:
        assert ask(server, retry=replace(RETRY, request_timeout=2.0), clock=Ticking()).body == b"late"
    assert len(server.requests) == 2


def test_a_reset_is_told_and_asked_again() -> None:
    with Server(reset, answer(body=b"well")) as server:
        told: list[dict[str, object]] = []
        assert ask(server, told=told).body == b"well"
    assert told[0]["failure"] == "connection reset by peer"


def test_a_refused_connection_is_retried_until_the_budget_is_gone() -> None:
    clock = Ticking()
    with pytest.raises(HttpTimeout, match=r"connection refused \(\d+ times\)") as caught:
        ask(unused_url(), clock=clock)
    assert caught.value.status == 0
    assert clock.at <= 1060.0


def test_a_name_nobody_knows_is_told_as_such() -> None:
    with pytest.raises(HttpFailed, match="not an address"):
        ask("http://no-such-host.invalid", retry=ONCE)


# ---- what is tried again, and when


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


# ---- addresses


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://169.254.169.254", ("169.254.169.254", 80, "/")),
        ("http://host/", ("host", 80, "/")),
        ("http://host:8080/a/b?c=d:e", ("host", 8080, "/a/b?c=d:e")),
        ("http://[fe80::1]/x", ("fe80::1", 80, "/x")),
        ("http://[::1]:81/x", ("::1", 81, "/x")),
    ],
)
def test_plain_addresses_are_understood(url: str, parts: tuple[str, int, str]) -> None:
    assert parse_url(url) == parts


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http:///path",
        "https://host",
        "HTTP//host",
        "host:80",
        "ftp://host/",
        "http://user@host/",
        "http://user:password@host/",
        "http://host:/",
        "http://host:0/",
        "http://host:65536/",
        "http://host:-1/",
        "http://host:1e3/",
        "http://host:\xb2/",
        "http://host:" + "1" * 5000,
        "http://host:80:80/",
        "http://[::1]x80/",
        "http://[::1]:/",
        "http://[]/",
        "http://host?query",
        "http://host#fragment",
        "http://host/a b",
        "http://host/\r\nX-Injected: yes",
        "http://host/\0",
        "http://b\xfccher.example/",
        "http:// /",
    ],
)
def test_any_other_address_is_an_error_at_once(url: str) -> None:
    with pytest.raises(HttpFailed, match="not a plain http:// URL"):
        parse_url(url)
    with pytest.raises(HttpFailed, match="not a plain http:// URL"):
        ask(url, retry=ONCE)


KINDS: dict[str, tuple[Answer, bool]] = {
    "403": (answer(403), True),
    "405": (answer(405), True),
    "503": (answer(503), False),
    "malformed": (answer(body=b"bad"), True),
    "reset": (reset, False),
    "good": (answer(body=b"good"), False),
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=24))
def test_an_answer_is_final_after_five_of_a_kind_and_never_before(kinds: list[str]) -> None:
    def accept(response: Response) -> None:
        if response.body != b"good":
            raise ImdsInvalid("malformed")

    expected, asked, row = "good", 0, 0
    for number, kind in enumerate((*kinds, "good")):
        row = row + 1 if number and kind == kinds[number - 1] else 1
        if kind == "good" or (row == FINAL_ANSWERS and KINDS[kind][1]):
            expected, asked = kind, number + 1
            break
    policy = replace(RETRY, total=1e6, final_secs=0.0)
    with Server(*(KINDS[kind][0] for kind in kinds), KINDS["good"][0]) as server:
        try:
            got = send(
                "GET", server.url, retry=policy, deadline=1e9, clock=Ticking(), headers={}, accept=accept
            ).body.decode()
        except HttpFailed as error:
            assert not isinstance(error, HttpTimeout)
            got = "malformed" if error.status == 200 else str(error.status)
            assert isinstance(error.__cause__, ImdsInvalid) == (got == "malformed")
    assert (got, len(server.requests)) == (expected, asked)


@given(st.text())
def test_no_text_is_worse_than_a_wrong_address(text: str) -> None:
    for url in (text, "http://" + text, "http://host:" + text):
        try:
            host, port, path = parse_url(url)
        except HttpFailed:
            continue
        assert host and 0 < port < 65536 and path.startswith("/") and "\r" not in path


@given(st.binary(max_size=400), st.booleans())
def test_no_answer_is_worse_than_a_failed_request(noise: bytes, started: bool) -> None:
    with Server((b"HTTP/1.1 200 OK\r\n" if started else b"") + noise) as server:
        try:
            assert isinstance(ask(server, retry=ONCE), Response)
        except HttpFailed:
            pass
