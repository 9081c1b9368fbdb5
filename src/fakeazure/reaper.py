"""A place and a command that never outlive us: a small process waits for our end, however it comes, and clears up."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self


class Workplace:
    """A temporary directory, and the process group of a command, both gone at the end. Enter it before any thread."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fakeazure-"))
        self._read, self._write = os.pipe()
        self._reaper = os.fork()
        if self._reaper == 0:
            self._wait_for_the_end()

    def owns(self, group: int) -> None:
        os.write(self._write, f"{group}\n".encode())

    def disowns_all(self) -> None:
        os.write(self._write, b"none\n")

    def __enter__(self) -> Self:
        os.close(self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)  # from here the reaper does the work; we only see it done
        os.waitpid(self._reaper, 0)

    def _wait_for_the_end(self) -> None:
        try:
            os.setsid()  # Ctrl-C on our terminal is not for this process
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.close(self._write)
            told = b""
            while data := os.read(self._read, 4096):
                told += data
            last = told.split()[-1:]
            if last and last[0].isdigit():
                with contextlib.suppress(OSError):
                    os.killpg(int(last[0]), signal.SIGKILL)
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            os._exit(0)
