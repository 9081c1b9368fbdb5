"""What `container` and `boot` share about several boots of one machine, and about one that stays silent."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from fakeazure import show
from fakeazure.judge import UNHEARD, is_unheard

if TYPE_CHECKING:
    from fakeazure.ledger import Ledger

SETTLED_SECS = 30.0  # for a machine once Ready that owes no login: it need not tell anything
MOST = 100
BOOTS = f"""\
boot the machine N times (1 to {MOST}) on the same disk. A machine that has told Ready need not tell it again: its later
boots end when a login was tried, or after {SETTLED_SECS:g} s where none can be"""


def boot_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"a number from 1 to {MOST}, not {text!r}")
    return int(text)


def is_settled(ledger: Ledger) -> bool:
    """Whether the machine has told Ready in an earlier boot, and is believed."""
    return bool(ledger.verdicts) and ledger.verdicts[-1].kind == "ready" and not ledger.has_verdict


class NetworkWatch:
    """Says, once and as soon as it can be known, that a machine does not even ask for an address."""

    def __init__(self, ledger: Ledger, *, seconds: float) -> None:
        self._ledger, self._seconds = ledger, seconds
        self._start, self._said = time.monotonic(), False

    def look(self) -> None:
        if self._said or time.monotonic() < self._start + self._seconds:
            return
        self._said = True
        if is_unheard(self._ledger.boot):
            text = f"after {self._seconds:g} s the machine has not asked for an address by DHCP: {UNHEARD}"
            print(show.palette_for(sys.stderr)("warn", f"fakeazure: {text}"), file=sys.stderr, flush=True)
