"""The capture of packets that boots with several interfaces use, in a network namespace of its own."""

from __future__ import annotations

import subprocess
import sys

from support.capture import CAPTURE
from support.need import need, need_root

# Packets ten times a second for as long as the capture runs, from before its input ends.
ENDLESS = """
import socket, subprocess, sys
with subprocess.Popen([sys.executable, "-c", sys.argv[1], "lo"], stdin=subprocess.DEVNULL) as capture:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while capture.poll() is None:
        one.sendto(b"again", ("127.0.0.1", 9))
        try:
            capture.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
"""


def test_a_capture_ends_though_packets_never_do() -> None:
    need_root()
    need("unshare")
    need("ip")
    inside = 'ip link set lo up && exec "$@"'
    ran = subprocess.run(
        ("unshare", "--net", "sh", "-c", inside, "sh", sys.executable, "-c", ENDLESS, CAPTURE),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.stderr == "" and ran.stdout.startswith("listening\n{"), ran.stdout + ran.stderr
    assert '"target": "127.0.0.1", "port": 9' in ran.stdout
