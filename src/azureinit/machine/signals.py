"""SIGTERM. By the module below `signal`, whose enums cost 3 ms at every boot; where that is missing, by `signal`."""

from __future__ import annotations

try:
    from _signal import SIG_DFL, SIG_IGN, SIGTERM, signal  # type: ignore[import-not-found]
except ImportError:
    from signal import SIG_DFL, SIG_IGN, SIGTERM, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def handle_sigterm(stop: Callable[[], object]) -> None:
    """`stop` is called in the main thread, and what it raises ends what that thread is doing."""
    signal(SIGTERM, lambda _number, _frame: stop())


def ignore_sigterm() -> None:
    signal(SIGTERM, SIG_IGN)


def default_sigterm() -> None:
    signal(SIGTERM, SIG_DFL)
