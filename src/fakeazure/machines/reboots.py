"""Later boots of one machine, and the warning about a machine that does not use DHCP."""

from __future__ import annotations

import sys
import time

from fakeazure import show
from fakeazure.judge import NO_NETWORK, is_silent
from fakeazure.platform.ledger import Ledger
from fakeazure.platform.machine import Machine

SETTLED_SECS = 30.0  # length of a later boot in which no login can be tried


def was_ready_before(ledger: Ledger) -> bool:
    """Whether the machine reported Ready in an earlier boot, and nothing yet in this one."""
    final = ledger.final_verdicts
    return bool(final) and final[-1].kind == "ready" and not ledger.has_verdict


class Deadline:
    """The end of the wait for a verdict. A VM that waits in its pool has none; it begins with the VM's reuse."""

    def __init__(self, machine: Machine, *, seconds: float) -> None:
        self._machine, self._seconds = machine, seconds
        self._start = time.monotonic()

    def passed(self) -> bool:
        if self._machine.pool and self._machine.pool.waits:
            self._start = time.monotonic()
        return time.monotonic() > self._start + self._seconds


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
