"""HTTP requests: one request under a Retry policy and an overall deadline.

Plain HTTP/1.1 to a given address: no redirects, no proxy, no bound device. Failed attempts are counted by kind, and the
final error lists them. `connect` lends another connection: run/fetching.py uses TLS, which no boot without customData
loads.
"""

from __future__ import annotations

import os

from azureinit.addresses import parse_url
from azureinit.errors import AzureInitError, HttpFailed, HttpTimeout
from azureinit.machine.sockets import AF_INET, AF_INET6, SOCK_STREAM, gaierror, socket, timeout
from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azureinit.machine import Clock

    Observe = Callable[..., None]
    # Host, port and the seconds that it may take.
    Connect = Callable[[str, int, float], socket]

MAX_HEADERS = 64 * 1024
MAX_RETRY_AFTER = 60.0
SHORTEST_DELAY = 0.05  # seconds; the first delay that grows if a policy starts with 0
TIMED_OUT = (TimeoutError, timeout)  # the same class from Python 3.10 on
TRANSPORT = 0  # the status of an attempt that got no answer
REQUEST_ID = "x-ms-client-request-id"
FINAL_ANSWERS = 5  # that many equal answers in a row, over `Retry.final_secs`, are final


class Retry(Record):
    """`statuses` and attempts without an answer are retried until the deadline.

    Any other status is final: at once, or with `final_secs` after it has come for that long and FINAL_ANSWERS times in
    a row. The same applies to answers that `accept` refuses; without `final_secs` those are retried.
    """

    connect_timeout: float
    request_timeout: float
    total: float
    delay: float
    statuses: frozenset[int] = frozenset()
    growth: float = 1.5
    max_delay: float = 30.0
    attempts: int = 0  # 0: no limit
    final_secs: float | None = None
    at_once: frozenset[int] = frozenset()  # statuses that are final at once, in spite of `final_secs`


class Response(Record):
    status: int
    headers: dict[str, str]
    body: bytes


class _Broken(Exception):
    """An attempt without a complete answer."""


class _ConnectTimeout(TimeoutError):
    """The connection timed out."""


def send(
    method: str,
    url: str,
    *,
    retry: Retry,
    deadline: float,
    clock: Clock,
    headers: Mapping[str, str],
    body: bytes | None = None,
    accept: Callable[[Response], None] | None = None,
    observe: Observe | None = None,
    limit: int = 1 << 20,
    connect: Connect | None = None,
    also: frozenset[int] = frozenset(),
    shown: str = "",
) -> Response:
    """The first usable answer. `accept` raises an AzureInitError for a malformed one, which is then retried.

    Every attempt carries its own request id, which matches this log with the platform's. `connect`: opens the
    connection; an exception of its own kind ends the request. `also`: statuses that are answers besides 2xx.
    `shown`: the URL in messages, where it holds a secret.
    """
    secure = connect is not None and url.startswith("https:")
    host, port, path = parse_url(url, secure=secure)
    usual, shown = 443 if secure else 80, shown or url
    started = clock.monotonic()
    until = min(deadline, started + retry.total)
    tally = _Tally()
    delay, attempt = retry.delay, 0
    while True:
        attempt += 1
        wait = delay * jitter()
        begun = clock.monotonic()
        request_id = _uuid()
        request = _request(method, path, _host_header(host, port, usual), {REQUEST_ID: request_id, **headers}, body)
        told = {"method": method, "url": shown, "attempt": attempt, "request_id": request_id}
        status = TRANSPORT
        try:
            door = connect or open_connection
            response = _attempt(host, port, request, retry=retry, until=until, clock=clock, limit=limit, door=door)
            status = response.status
            failure = _Failure(f"status {status}", status=status)
            if 200 <= status < 300 or status in also:
                if accept is not None:
                    accept(response)
                if observe:
                    observe("http", **told, status=status, seconds=clock.monotonic() - begun)
                return response
            tally.retry_after = _retry_after(response.headers)
            wait = max(wait, min(tally.retry_after, MAX_RETRY_AFTER))
        except (OSError, _Broken) as error:
            failure = _Failure(_in_words(error), cause=error)
        except AzureInitError as error:
            failure = _Failure(str(error), status=status, cause=error)
        now = clock.monotonic()
        tally.add(failure, now)
        if observe:
            observe("http", **told, failure=failure.told, seconds=now - begun)
        final = tally.is_final(retry, now)
        over = now + wait >= until
        if final or over or attempt == retry.attempts:
            kind = HttpTimeout if over and not final else HttpFailed
            raise tally.error(kind, method, shown, now - started, final=final)
        clock.sleep(wait)
        delay = min(max(delay * retry.growth, SHORTEST_DELAY), retry.max_delay)


class _Failure:
    """How one attempt failed: without an answer, with a status, or with an answer that `accept` refused."""

    def __init__(self, told: str, *, status: int = TRANSPORT, cause: Exception | None = None) -> None:
        self.told, self.status, self.cause = told, status, cause
        timed_out = isinstance(cause, TIMED_OUT)
        self.timeout = "connect" if isinstance(cause, _ConnectTimeout) else "read" if timed_out else ""
        reason = cause.reason if isinstance(cause, AzureInitError) else ""
        self.kind = (status, self.timeout, reason)


class _Tally:
    """All failures of a request: how often each occurred, and since when the last kind has repeated."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.kinds: dict[tuple[int, str, str], int] = {}
        self.last: dict[tuple[int, str, str], _Failure] = {}
        self.same: tuple[int, str, str] | None = None
        self.since, self.in_a_row = 0.0, 0
        self.retry_after = 0.0  # of the last answer

    def add(self, failure: _Failure, now: float) -> None:
        self.texts[failure.told] = self.texts.get(failure.told, 0) + 1
        self.kinds[failure.kind] = self.kinds.get(failure.kind, 0) + 1
        self.last[failure.kind] = failure
        if failure.kind != self.same:
            self.same, self.since, self.in_a_row = failure.kind, now, 0
        self.in_a_row += 1

    def is_final(self, retry: Retry, now: float) -> bool:
        status = self.same[0] if self.same else TRANSPORT
        if status == TRANSPORT or status in retry.statuses:
            return False
        if status in retry.at_once:
            return True
        if retry.final_secs is None:
            return not 200 <= status < 300
        return self.in_a_row >= FINAL_ANSWERS and now - self.since >= retry.final_secs

    def error(self, kind: type[HttpFailed], method: str, url: str, seconds: float, *, final: bool) -> HttpFailed:
        """Carries status and cause of the last failure if it was final, otherwise of the most frequent one."""
        told = ", ".join(text if count == 1 else f"{text} ({count} times)" for text, count in self.texts.items())
        chosen = self.last[self.same if final and self.same else max(self.kinds, key=self._weight)]
        error = kind(f"{method} {url} failed for {seconds:.1f} s: {told}", endpoint=url)
        error.status, error.timeout, error.__cause__ = chosen.status, chosen.timeout, chosen.cause
        error.retry_after = self.retry_after
        return error

    def _weight(self, kind: tuple[int, str, str]) -> tuple[int, bool]:
        return self.kinds[kind], kind == self.same


def _host_header(host: str, port: int, usual: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port == usual else f"{name}:{port}"


def _request(method: str, path: str, host: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", "Accept: */*"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def _attempt(
    host: str,
    port: int,
    request: bytes,
    *,
    retry: Retry,
    until: float,
    clock: Clock,
    limit: int,
    door: Connect,
) -> Response:
    ends = min(until, clock.monotonic() + retry.request_timeout)

    def left() -> float:
        seconds = ends - clock.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    try:
        connection = door(host, port, min(retry.connect_timeout, left()))
    except TIMED_OUT:
        raise _ConnectTimeout from None
    try:
        connection.settimeout(left())
        connection.sendall(request)
        return _response(_Stream(connection, left, limit))
    finally:
        connection.close()


def open_connection(host: str, port: int, seconds: float) -> socket:
    # connect() takes an address directly: getaddrinfo would load the idna codec, 3 ms.
    connection = socket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect((host, port))
    except BaseException:
        connection.close()
        raise
    return connection


class _Stream:
    """Received bytes, up to the limit."""

    def __init__(self, connection: socket, left: Callable[[], float], limit: int) -> None:
        self.connection, self.left, self.limit = connection, left, limit
        self.held = bytearray()
        self.taken = 0

    def more(self) -> bool:
        self.connection.settimeout(self.left())
        data = self.connection.recv(1 << 16)
        self.held += data
        self.taken += len(data)
        if self.taken > self.limit + MAX_HEADERS:
            raise _Broken(f"answer larger than {self.limit} bytes")
        return bool(data)

    def until(self, mark: bytes, cap: int) -> bytes:
        while mark not in self.held:
            if len(self.held) > cap:
                raise _Broken("answer has a header that is too long")
            if not self.more():
                raise _Broken("connection closed before the answer was complete")
        found, _, self.held = self.held.partition(mark)
        return bytes(found)

    def exactly(self, length: int) -> bytes:
        if length > self.limit:
            raise _Broken(f"answer larger than {self.limit} bytes")
        while len(self.held) < length:
            if not self.more():
                raise _Broken("connection closed before the answer was complete")
        data = bytes(self.held[:length])
        del self.held[:length]
        return data

    def rest(self) -> bytes:
        while self.more():
            pass
        if len(self.held) > self.limit:
            raise _Broken(f"answer larger than {self.limit} bytes")
        return bytes(self.held)


def _response(stream: _Stream) -> Response:
    status = 100
    headers: dict[str, str] = {}
    while status // 100 == 1:
        status, headers = _head(stream.until(b"\r\n\r\n", MAX_HEADERS).decode("latin-1"))
    # A refusal is known by its status: a broken body must not turn it into a retry.
    body = _body(stream, headers) if status // 100 == 2 and status != 204 else b""
    return Response(status=status, headers=headers, body=body)


def _head(text: str) -> tuple[int, dict[str, str]]:
    first, *lines = text.split("\r\n")
    version, code, *_ = (*first.split(" ", 2), "")
    # isdigit() alone would let superscripts through, which int() refuses.
    if not version.startswith("HTTP/1.") or not (
        code.isascii() and code.isdigit() and len(code) == 3 and code >= "100"
    ):
        raise _Broken("answer is not HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name == "content-length" and headers.get(name, value) != value:
            raise _Broken("answer has two different lengths")
        headers[name] = value
    return int(code), headers


def _body(stream: _Stream, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _chunks(stream)
    length = headers.get("content-length")
    if length is None:
        return stream.rest()
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise _Broken("answer has an invalid length")
    return stream.exactly(int(length))


def _chunks(stream: _Stream) -> bytes:
    body = bytearray()
    while True:
        digits = stream.until(b"\r\n", 1024).partition(b";")[0].strip()
        try:
            size = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise _Broken("answer has a malformed chunk")
        if len(body) + size > stream.limit:
            raise _Broken(f"answer larger than {stream.limit} bytes")
        if size == 0:
            return bytes(body)
        body += stream.exactly(size)
        if stream.exactly(2) != b"\r\n":
            raise _Broken("answer has a malformed chunk")


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0.0


def _uuid() -> str:
    """A random UUID (version 4), without the module `uuid`, which takes milliseconds to load."""
    random = bytearray(os.urandom(16))
    random[6], random[8] = random[6] & 0x0F | 0x40, random[8] & 0x3F | 0x80
    text = random.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def jitter() -> float:
    """A factor from 0.75 to 1: a pause is never longer than the policy's delay."""
    return 0.75 + os.urandom(1)[0] / 1020


def _in_words(error: Exception) -> str:
    if isinstance(error, TIMED_OUT):
        return "connection timed out" if isinstance(error, _ConnectTimeout) else "timed out"
    if isinstance(error, gaierror):
        return "not an address"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
