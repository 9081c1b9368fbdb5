"""A machine under QEMU, from power on to power off: its drive follows the platform's medium, its console is kept."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fakeazure.console import last_lines
from fakeazure.qemu import CD_DRIVE, PROGRAM, CannotBoot, tied_to_us
from fakeazure.qmp import Monitor, MonitorLost

START_SECS = 30.0
PUSH_SECS = 5.0
LOOK_SECS = 0.05
HALT_SECS = 60.0  # an emulated machine takes its time to end what it runs
PANIC = b"Kernel panic - not syncing"
POWERED_OFF, PANICKED = "powered itself off", "panicked"


class Guest:
    def __init__(self, command: Sequence[str], *, directory: Path, console: Path, group: int, medium: Path) -> None:
        """`medium`: where the platform's disc lies while there is one. `group`: the process group that ends with us."""
        self._console, self._medium = console, medium
        self._log = directory / "qemu.log"
        self._full = medium.exists()
        self._start = self._seen = console.stat().st_size if console.exists() else 0  # before it: an earlier boot's
        self._panicked = False
        self._monitor = Monitor(directory / "monitor")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*tied_to_us(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=group
            )

    def __enter__(self) -> Self:
        """Returns when the machine is on."""
        if not self._is_on():
            self.__exit__(None, None, None)
            said = self._log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise CannotBoot(f"QEMU did not start: {said[0].removeprefix(f'{PROGRAM}: ')}")
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

    def follow_medium(self) -> None:
        """In the drive is what the platform has there now: a disc, or none."""
        there = self._medium.exists()
        if there == self._full:
            return
        self._full = there
        with contextlib.suppress(MonitorLost):  # it is off, and has no drive any more
            if there:
                self._monitor.insert(CD_DRIVE, self._medium)
            else:
                self._monitor.empty(CD_DRIVE)

    def disc(self) -> str | None:
        """What lies in the drive, as QEMU says."""
        (drive,) = (one for one in self._monitor.ask("query-block") if one["qdev"] == CD_DRIVE)
        return drive["inserted"]["file"] if "inserted" in drive else None

    def ended(self) -> str:
        """How it came to its end; empty: it is running."""
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
        """Politely, so that its disks are whole; then by the switch, and at once where somebody cannot wait."""
        until = time.monotonic() + HALT_SECS
        with contextlib.suppress(MonitorLost):
            while not (self.ended() or hurried()) and time.monotonic() < until:
                self._monitor.ask("system_powerdown")  # again: a machine that is still starting does not hear it
                self._wait(PUSH_SECS, hurried=hurried)
            if self._process.poll() is None:
                self._monitor.ask("quit")
        self._wait(START_SECS)

    def _wait(self, seconds: float, *, hurried: Callable[[], bool] = lambda: False) -> None:
        until = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < until and not hurried():
            time.sleep(LOOK_SECS)

    def last_lines(self) -> list[str]:
        """Of its console."""
        return last_lines(self._console)
