"""A running QEMU: its CD drive, its console, and power off."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fakeazure.machines.console import last_lines
from fakeazure.machines.qemu import CD_DRIVE, PROGRAM, CannotBoot, dies_with_parent
from fakeazure.machines.qmp import Monitor, MonitorLost

START_SECS = 30.0
REPEAT_SECS = 5.0
POLL_SECS = 0.05
HALT_SECS = 60.0  # an emulated machine shuts down slowly
PANIC = b"Kernel panic - not syncing"
POWERED_OFF, PANICKED = "powered itself off", "panicked"


class QemuProcess:
    def __init__(self, command: Sequence[str], *, directory: Path, console: Path, group: int, medium: Path) -> None:
        """`medium`: the medium's file, which exists while the disc is inserted. `group`: the process group to join."""
        self._console, self._medium = console, medium
        self._log = directory / "qemu.log"
        self._full = medium.exists()
        self._start = self._seen = (
            console.stat().st_size if console.exists() else 0
        )  # the part before is of an earlier boot
        self._panicked = False
        self._monitor = Monitor(directory / "monitor")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*dies_with_parent(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=group
            )

    def __enter__(self) -> Self:
        """Returns when QEMU runs and its monitor answers."""
        if not self._is_on():
            self.__exit__(None, None, None)
            lines = self._log.read_text(errors="replace").strip().splitlines() or ["no message"]
            raise CannotBoot(f"QEMU did not start: {lines[0].removeprefix(f'{PROGRAM}: ')}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._monitor.close()

    def _is_on(self) -> bool:
        until = time.monotonic() + START_SECS
        with contextlib.suppress(MonitorLost):
            while self._process.poll() is None and time.monotonic() < until:
                if self._monitor.accept(seconds=0.1):
                    return True
        return False

    def update_drive(self) -> None:
        """Inserts or ejects the disc, as the platform has done with the medium's file."""
        there = self._medium.exists()
        if there == self._full:
            return
        self._full = there
        with contextlib.suppress(MonitorLost):  # QEMU has ended
            if there:
                self._monitor.insert(CD_DRIVE, self._medium)
            else:
                self._monitor.empty(CD_DRIVE)

    def set_carrier(self, card: str, *, up: bool) -> None:
        self._monitor.ask("set_link", name=card, up=up)

    def unplug(self, device: str, *, seconds: float) -> bool:
        """The guest takes part in it. False: the device is still there after this time."""
        until, again = time.monotonic() + seconds, 0.0
        while device in self._monitor.devices():
            if time.monotonic() > until:
                return False
            if time.monotonic() > again:
                with contextlib.suppress(MonitorLost):  # it is being unplugged already
                    self._monitor.ask("device_del", id=device)
                again = time.monotonic() + REPEAT_SECS
            time.sleep(POLL_SECS)
        return True

    def plug(self, properties: Mapping[str, str]) -> None:
        self._monitor.ask("device_add", **properties)

    def disc(self) -> str | None:
        """The image in the drive, as QEMU reports it."""
        (drive,) = (one for one in self._monitor.ask("query-block") if one["qdev"] == CD_DRIVE)
        return drive["inserted"]["file"] if "inserted" in drive else None

    def ended(self) -> str:
        """How the machine ended; empty: it is running."""
        if self._process.poll() is not None:
            return POWERED_OFF
        return PANICKED if self._has_panicked() else ""

    def _has_panicked(self) -> bool:
        with contextlib.suppress(OSError), self._console.open("rb") as console:
            console.seek(max(self._start, self._seen - len(PANIC)))
            self._panicked = self._panicked or PANIC in console.read()
            self._seen = console.tell()
        return self._panicked

    def power_off(self, *, hurried: Callable[[], bool] = lambda: False) -> None:
        """ACPI power off first, so that file systems are clean; then quit QEMU, at once if `hurried`."""
        until = time.monotonic() + HALT_SECS
        with contextlib.suppress(MonitorLost):
            while not (self.ended() or hurried()) and time.monotonic() < until:
                self._monitor.ask("system_powerdown")  # repeated: a machine that is still booting ignores it
                self._wait(REPEAT_SECS, hurried=hurried)
            if self._process.poll() is None:
                self._monitor.ask("quit")
        self._wait(START_SECS)

    def _wait(self, seconds: float, *, hurried: Callable[[], bool] = lambda: False) -> None:
        until = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < until and not hurried():
            time.sleep(POLL_SECS)

    def last_lines(self) -> list[str]:
        return last_lines(self._console)
