"""The sudoers file as sudo reads it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from azureinit.config.model import Config
from azureinit.errors import UserFailed
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.actions import Step, Way, Write
from azureinit.plan.sudoers import plan_sudoers
from support.facts import altered, parts
from support.need import need, need_root
from support.trees import make_tree

CONFIG = Config()


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return altered(read_facts(Machine(root=str(make_tree(tmp_path))), CONFIG), privileged=True)


def write(facts: Facts, name: str = "ada", *, has_password: bool = False) -> Write:
    given = parts(facts, "host", "accounts", "sudoers")
    (step,) = plan_sudoers(username=name, has_password=has_password, **given, config=CONFIG)
    assert isinstance(step, Step) and step.failure is UserFailed
    (way,) = step.ways
    assert isinstance(way, Way)
    (action,) = way.actions
    assert isinstance(action, Write)
    return action


def line(name: str, facts: Facts) -> bytes:
    data = write(facts, name).data
    assert isinstance(data, bytes)
    return data


ORDINARY = ["ada", "a.b-c_1", "_x", "host$", "sudo", "list", "include", "includedir", "group"]
ALIKE = ["ADMINS", "A.B", "Ada", "1st", "1.2.3.4", "sudoedit", "sha224", "sha256", "sha384", "sha512"]
KEYWORDS = [
    "Defaults",
    "User_Alias",
    "Cmnd_Alias",
    "Cmd_Alias",
    "Runas_Alias",
    "Host_Alias",
    "NOPASSWD",
    "ROLE",
    "TYPE",
]


@pytest.mark.parametrize("name", [*ORDINARY, *ALIKE, *KEYWORDS])
def test_sudo_reads_the_user_that_was_meant(facts: Facts, tmp_path: Path, name: str) -> None:
    file = tmp_path / "sudoers"
    file.write_bytes(line(name, facts))
    subprocess.run([need("visudo"), "-c", "-q", "-f", file], check=True)
    read = subprocess.run([need("cvtsudoers"), "-f", "json", file], capture_output=True, check=True)
    (spec,) = json.loads(read.stdout)["User_Specs"]
    assert spec["User_List"] == [{"username": name}]


def test_an_admin_called_all_makes_nobody_else_root(facts: Facts, tmp_path: Path) -> None:
    need_root()
    file = tmp_path / "sudoers"
    file.write_bytes(line("ALL", facts))
    file.chmod(0o440)
    script = f"mount --bind {file} /etc/sudoers && exec {need('sudo')} -l -U daemon"
    asked = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    assert "not allowed" in asked.stdout, asked
