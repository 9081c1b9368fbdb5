"""A directory of our own: made when it is first needed, gone when it is cleared."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path


class Place:
    """`given` is somebody else's directory: made if it is not there, and never removed."""

    def __init__(self, given: Path | None = None) -> None:
        self._given = given
        self._made: Path | None = None
        self._making = threading.Lock()

    def __call__(self) -> Path:
        with self._making:
            if self._given:
                self._given.mkdir(parents=True, exist_ok=True)
                return self._given
            self._made = self._made or Path(tempfile.mkdtemp(prefix="fakeazure-"))
            return self._made

    def clear(self) -> None:
        with self._making:
            if self._made:
                shutil.rmtree(self._made, ignore_errors=True)
                self._made = None
