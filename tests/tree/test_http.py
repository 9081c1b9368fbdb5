"""http.py with servers that send exactly the given bytes."""

from __future__ import annotations

import re
import socket
import threading
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from azureinit.addresses import parse_url
from azureinit.errors import HttpFailed, HttpTimeout, ImdsInvalid
from azureinit.http import FINAL_ANSWERS, MAX_HEADERS, Response, send
from azureinit.machine import Clock
from azureinit.record import replace
from support.http_requests import ONCE, RETRY, ask, body_of, refused
from support.need import unfit
from support.wire import Answer, Server, Ticking, answer, reset, silence, unused_url

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
