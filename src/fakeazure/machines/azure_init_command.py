"""Whether a command line provisions: azure-init with certain verbs and options does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

PROGRAMS = ("azure-init", "azureinit")  # the second with `python3 -m`
WITH_VALUE = ("-g", "--groups", "--config", "--root", "--stage")
# Verbs and options of azure-init that never report.
REPORT_NOTHING = (
    "plan",
    "facts",
    "config",
    "disk",
    "clean",
    "deprovision",
    "kvp",
    "help",
    "-h",
    "--help",
    "-V",
    "--version",
)


def provisions(command: Sequence[str]) -> bool:
    """True for any command but azure-init with a verb that does not report. Shell scripts are not parsed."""
    start = next((n for n, word in enumerate(command) if PurePath(word).name in PROGRAMS), len(command))
    words = iter(command[start + 1 :])
    for word in words:
        if word in REPORT_NOTHING:
            return False
        if word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return True
    return True
