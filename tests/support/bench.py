"""The installed program against a platform on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakeazure import Expect, Fabric, Vm
from support.trees import make_tree

SRC = Path(__file__).parents[2] / "src"
# The sim tests can run the agent with an older Python than the platform's.
PYTHON = os.environ.get("AGENT_PYTHON", sys.executable)
# Short values for every timeout, so that no test waits for something that it does not test.
QUICK: dict[str, dict[str, Any]] = {
    "imds": {
        "retry_interval_secs": 0.05,
        "total_retry_timeout_secs": 3,
        "request_timeout_secs": 1,
        "final_after_secs": 0.2,
    },
    "wireserver": {"retry_interval_secs": 0.05, "total_retry_timeout_secs": 2, "read_timeout_secs": 1},
    "provisioning_media": {"wait_secs": 0.5},
    "sources": {"grace_secs": 0.3},
}

# ssh-keygen -q -t TYPE -N "" -C "" -f FILE; ssh-keygen -y -P "" -f FILE
KEYGEN = """#!/bin/sh
[ "$1" != -y ] || { echo "ssh-$(sed -n 2p "$5") AAAA"; exit; }
set -e
umask 077
printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\\n%s\\n-----END OPENSSH PRIVATE KEY-----\\n' "$3" >"$9"
umask 022
echo "ssh-$3 AAAA" >"$9.pub"
"""


@dataclass
class Ran:
    status: int
    out: str
    err: str


class Bench:
    """One machine (a file tree) and one platform."""

    def __init__(self, fabric: Fabric, tree: Path, directory: Path) -> None:
        self.fabric, self.tree, self.directory = fabric, tree, directory
        self.config = directory / "azure-init.toml"
        self.configure()

    def configure(self, **tables: Mapping[str, Any]) -> None:
        merged = {name: {**QUICK.get(name, {}), **tables.get(name, {})} for name in {*QUICK, *tables}}
        self.config.write_text(self.fabric.config_text(**merged))

    def install_sshd(self) -> None:
        """Adds what the agent reads of an sshd: its configuration, and a fast stand-in for ssh-keygen on the PATH."""
        (self.tree / "etc/ssh/sshd_config.d").mkdir(parents=True)
        (self.tree / "etc/ssh/sshd_config").write_text("Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n")
        self.tools.mkdir()
        keygen = self.tools / "ssh-keygen"
        keygen.write_text(KEYGEN)
        keygen.chmod(0o755)

    @property
    def tools(self) -> Path:
        return self.directory / "tools"

    def host_keys(self) -> set[str]:
        return {path.name for path in (self.tree / "etc/ssh").glob("ssh_host_*_key")}

    def agent(self, *words: str, inside: str = "", timeout: float = 30) -> Ran:
        """`inside`: shell commands that prepare a private mount namespace for the agent."""
        command = [PYTHON, "-m", "azureinit", "--config", str(self.config), "--root", str(self.tree), *words]
        if inside:
            command = ["unshare", "--mount", "sh", "-c", f'{inside} && exec "$@"', "sh", *command]
        environ = {"PATH": f"{self.tools}:{os.environ['PATH']}", "PYTHONPATH": str(SRC)}
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout)
        assert "Traceback" not in ran.stderr, ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    @property
    def data(self) -> Path:
        return self.tree / "var/lib/azure-init"

    def state(self, kind: str) -> Path:
        return self.data / f"{self.fabric.vm.id}.{kind}"

    def read(self, name: str) -> str:
        return (self.tree / name).read_text()


class Benches:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fabrics: list[Fabric] = []

    def __call__(
        self, *, expect: Expect | None = None, vm: Vm | None = None, kvp: bool = False, **options: Any
    ) -> Bench:
        """`kvp`: the machine has Hyper-V's key-value pools, and the platform reads them as a host does."""
        place = self.directory / str(len(self.fabrics) + 1)
        place.mkdir()
        tree = make_tree(place / "root")
        if kvp:
            options["pools"] = tree / "var/lib/hyperv"
            options["pools"].mkdir(parents=True)
        fabric = Fabric(vm=vm or Vm(), expect=expect, **options).start()
        self.fabrics.append(fabric)
        return Bench(fabric, tree, place)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Benches]:
    benches = Benches(tmp_path)
    yield benches
    for fabric in benches.fabrics:
        fabric.stop()
