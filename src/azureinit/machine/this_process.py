"""This process: its end, its streams and its umask."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def leave(status: int) -> NoReturn:
    """End at once: a run has nothing to tear down that the kernel does not, and threads may still wait for answers."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(status)


def open_streams() -> None:
    """Python has none where it was started with closed ones, and the next file opened would take their number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open("/dev/null", "w"))  # noqa: SIM115 - for as long as we live


def set_umask() -> None:
    """Modes are ours to say, not whoever started us."""
    os.umask(0o022)
