"""For tests of the network: a server that sends exactly the given bytes, and a clock that the test controls."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Union

from azureinit.machine import Clock

Answer = Union[bytes, Callable[[socket.socket], None]]


class Ticking(Clock):
    """Time passes only in `sleep`. Sockets use the real time."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.at

    def now(self) -> float:
        return 1_700_000_000.0 + self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def wait(self, ready: Callable[[float], Any], seconds: float) -> Any:
        return ready(max(0.0, seconds))


class Server:
    """A thread that gives each connection the next of its answers, and every later one the last of them."""

    def __init__(self, *answers: Answer, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.listening = socket.socket(family, socket.SOCK_STREAM)
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        try:
            self.listening.bind((host, 0))
        except OSError:
            self.listening.close()
            raise
        self.listening.listen(16)
        self.address = f"{f'[{host}]' if ':' in host else host}:{self.listening.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self) -> Server:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listening.close()
        self.thread.join(10)
        assert not self.thread.is_alive()

    def serve(self) -> None:
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                try:
                    request = read_request(connection)
                    if not request:
                        continue  # the client's time was over when it had connected
                    self.requests.append(request)
                    answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                    if isinstance(answer, bytes):
                        connection.sendall(answer)
                    else:
                        answer(connection)
                except OSError:
                    pass  # the client has closed the connection


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(1 << 16)
        if not more:
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0].partition(b":")[2]):
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def answer(status: int = 200, body: bytes = b"", *, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} Something\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def silence(connection: socket.socket) -> None:
    """Sends nothing until the client disconnects."""
    connection.recv(1)


HELD: list[socket.socket] = []


def unused_url() -> str:
    """An address that refuses connections. The port stays reserved, so that no other test's server gets it."""
    HELD.append(socket.socket())
    HELD[-1].bind(("127.0.0.1", 0))
    return f"http://127.0.0.1:{HELD[-1].getsockname()[1]}"
