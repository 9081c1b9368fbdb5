"""A root directory for fakeazure container: a Debian below a layer that the test writes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fakeazure
from fakeazure.platform.events import Event, read_events
from support.container import UNIT
from support.installed import NETWORK, Images

SOURCE = str(Path(fakeazure.__file__).parent.parent)
ONLINE = "Wants=network-online.target\nAfter=network-online.target\n"
# ROOT for fakeazure: a Debian below a layer of the test, in a private mount namespace.
LAYERED = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/machine" || exit 1
shift 2
exec "$@"
"""
SOON = 60.0


class Root:
    """A root directory with a network configuration and, unless another agent replaces it, azure-init."""

    def __init__(self, images: Images, place: Path, *extra: str) -> None:
        """`extra`: further packages to install."""
        self.images, self.extra = images, extra
        self.place, self.layer = place, place / "upper"
        for name in ("upper", "work", "machine", "tmp"):
            (place / name).mkdir()
        self.write("etc/systemd/network/10-eth0.network", NETWORK)
        self.enable("/usr/lib/systemd/system/systemd-networkd.service", "multi-user")
        self.enable("/usr/lib/systemd/system/systemd-networkd-wait-online.service", "network-online")
        self.unit("azure-init.service", UNIT.replace("[Service]", f"{ONLINE}\n[Service]"))

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        path = self.layer / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def unit(self, name: str, text: str) -> None:
        self.write(f"etc/systemd/system/{name}", text)
        self.enable(f"/etc/systemd/system/{name}", "multi-user")

    def enable(self, unit: str, target: str) -> None:
        link = self.layer / f"etc/systemd/system/{target}.target.wants" / Path(unit).name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(unit)

    def files(self) -> set[Path]:
        return set(self.layer.rglob("*"))

    def start(self, *options: str, suite: str = "trixie") -> subprocess.Popen[str]:
        fake = (sys.executable, "-m", "fakeazure", "container", str(self.place / "machine"), *options)
        lower = ":".join(map(str, self.images.without_package(suite, *self.extra)))
        command = ("unshare", "--mount", "sh", "-c", LAYERED, "sh", lower, str(self.place), *fake)
        return subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(self.place / "tmp")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def boot(self, *options: str, suite: str = "trixie") -> tuple[int, str]:
        """The exit code and the output."""
        ran = self.start(*options, "--ledger", str(self.ledger), "--console", str(self.console), suite=suite)
        said, complaints = ran.communicate(timeout=300)
        assert "Traceback" not in complaints
        assert list((self.place / "tmp").iterdir()) == []
        return ran.returncode, said + complaints

    @property
    def ledger(self) -> Path:
        return self.place / "ledger.jsonl"

    @property
    def console(self) -> Path:
        return self.place / "console"

    def events(self) -> tuple[Event, ...]:
        return read_events(self.ledger)


def until(seen: Callable[[], bool], console: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + SOON
    while not seen():
        if time.monotonic() > deadline:
            pytest.fail(f"it did not come to that in {SOON:.0f} seconds\n{console()}")
        time.sleep(0.05)
