"""The private socket module and its fallback, in a new interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"


def test_where_the_private_socket_module_is_missing_the_public_one_is_used() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import socket; sys.modules['_socket'] = None\n"
        "from azureinit.machine import sockets\n"
        "assert sockets.socket is socket.socket and sockets.AF_UNIX == socket.AF_UNIX\n"
        "import azureinit.http\n"
    )
    ran = subprocess.run([sys.executable, "-IS", "-c", program, str(SRC)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
