"""A temporary directory and process groups that are always cleaned up, even when fakeazure is killed."""

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

from fakeazure.machines import cgroups

LINGER_SECS = 10.0  # the cleaner kills the group within this time
ROUNDS = 5  # a killed process may have started others in the meantime
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Workspace:
    """A temporary directory, a process group and names for control groups. Enter it before any thread starts.

    Two children are forked. The first only holds the process group, so that its number exists before the command
    starts and cannot be reused. The second waits for the end of this process, however it ends, and cleans up: it kills
    the group, removes the directory and the control groups. Daemons that left the group are found by their environment,
    which names the directory.
    """

    def __init__(self) -> None:
        # The name is chosen now; the directory is created last, when the cleaner exists.
        self.directory = Path(tempfile.gettempdir(), f"fakeazure-{secrets.token_hex(5)}")
        self.control_groups = cgroups.below_ours(self.directory.name)
        self._read, self._write = os.pipe()
        self.group = self._fork(self._hold_group)
        with contextlib.suppress(OSError):
            os.setpgid(self.group, self.group)  # in parent and child: either may run first
        self._cleaner = self._fork(self._clean_up)
        self.directory.mkdir(mode=0o700)

    def __enter__(self) -> Self:
        os.close(self._read)
        # Other temporary files are created in the directory and removed with it.
        self._tempdir, tempfile.tempdir = tempfile.tempdir, str(self.directory)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tempfile.tempdir = self._tempdir
        os.close(self._write)  # starts the cleaner
        os.waitpid(self._cleaner, 0)
        os.waitpid(self.group, 0)

    def _fork(self, work: Callable[[], None]) -> int:
        child = os.fork()
        if child != 0:
            return child
        try:
            for number in IGNORED:
                signal.signal(number, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os.close(self._write)
            work()
        finally:
            os._exit(0)

    def _hold_group(self) -> None:
        os.setpgid(0, 0)
        self._wait_for_parent()
        time.sleep(LINGER_SECS)  # the cleaner kills the group, this process included

    def _clean_up(self) -> None:
        os.setsid()  # away from the terminal: Ctrl-C must not reach this process
        self._wait_for_parent()
        with contextlib.suppress(OSError):
            os.killpg(self.group, signal.SIGKILL)
        for _ in range(ROUNDS):
            if not (daemons := named_in_environment(self.directory)):
                break
            for daemon in daemons:
                with contextlib.suppress(OSError):
                    os.kill(daemon, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        cgroups.remove(self.control_groups)

    def _wait_for_parent(self) -> None:
        """Until the write end of the pipe is closed."""
        while os.read(self._read, 4096):
            pass


def named_in_environment(directory: Path) -> list[int]:
    """Processes whose environment names the directory. Those of other users cannot be read."""
    name, found = os.fsencode(directory) + b"/", []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if name in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found
