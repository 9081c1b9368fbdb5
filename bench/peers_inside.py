"""Programs that bench/peers runs inside a machine, as texts."""

from __future__ import annotations

# The children of the reference agent, one after the other: it cannot be faster than their sum.
CHILDREN = """
import os, time
total = 0
for line in (["hostnamectl", "set-hostname", "other"], ["useradd", "-m", "-s", "/bin/bash", "-G", "sudo", "other"],
             ["passwd", "-l", "other"], ["sshd", "-G"]):
    quiet = [(os.POSIX_SPAWN_OPEN, n, "/dev/null", os.O_RDWR, 0) for n in (0, 1, 2)]
    start = time.perf_counter()
    child = os.posix_spawnp(line[0], line, os.environ, file_actions=quiet)
    os.waitpid(child, 0)
    total += time.perf_counter() - start
print(total)
"""

# The programs of azure-init's units, started like those children: by a program, without systemd's work before it.
STAGES = """
import os, time
quiet = [(os.POSIX_SPAWN_OPEN, n, "/dev/null", os.O_RDWR, 0) for n in (0, 1, 2)]
environ = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "/run/systemd/notify"}
for line in (["azure-init", "--stage", "local"], ["azure-init"]):
    start = time.clock_gettime(time.CLOCK_MONOTONIC)
    child = os.posix_spawnp(line[0], line, environ, file_actions=quiet)
    os.waitpid(child, 0)
    print(start, time.clock_gettime(time.CLOCK_MONOTONIC))
"""
