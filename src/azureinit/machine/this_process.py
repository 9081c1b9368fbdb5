"""This process: its end, its streams and its umask."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def leave(status: int) -> NoReturn:
    """Exit without cleanup: the kernel releases everything, and threads may still wait for answers."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(status)


def open_streams() -> None:
    """Open /dev/null for closed standard streams: the next opened file would get their descriptor."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open("/dev/null", "w"))  # noqa: SIM115 - open until the process ends


def set_umask() -> None:
    """The agent decides the modes of its files, not the caller's umask."""
    os.umask(0o022)
