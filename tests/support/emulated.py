"""Machines like those of `installed`, under QEMU: with their own kernel, firmware and drives, and reached by SSH."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from support.installed import ADDRESS, SOURCE, Boot, Disk

PROMPT = b" login: "  # on the console, when systemd has started nearly all units
# Root's environment, the same as for programs in a container.
ENVIRONMENT = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "SYSTEMD_PAGER=")


class EmulatedDisk(Disk):
    """A machine whose image is written to. `options`: further options of `fakeazure boot`."""

    def __init__(self, image: Path, place: Path, *, options: list[str]) -> None:
        super().__init__((), place)
        self.image, self.options = image, options

    def turn_on(self, scenario: Path, ledger: Path, console: Path) -> Boot:
        return EmulatedBoot(self, scenario, ledger, console)

    def start(self, scenario: Path, *options: str) -> subprocess.Popen[str]:
        fake = (sys.executable, "-B", "-m", "fakeazure", "boot", str(self.image), str(scenario))
        return subprocess.Popen(
            (*fake, "--keep", "--stay", "--accel", "tcg", *self.options, *options),
            env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(self.place / "tmp")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


class EmulatedBoot(Boot):
    soon = 600.0  # a busy host emulates slowly

    def wait_until_up(self) -> None:
        self.until(lambda: self.console.exists() and PROMPT in self.console.read_bytes(), "somebody may log in")
        self.run("systemctl", "is-system-running", "--wait")

    def run(self, *argv: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs as root through the admin's login, over one connection: a handshake under emulation takes long."""
        settings = {
            "BatchMode": "yes",
            "ConnectionAttempts": "10",
            "ControlMaster": "auto",
            "ControlPath": str(self.disk.place / f"wire-{self.disk.boots}"),
            "ControlPersist": "yes",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
        }
        there = shlex.join(("sudo", "-n", *ENVIRONMENT, *argv))
        options = ("-F", "none", "-T", "-i", str(self.disk.key), *(f"-o{a}={b}" for a, b in settings.items()))
        words = ("nsenter", f"--target={self._platform.pid}", "--net", "ssh", *options, f"azureuser@{ADDRESS}", there)
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
