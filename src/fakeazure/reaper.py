"""A place and a command that never outlive us: a small process waits for our end, however it comes, and clears up."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from fakeazure import groups

LINGER_SECS = 10.0  # by then whoever ends the group has done so, or never came to be
ROUNDS = 5  # what is ended may have started more in the meantime
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Workplace:
    """A temporary directory and groups for a command, all gone at the end. Enter it before any thread.

    The process group is there before the command is, held by a process that only waits: whatever joins it is ours to
    end, and its number cannot become anybody else's. What leaves the group, as daemons do, is known by its environment,
    in which the directory is named. Control groups are only named here, for whoever needs and makes them.
    """

    def __init__(self) -> None:
        # Named now and made last, when there is somebody to remove it.
        self.directory = Path(tempfile.gettempdir(), f"fakeazure-{secrets.token_hex(5)}")
        self.control_groups = groups.below_ours(self.directory.name)
        self._read, self._write = os.pipe()
        self.group = self._fork(self._hold_the_group)
        with contextlib.suppress(OSError):
            os.setpgid(self.group, self.group)  # whichever of us comes first
        self._reaper = self._fork(self._clear_up)
        self.directory.mkdir(mode=0o700)

    def __enter__(self) -> Self:
        os.close(self._read)
        # All else that is temporary goes with it.
        self._tempdir, tempfile.tempdir = tempfile.tempdir, str(self.directory)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tempfile.tempdir = self._tempdir
        os.close(self._write)  # from here the reaper does the work; we only see it done
        os.waitpid(self._reaper, 0)
        os.waitpid(self.group, 0)

    def _fork(self, work: Callable[[], None]) -> int:
        child = os.fork()
        if child != 0:
            return child
        try:
            for number in IGNORED:
                signal.signal(number, signal.SIG_IGN)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.close(self._write)
            work()
        finally:
            os._exit(0)

    def _hold_the_group(self) -> None:
        os.setpgid(0, 0)
        self._wait_for_the_end()
        time.sleep(LINGER_SECS)  # the reaper ends the whole group, us with it

    def _clear_up(self) -> None:
        os.setsid()  # Ctrl-C on our terminal is not for this process
        self._wait_for_the_end()
        with contextlib.suppress(OSError):
            os.killpg(self.group, signal.SIGKILL)
        for _ in range(ROUNDS):
            if not (strays := named_in_environment(self.directory)):
                break
            for stray in strays:
                with contextlib.suppress(OSError):
                    os.kill(stray, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        groups.remove(self.control_groups)

    def _wait_for_the_end(self) -> None:
        while os.read(self._read, 4096):
            pass


def named_in_environment(directory: Path) -> list[int]:
    """The processes that were told of it, wherever they have gone since. Of other people's we cannot know."""
    name, found = os.fsencode(directory) + b"/", []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if name in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found
