"""Signals that this process ignores from its start (`scripts/test &`, nohup) still reach the programs of tests."""

from __future__ import annotations

import signal
from types import FrameType


def pass_on_signals() -> None:
    """Replaces "ignored" with a handler that does nothing: a started program then has the default action."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, ignore)


def ignore(_number: int, _frame: FrameType | None) -> None:
    """Does nothing."""
