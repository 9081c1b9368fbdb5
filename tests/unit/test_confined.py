"""This floor's guard: every way to start a process or to open a socket is refused, also from C and from threads."""

from __future__ import annotations

import _socket
import os
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azureinit.machine import Machine
from support.confined import GUARD, Forbidden

TRUE = "/bin/true"
WAYS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.run([TRUE], check=False),
    "posix_spawn": lambda: os.posix_spawn(TRUE, [TRUE], {}),
    "fork": os.fork,
    "system": lambda: os.system(TRUE),
    "popen": lambda: os.popen(TRUE),
    "spawn": lambda: os.spawnv(os.P_WAIT, TRUE, [TRUE]),
    "exec": lambda: os.execv(TRUE, [TRUE]),
    "socket": socket.socket,
    "socket of C": _socket.socket,
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "name": lambda: socket.getaddrinfo("localhost", 80),
    "urllib": lambda: urllib.request.urlopen("http://127.0.0.1:9/"),
    "the agent's programs": lambda: Machine().run((TRUE,), timeout=5.0),
}


@pytest.fixture(autouse=True)
def confined() -> Iterator[None]:
    """In place of the directory's: attempts are what these tests are about."""
    yield
    assert len(GUARD.attempts) == 1


@pytest.mark.parametrize("way", sorted(WAYS))
def test_is_refused(way: str) -> None:
    with pytest.raises(Forbidden, match="starts no process and opens no socket"):
        WAYS[way]()


def test_a_thread_of_the_test_is_refused_too() -> None:
    raised: list[type[Forbidden]] = []

    def work() -> None:
        try:
            socket.socket()
        except Forbidden as error:
            raised.append(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised == [Forbidden]


def test_outside_of_a_test_everything_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(Forbidden):
        socket.socket()
    GUARD.on = False
    try:
        socket.socket().close()
    finally:
        GUARD.on = True
