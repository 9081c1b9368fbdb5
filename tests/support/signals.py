"""Signals that this process was started to ignore, as `scripts/test &` and nohup have it, reach what tests start."""

from __future__ import annotations

import signal
from types import FrameType


def pass_on_signals() -> None:
    """A handler in place of "ignored": we go on ignoring them, and a program that we start has the default."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, ignore)


def ignore(_number: int, _frame: FrameType | None) -> None:
    """Nothing."""
