"""The last lines of a machine's console, without escape sequences."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_LINES = 25
ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, the cursor, resets such as ESC [ ! p
    r"|\x1b[]PX^_][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?"  # titles, palettes and queries, up to their terminator
    r"|\x1b[ -/]*[0-~]"  # character sets, and other short sequences
)


def last_lines(console: Path) -> list[str]:
    """The last lines that are not blank."""
    try:
        text = ESCAPE.sub("", console.read_text(errors="replace"))
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-TAIL_LINES:]
