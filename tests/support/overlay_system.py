"""The running system below a writable layer, with the platform on loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from fakeazure import Fabric, Vm
from support.bench import PYTHON, QUICK, SRC
from support.need import unfit

ENTER = """
mount --make-rprivate / &&
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root" || exit 125
mount -t proc proc "$1/root/proc" && mount --rbind /dev "$1/root/dev" && mount --bind "$1/run" "$1/root/run" || exit 125
mkdir -p "$1/root/mnt/src" "$1/root/mnt/place" "$1/root$3"
mount --bind "$2" "$1/root/mnt/src" && mount --bind "$1/place" "$1/root/mnt/place" || exit 125
mount --rbind "$3" "$1/root$3" || exit 125
root="$1/root"; shift 3
exec chroot "$root" "$@"
"""
NAMESPACES = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child")


class System:
    """The running system under a layer: `upper` holds all changes that the agent makes."""

    def __init__(self, place: Path, script: bytes, **platform: Any) -> None:
        for name in ("upper", "work", "root", "run", "place"):
            (place / name).mkdir()
        self.place, self.upper = place, place / "upper"
        self.fabric = Fabric(vm=Vm(custom_data=script), **platform).start()
        self.configure(execute=True)

    def configure(self, **settings: Any) -> None:
        tables = {**QUICK, "custom_data": settings, "ssh": {"host_key_types": []}, "disk": {"grow_root": False}}
        text = self.fabric.config_text(**tables)
        (self.place / "place/config.toml").write_text(text)

    def command(self, *words: str) -> list[str]:
        enter = [*NAMESPACES, "sh", "-c", ENTER, "sh", str(self.place), str(SRC), sys.base_prefix]
        agent = [PYTHON, "-B", "-m", "azureinit", "--config", "/mnt/place/config.toml", *words]
        return [*enter, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH=/mnt/src", *agent]

    def service(self, *words: str) -> list[str]:
        """The agent's command with the environment of a service."""
        command = self.command(*words)
        command.insert(command.index("-i") + 1, "NOTIFY_SOCKET=/mnt/place/notify")
        return command

    def agent(self, *words: str) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60)
        if ran.returncode == 125:
            unfit(f"no layer over this system's files: {ran.stderr.strip()}")
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    def read(self, name: str) -> str:
        return (self.upper / name).read_text()

    @property
    def log(self) -> Path:
        return self.upper / "var/lib/azure-init/custom-data.log"

    def told(self) -> str:
        """Log, journal, trace and all requests to the platform, as one text."""
        files = [self.upper / "var/log/azure-init.log", *(self.upper / "var/lib/azure-init").glob("*.journal")]
        texts = [path.read_text() for path in (*files, self.upper / "var/lib/azure-init/trace.jsonl")]
        return "".join(texts) + "".join(f"{one.target} {one.body}" for one in self.fabric.ledger.requests)
