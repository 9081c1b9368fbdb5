"""The cost of an agent: one run measures CPU time and memory, another counts its system calls."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from peers_roots import Root

if TYPE_CHECKING:
    from peers_machine import Machine

INSIDE = "/var/lib/scales"
ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")  # with cgroup version 1, systemd in the container has no CPU accounting
# The hardening of the units would forbid the measurement.
OPEN = "SystemCallFilter=\nCapabilityBoundingSet=~\nNotifyAccess=all\nRestrictNamespaces=no\n"
WEIGHED = (
    f"""/bin/sh -c 'echo 0 > {INSIDE}/cpu/cgroup.procs; exec /usr/bin/time -o {INSIDE}/%n.weight -f %%M "$@"' sh """
)
CALLS = "execve,open,openat,openat2,creat,fsync,fdatasync,sync,syncfs"
TRACED = f"/usr/bin/strace -D -f -qq -o {INSIDE}/%n.trace -e trace={CALLS} "
SLOWED = (
    "/usr/bin/strace -D -f -qq --seccomp-bpf -o /dev/null"
    " -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_exit={} "
)
START = re.compile(r"^ExecStart=(.*)$", re.MULTILINE)
CLEARED_SECS = 5.0
CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)")


@dataclass(kw_only=True)
class Weight:
    cpu_secs: float | None = None
    peak_bytes: int | None = None
    calls: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scales:
    """`kind`: weighed, traced, or slowed by `sync_usecs` for each sync."""

    kind: str
    sync_usecs: int = 0

    @property
    def weighs(self) -> bool:
        return self.kind != "slowed"

    def fit(self, system: Path, root: Root) -> None:
        """Wraps the ExecStart of every unit of the agent in the measurement."""
        (system.parents[2] / INSIDE[1:]).mkdir(parents=True, exist_ok=True)
        before = {"weighed": WEIGHED, "traced": TRACED, "slowed": SLOWED.format(self.sync_usecs)}[self.kind]
        for unit in dict.fromkeys((*root.entrant.units, *root.entrant.stages)):
            (command,) = START.findall(unit_text(root, unit))
            directory = system / f"{unit}.d"
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "scales.conf").write_text(f"[Service]\nExecStart=\nExecStart={before}{command}\n{OPEN}")

    def read(self, machine: Machine) -> Weight:
        inside = machine.site.root / INSIDE[1:]
        if self.kind == "traced":
            return Weight(calls=count("".join(path.read_text() for path in inside.glob("*.trace"))))
        ended = [
            int(path.read_text().split()[-1]) * 1024 for path in inside.glob("*.weight") if path.read_text().strip()
        ]
        return Weight(cpu_secs=account().used(), peak_bytes=max([*ended, *account().peaks()], default=None))


def unit_text(root: Root, unit: str) -> str:
    for tree in (root.layer, root.base):
        for directory in ("etc/systemd/system", "usr/lib/systemd/system"):
            path = tree / directory / unit
            if path.is_file():
                return path.read_text()
    raise AssertionError(unit)


def count(trace: str) -> dict[str, int]:
    """Programs started, files opened, and syncs; failed calls do not count."""
    kinds = {
        "programs": ("execve",),
        "files": ("open", "openat", "openat2", "creat"),
        "syncs": ("fsync", "fdatasync", "sync", "syncfs"),
    }
    done = [line for line in trace.splitlines() if " = " in line and " = -1 " not in line]
    names = [found.group(1) for line in done if (found := CALL.match(line))]
    return {kind: sum(name in calls for name in names) for kind, calls in kinds.items()}


class Account:
    """A control group that the units of the agent join."""

    def __init__(self) -> None:
        self.path = ACCOUNTS / f"peers-{os.getpid()}"

    def used(self) -> float:
        return int((self.path / "cpuacct.usage").read_text()) / 1e9

    def peaks(self) -> list[int]:
        """Peak memory of the processes that are still running, in bytes."""
        peaks = []
        for pid in (self.path / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                peaks += [int(found.group(1)) * 1024] if found else []
        return peaks


def account() -> Account:
    return Account()


@contextlib.contextmanager
def laid(scales: Scales | None, binds: list[str]) -> Iterator[None]:
    """Keeps the control group while the machine runs."""
    if scales is None or scales.kind != "weighed":
        yield
        return
    path = account().path
    path.mkdir()
    binds.append(f"--bind={path}:{INSIDE}/cpu")
    try:
        yield
    finally:
        clear(path)


def clear(path: Path) -> None:
    """Removes the control group. The kernel needs a moment to release processes that were just killed."""
    until = time.monotonic() + CLEARED_SECS
    while path.exists():
        with contextlib.suppress(OSError):
            path.rmdir()
        if time.monotonic() > until:
            return
        time.sleep(0.01)
