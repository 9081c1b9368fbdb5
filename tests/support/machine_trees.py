"""What the tests of Machine's files share."""

from __future__ import annotations

import stat
from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def listing(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*")}
