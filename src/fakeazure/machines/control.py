"""The control socket of a running `container` or `boot`: commands of `fakeazure tell`, one line each."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from fakeazure.platform.imds_changes import NoSuchChange
from fakeazure.platform.machine import Machine

SECONDS = 10.0
OK = "ok"

Command = Callable[[Machine, Sequence[str]], None]  # raises CommandInvalid


class CommandInvalid(Exception):
    """A command that cannot be carried out; the text says why."""


class NotTold(Exception):
    """The command did not reach a running fakeazure, or was refused."""


def change_imds(machine: Machine, words: Sequence[str]) -> None:
    if len(words) != 1:
        raise CommandInvalid("imds takes the name of a change in [[imds.changes]]")
    try:
        machine.changes.call(words[0])
    except NoSuchChange as error:
        raise CommandInvalid(str(error)) from None


def take(machine: Machine, words: Sequence[str]) -> None:
    if words:
        raise CommandInvalid("reuse takes no arguments")
    if not machine.take():
        raise CommandInvalid("the VM is not in a pool, or a customer has it already")


COMMANDS: Mapping[str, Command] = {"imds": change_imds, "reuse": take}


class Control:
    """Listens at a path while the machine runs. Without a path, does nothing."""

    def __init__(self, path: Path | None, machine: Machine) -> None:
        self._path, self._machine = path, machine
        self._socket = socket.socket(socket.AF_UNIX)
        self._stopped, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="fakeazure-control", daemon=True)

    def __enter__(self) -> Self:
        if self._path:
            self._socket.bind(str(self._path))
            self._path.chmod(0o600)
            self._socket.listen()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        if self._path:
            self._thread.join()
            self._path.unlink(missing_ok=True)
        self._stopped.close()
        self._socket.close()

    def _serve(self) -> None:
        while self._stopped not in select.select((self._socket, self._stopped), (), ())[0]:
            with contextlib.suppress(OSError):  # a client that has gone
                connection, _ = self._socket.accept()
                with connection:
                    connection.settimeout(SECONDS)
                    line = connection.makefile("r", encoding="utf-8", errors="replace").readline(4096)
                    connection.sendall(f"{self._carry_out(line.split())}\n".encode())

    def _carry_out(self, words: Sequence[str]) -> str:
        command = COMMANDS.get(words[0]) if words else None
        if command is None:
            return f"there is no such command; the commands are: {', '.join(sorted(COMMANDS))}"
        try:
            command(self._machine, words[1:])
        except CommandInvalid as error:
            return str(error)
        return OK


def tell(path: Path, words: Sequence[str]) -> None:
    """Sends a command to the fakeazure that listens there, and returns when it was accepted."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS)
            client.connect(os.fspath(path))
            client.sendall(f"{' '.join(words)}\n".encode())
            answer = client.makefile("r", encoding="utf-8").readline().strip()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotTold(f"{path}: {reason}: give the file of --control of a running container or boot") from None
    if answer != OK:
        raise NotTold(answer or f"{path}: fakeazure ended before it answered")
