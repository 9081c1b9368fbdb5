"""Threads in a process whose limits allow none."""

from __future__ import annotations

import os
import subprocess
import sys

LIMITED = """
import resource
import sys

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from _thread import stack_size
from azureinit.errors import LocalError
from azureinit.machine.threads import start

stack_size(2 << 30)  # more than there is
try:
    start(lambda: None)
except LocalError as error:
    sys.exit(0 if "cannot start a thread" in str(error) else 1)
sys.exit(2)
"""


def test_a_thread_that_cannot_be_started_is_a_declared_error() -> None:
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", LIMITED], env=environ).returncode == 0
