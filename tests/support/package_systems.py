"""A machine with a package manager: a layer over a Debian root, and a repository on the loopback of its own network."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.container import PROJECT

PORT = 8123
REPOSITORY = f"http://127.0.0.1:{PORT}"
DIRECTORY = "/var/lib/azure-init/vm.d"
LOG = f"{DIRECTORY}/packages.log"
# A machine of its own: its files in a layer, its network with a server for the repository.
ENTER = f"""
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 125
root=$2/root
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 125
mkdir -p "$root/mnt/src" "$root/mnt/support" "$root/mnt/yaml" "$root/mnt/repository"
mount --bind "$3/src" "$root/mnt/src" && mount --bind "$3/tests/support" "$root/mnt/support" || exit 125
mount --bind "$4" "$root/mnt/yaml" && mount --bind "$5" "$root/mnt/repository" || exit 125
ip link set lo up || exit 125
script=$6
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/mnt/src:/mnt PYTHONDONTWRITEBYTECODE=1
chroot "$root" python3 -m http.server {PORT} --bind 127.0.0.1 --directory /mnt/repository >/dev/null 2>&1 &
chroot "$root" python3 -c 'import socket, time
for _ in range(500):
    try: socket.create_connection(("127.0.0.1", {PORT})).close(); break
    except OSError: time.sleep(0.02)'
exec chroot "$root" sh -c "$script"
"""
# Carries out the modules of the document on standard input, each step on its own, as the stage does.
CARRY_OUT = f"""
import json, sys
from azureinit.errors import AzureInitError
from azureinit.machine import Machine
from azureinit.plan.actions import Step
from azureinit.run.enact import enact
from azureinit.run.module_tables import modules_of
from azureinit.telemetry.events import Events
from support.module_runs import plan_module, request_of

text = sys.stdin.read()
machine = Machine()
told, failed = [], []
for module in (*modules_of("config"), *modules_of("final")):
    if module.name not in ("apt_configure", "yum_add_repo", "zypper_add_repo", "packages"):
        continue
    plan = plan_module(module, machine, request_of(text, rooted=False, directory="{DIRECTORY}"))
    for item in plan:
        told.append([type(item).__name__, item.name])
        if isinstance(item, Step):
            events = Events(clock=machine.clock)
            try:
                enact(machine, (item,), events=events, deadline=machine.clock.monotonic() + 50)
            except AzureInitError as error:
                failed.append(str(error))
print(json.dumps({{"told": told, "failed": failed}}))
"""


class System:
    def __init__(self, place: Path, root: Path, repository: Path) -> None:
        """`root`: the Debian below. `repository`: what the server offers."""
        self.place, self.root, self.repository = place, root, repository
        for name in ("upper", "work", "root"):
            (place / name).mkdir()
        (place / "upper/carry_out.py").write_text(CARRY_OUT)

    def run(self, script: str, *, stdin: str = "") -> str:
        spaces = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")
        given = (self.root, self.place, PROJECT, Path(yaml.__file__).parent, self.repository, script)
        command = (*spaces, "sh", "-c", ENTER, "sh", *map(str, given))
        ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def carry_out(self, document: str, *, before: str = "") -> tuple[list[tuple[str, str]], list[str]]:
        """What was planned, and the failures."""
        told: dict[str, Any] = json.loads(self.run(f"{before}\nexec python3 /carry_out.py", stdin=document))
        return [(kind, name) for kind, name in told["told"]], told["failed"]

    def read(self, path: str) -> str:
        return (self.place / "upper" / path.lstrip("/")).read_text()

    def has(self, path: str) -> bool:
        return (self.place / "upper" / path.lstrip("/")).exists()
