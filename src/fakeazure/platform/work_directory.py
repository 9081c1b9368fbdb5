"""A working directory that is created on first use."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path


class WorkDirectory:
    """`given`: the caller's directory, created if missing and never removed. Without it, a temporary directory."""

    def __init__(self, given: Path | None = None) -> None:
        self._given = given
        self._made: Path | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Path:
        with self._lock:
            if self._given:
                self._given.mkdir(parents=True, exist_ok=True)
                return self._given
            self._made = self._made or Path(tempfile.mkdtemp(prefix="fakeazure-"))
            return self._made

    def remove(self) -> None:
        with self._lock:
            if self._made:
                shutil.rmtree(self._made, ignore_errors=True)
                self._made = None
