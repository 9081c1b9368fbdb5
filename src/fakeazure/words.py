"""What the words of a command say about it: whether it is one that provisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

PROGRAMS = ("azure-init", "azureinit")  # the second after `python3 -m`
VALUED = ("-g", "--groups", "--config", "--root", "--stage")
# Verbs and options of azure-init that look, explain or tidy up, and never report.
OTHERWISE = ("plan", "facts", "config", "clean", "deprovision", "kvp", "help", "-h", "--help", "-V", "--version")


def provisions(command: Sequence[str]) -> bool:
    """Any command may, except azure-init with a verb that does not. A shell's script is not looked into."""
    start = next((n for n, word in enumerate(command) if PurePath(word).name in PROGRAMS), len(command))
    words = iter(command[start + 1 :])
    for word in words:
        if word in OTHERWISE:
            return False
        if word in VALUED:
            next(words, None)
        elif not word.startswith("-"):
            return True
    return True
