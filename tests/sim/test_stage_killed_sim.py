"""A stage of customData that is killed or stopped in the middle: the next one goes on, and finished work stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureinit.memory.sealed import seal
from fakeazure import Vm
from support.bench import PYTHON, SRC, Bench, Benches
from support.need import need_root
from support.overlay_system import System
from support.ssh_trees import ed25519

WAITS = "echo x >>/root/begun; [ -e /root/again ] || sleep 60; echo x >>/root/ended"
# The document, the stage, the module, and how often its program ends in three runs of the stage.
PROGRAMS = {
    "bootcmd": (f"#cloud-config\nbootcmd:\n- {WAITS}\n", "network", "bootcmd", 2),
    "runcmd": (f"#cloud-config\nruncmd:\n- echo first >>/root/first\n- {WAITS}\n", "final", "scripts_user", 1),
    "script": (f"#!/bin/sh\n{WAITS}\n", "final", "scripts_user", 1),
    "boothook": (f"#cloud-boothook\n#!/bin/sh\n{WAITS}\n", "network", "bootcmd", 2),
}
MANY = f"""#cloud-config
hostname: chosen
manage_etc_hosts: true
ssh_pwauth: true
ssh_authorized_keys: ['{ed25519("k")}']
groups: [one, two: [azureuser]]
users:
- default
- name: grace
  groups: [one]
  ssh_authorized_keys: ['{ed25519("g")}']
- name: joan
  hashed_passwd: '$6$saltsalt$hhh'
  lock_passwd: false
  sudo: ALL=(ALL) NOPASSWD:ALL
write_files:
- {{path: /etc/one/two/three, content: abc, permissions: '0640'}}
- {{path: /etc/added, content: abc, append: true}}
"""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Any]:
    need_root()
    made: list[System] = []

    def make(script: str) -> System:
        one = System(tmp_path, script.encode())
        made.append(one)
        one.configure()
        assert one.agent().returncode == 0
        return one

    yield make
    for one in made:
        one.fabric.stop()


def begin(one: System, stage: str) -> subprocess.Popen[str]:
    command = one.command("--stage", stage)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not (one.upper / "root/begun").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert process.poll() is None
    return process


def agent_of(process: subprocess.Popen[str]) -> int:
    """The agent is the first process of the namespace."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def prepared(one: System, stage: str) -> None:
    if stage == "final":
        assert one.agent("--stage", "network").returncode == 0


def state(one: System, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((one.place / "run/azure-init/userdata.json").read_text())
    stages: dict[str, Any] = found["stages"]
    return {**stages[stage], "whole": found["state"]}


def goes_on(one: System, name: str) -> None:
    _text, stage, module, ends = PROGRAMS[name]
    (one.upper / "root/again").touch()
    ran = one.agent("--stage", stage)
    assert ran.returncode == 0 and f"{module} was interrupted, and runs again (attempt 2 of 3)" in ran.stderr
    assert one.read("root/begun").split() == ["x"] * 2 and one.read("root/ended").split() == ["x"]
    assert state(one, stage)["state"] == "done"
    assert one.agent("--stage", stage).returncode == 0
    assert one.read("root/ended").split() == ["x"] * ends, "what runs once does not run again"
    if name == "runcmd":
        assert one.read("root/first").split() == ["first"], "items that had finished are skipped"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_stage_that_is_killed_goes_on(system: Any, name: str) -> None:
    one = system(PROGRAMS[name][0])
    prepared(one, PROGRAMS[name][1])
    process = begin(one, PROGRAMS[name][1])
    os.kill(agent_of(process), signal.SIGKILL)
    process.communicate(timeout=30)
    assert state(one, PROGRAMS[name][1])["state"] == "running"
    goes_on(one, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_stage_that_is_stopped_ends_its_program_and_goes_on(system: Any, name: str) -> None:
    one = system(PROGRAMS[name][0])
    _text, stage, module, _ends = PROGRAMS[name]
    prepared(one, stage)
    process = begin(one, stage)
    os.kill(agent_of(process), signal.SIGTERM)
    _out, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert f"{stage} stage: {module} was interrupted by SIGTERM: the next boot goes on" in said
    assert (state(one, stage)["state"], state(one, stage)["whole"]) == ("interrupted", "running")
    assert not (one.upper / "root/ended").exists()
    goes_on(one, name)


def changed(one: Bench) -> dict[str, bytes]:
    paths = [path for place in ("etc", "home") for path in (one.tree / place).rglob("*") if path.is_file()]
    return {str(path.relative_to(one.tree)): path.read_bytes() for path in paths if not path.name.endswith("-")}


def provisioned(bench: Benches) -> Bench:
    one = bench(vm=Vm(name="web-1", custom_data=MANY))
    one.install_sshd()
    (one.tree / "etc/added").write_text("before\n")
    assert one.agent().status == 0
    return one


def test_a_network_stage_that_is_killed_at_any_time_comes_to_the_same_machine(bench: Benches) -> None:
    whole = provisioned(bench)
    begun = time.monotonic()
    assert whole.agent("--stage", "network").status == 0
    took, expected = time.monotonic() - begun, changed(whole)
    assert b"grace" in expected["etc/passwd"] and expected["etc/hostname"] == b"chosen\n"
    killed = 0
    for number in range(6):
        one = provisioned(bench)
        command = [
            PYTHON,
            "-m",
            "azureinit",
            "--config",
            str(one.config),
            "--root",
            str(one.tree),
            "--stage",
            "network",
        ]
        environ = {"PATH": f"{one.tools}:{os.environ['PATH']}", "PYTHONPATH": str(SRC)}
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * (0.3 + 0.1 * number))
        killed += process.poll() is None
        process.kill()
        process.wait()
        ran = one.agent("--stage", "network")
        assert ran.status == 0, ran.err
        found = changed(one)
        assert {name for name in {*expected, *found} if expected.get(name) != found.get(name)} <= {
            name for name in expected if name.startswith("etc/ssh/ssh_host_")
        }
    assert killed


def test_locks_of_a_stage_that_was_killed_in_another_boot_are_removed(bench: Benches) -> None:
    """The process id in them belongs to another program now, and useradd would wait for it."""
    one = provisioned(bench)
    (marks,) = (one.tree / "var/lib/azure-init").glob("*.userdata")
    entry = {"run": 0.0, "boot": "earlier", "pid": os.getpid(), "temporaries": [], "locks": ["/etc/group.lock"]}
    marks.with_suffix(".modules").write_bytes(seal(entry) + b"\n")
    left = one.tree / "etc/group.lock"
    left.write_text(f"{os.getpid()}\0")
    ran = one.agent("--stage", "network")
    assert ran.status == 0 and "removed /etc/group.lock, left by a run that was interrupted" in ran.err
    assert not left.exists()
    assert b"grace" in (one.tree / "etc/passwd").read_bytes()
