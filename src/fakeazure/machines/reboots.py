"""Later boots of one machine, and the warning about a machine that does not use DHCP."""

from __future__ import annotations

import sys
import time

from fakeazure import show
from fakeazure.judge import NO_NETWORK, is_silent
from fakeazure.platform.ledger import Ledger

SETTLED_SECS = 30.0  # length of a later boot in which no login can be tried


def was_ready_before(ledger: Ledger) -> bool:
    """Whether the machine reported Ready in an earlier boot, and nothing yet in this one."""
    return bool(ledger.verdicts) and ledger.verdicts[-1].kind == "ready" and not ledger.has_verdict


class NetworkWatch:
    """Warns once, after `seconds`, if the machine has not sent a DHCP request."""

    def __init__(self, ledger: Ledger, *, seconds: float) -> None:
        self._ledger, self._seconds = ledger, seconds
        self._start, self._done = time.monotonic(), False

    def check(self) -> None:
        if self._done or time.monotonic() < self._start + self._seconds:
            return
        self._done = True
        if is_silent(self._ledger.boot):
            text = f"after {self._seconds:g} s the machine has not sent a DHCP request: {NO_NETWORK}"
            print(show.palette_for(sys.stderr)("warn", f"fakeazure: {text}"), file=sys.stderr, flush=True)
