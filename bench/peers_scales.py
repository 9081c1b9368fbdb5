"""What an agent costs: a boot in which it is weighed, another in which its system calls are counted."""

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
ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")  # where the first kind of control groups is, systemd inside counts nothing
# Its hardening would forbid the scales, not the agent.
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
    """`kind`: weighed, traced, or slowed by so many microseconds a sync."""

    kind: str
    sync_usecs: int = 0

    @property
    def weighs(self) -> bool:
        return self.kind != "slowed"

    def fit(self, system: Path, root: Root) -> None:
        """Puts every unit of the agent's onto the scales."""
        (system.parents[2] / INSIDE[1:]).mkdir(parents=True, exist_ok=True)
        before = {"weighed": WEIGHED, "traced": TRACED, "slowed": SLOWED.format(self.sync_usecs)}[self.kind]
        for unit in root.entrant.units:
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
    """Programs started, files opened, and syncs; of a call that failed nothing is counted."""
    kinds = {
        "programs": ("execve",),
        "files": ("open", "openat", "openat2", "creat"),
        "syncs": ("fsync", "fdatasync", "sync", "syncfs"),
    }
    done = [line for line in trace.splitlines() if " = " in line and " = -1 " not in line]
    names = [found.group(1) for line in done if (found := CALL.match(line))]
    return {kind: sum(name in calls for name in names) for kind, calls in kinds.items()}


class Account:
    """A control group of ours, into which an agent's units put themselves."""

    def __init__(self) -> None:
        self.path = ACCOUNTS / f"peers-{os.getpid()}"

    def used(self) -> float:
        return int((self.path / "cpuacct.usage").read_text()) / 1e9

    def peaks(self) -> list[int]:
        """Of those that are still running, in bytes."""
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
    """The account is there while the machine runs."""
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
    """The machine's processes were ended a moment ago, and the kernel takes its time to forget them."""
    until = time.monotonic() + CLEARED_SECS
    while path.exists():
        with contextlib.suppress(OSError):
            path.rmdir()
        if time.monotonic() > until:
            return
        time.sleep(0.01)
