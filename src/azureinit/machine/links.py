"""Where a link points, as it is written."""

from __future__ import annotations

import os

from azureinit.machine import local_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine


def read_link(machine: Machine, path: str) -> str:
    try:
        return os.readlink(machine.real(path, final=False))
    except OSError as error:
        raise local_error(error, "read link", path) from error
