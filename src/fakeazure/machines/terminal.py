"""The terminal: lent to a command's process group while the command runs, as a shell does with a foreground job."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Takes the terminal back at the end."""
    if not owns_terminal():
        yield
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, before)


def lend_terminal(group: int) -> None:
    if owns_terminal():
        with contextlib.suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # a read before this was answered with SIGTTIN, which stops the command


def owns_terminal() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
