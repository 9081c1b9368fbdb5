"""What a caller may choose for a booted machine, beside its image and its scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MOST_BOOTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    ledger: Path | None = None  # None: a temporary file
    console: Path | None = None  # None: a temporary file
    keep: bool = False  # write to the image itself, not to a layer over it
    login: bool = True  # try to log in after the verdict
    stay: bool = False  # keep the machine running until it powers off or Ctrl-C
    boots: int = 1
    control: Path | None = None  # the socket of `fakeazure tell`; None: none
