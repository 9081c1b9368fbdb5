"""QMP, the monitor protocol of QEMU: CD drive, network cards and power."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

ANSWER_SECS = 30.0
LONGEST = 107  # bytes in the path of a socket


class NoMonitor(Exception):
    """The monitor's socket cannot be created; the text says why and what to do."""


class MonitorLost(Exception):
    """QEMU does not answer, or refuses a command."""


class Monitor:
    """Listens; QEMU connects when it starts."""

    def __init__(self, path: Path) -> None:
        if len(os.fsencode(path)) > LONGEST:
            raise NoMonitor(f"{path} is too long for a socket: use a shorter directory, as TMPDIR=/var/tmp")
        path.unlink(missing_ok=True)  # of an earlier boot
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._socket: socket.socket | None = None
        self._waiting = b""
        self._lock = threading.Lock()  # the drive and the network cards are changed by two threads

    def close(self) -> None:
        self._listener.close()
        if self._socket:
            self._socket.close()

    def accept(self, *, seconds: float) -> bool:
        """False: QEMU has not connected in time; may be called again."""
        self._listener.settimeout(seconds)
        try:
            self._socket, _ = self._listener.accept()
        except TimeoutError:
            return False
        self._receive(until=time.monotonic() + ANSWER_SECS)  # its greeting
        self.ask("qmp_capabilities")
        return True

    def ask(self, order: str, **arguments: Any) -> Any:
        with self._lock:
            return self._ask(order, arguments)

    def _ask(self, order: str, arguments: dict[str, Any]) -> Any:
        if self._socket is None:
            raise MonitorLost("QEMU has not connected")
        try:
            self._socket.sendall(json.dumps({"execute": order, "arguments": arguments}).encode() + b"\n")
        except OSError as error:
            raise MonitorLost(f"{order}: {error.strerror}") from None
        until = time.monotonic() + ANSWER_SECS
        while True:
            message = self._receive(until=until)
            if message is None:
                raise MonitorLost(f"{order}: no answer")
            if "error" in message:
                raise MonitorLost(f"{order}: {message['error'].get('desc')}")
            if "return" in message:  # and not an event
                return message["return"]

    def insert(self, drive: str, image: Path) -> None:
        self.ask("blockdev-change-medium", id=drive, filename=str(image), format="raw", force=True)

    def empty(self, drive: str) -> None:
        """Ejects the disc, even if the guest has locked the drive or opened the tray."""
        self.ask("blockdev-open-tray", id=drive, force=True)
        with contextlib.suppress(MonitorLost):  # the drive was empty
            self.ask("blockdev-remove-medium", id=drive)
        self.ask("blockdev-close-tray", id=drive)

    def devices(self) -> list[str]:
        """The ids of the devices that have one."""
        return [one["name"] for one in self.ask("qom-list", path="/machine/peripheral")]

    def _receive(self, *, until: float) -> dict[str, Any] | None:
        assert self._socket is not None
        while b"\n" not in self._waiting:
            self._socket.settimeout(max(0.001, until - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return None
            except OSError:
                data = b""
            if not data:
                raise MonitorLost("QEMU has ended")
            self._waiting += data
        line, _, self._waiting = self._waiting.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
