"""The admin becomes root, nobody else does, and sudo itself agrees."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from azureinit.config.model import Config, User
from azureinit.errors import UserFailed
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Run, Satisfied, Step, Way, Write
from azureinit.plan.show import as_text
from azureinit.plan.sudoers import plan_sudoers
from azureinit.record import replace
from support.need import need, need_root
from support.trees import make_tree

CONFIG = Config()
PATH = "/etc/sudoers.d/azure-init-user"


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return replace(read_facts(Machine(root=str(make_tree(tmp_path))), CONFIG), privileged=True)


def write(facts: Facts, name: str = "ada", *, has_password: bool = False) -> Write:
    (step,) = plan_sudoers(username=name, has_password=has_password, facts=facts, config=CONFIG)
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


def test_without_a_password_none_is_asked_for(facts: Facts) -> None:
    wanted = b"ada ALL=(ALL) NOPASSWD: ALL\n"
    assert write(facts) == Write(path=PATH, data=wanted, mode=0o440, owner="0:0")


def test_with_a_password_it_is_asked_for(facts: Facts) -> None:
    assert write(facts, has_password=True).data == b"ada ALL=(ALL) ALL\n"


def test_unprivileged_the_plan_still_says_whose_it_should_be(facts: Facts) -> None:
    (step,) = plan_sudoers(username="ada", has_password=False, facts=replace(facts, privileged=False), config=CONFIG)
    assert "(owner 0:0 not set: not root)" in as_text((step,), privileged=False)


def test_what_is_there_already_is_satisfied(facts: Facts) -> None:
    there = replace(facts, sudoers_file=b"ada ALL=(ALL) NOPASSWD: ALL\n")
    assert plan_sudoers(username="ada", has_password=False, facts=there, config=CONFIG) == (
        Satisfied(name="sudo", why="ada is a sudoer"),
    )
    # The same admin with a password now is another wish.
    assert write(there, has_password=True).was == b"ada ALL=(ALL) NOPASSWD: ALL\n"


def test_it_can_be_turned_off(facts: Facts) -> None:
    (item,) = plan_sudoers(username="ada", has_password=False, facts=facts, config=Config(user=User(sudo=False)))
    assert item == Satisfied(name="sudo", why="user.sudo is false")


def test_a_machine_without_sudo_is_no_failure(facts: Facts) -> None:
    without = replace(facts, sudoers_dir=False)
    (item,) = plan_sudoers(username="ada", has_password=False, facts=without, config=CONFIG)
    assert isinstance(item, Caution) and "/etc/sudoers.d" in item.why


def test_visudo_checks_an_odd_name_on_the_running_machine_only(facts: Facts) -> None:
    here = replace(facts, tools=frozenset({"visudo"}))
    assert write(here, "a.b").check is None
    assert write(replace(here, rooted=False), "a.b").check == Run(argv=("visudo", "-c", "-f", PATH))
    assert write(replace(here, rooted=False, tools=frozenset()), "a.b").check is None
    assert write(replace(here, rooted=False), "ada").check is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ada", "ada"),
        ("_ada", "_ada"),
        ("Ada", '"Ada"'),
        ("a.b-c_1", "a.b-c_1"),
        ("1st", '"1st"'),
        ("Defaults", '"Defaults"'),
        ("sudoedit", '"sudoedit"'),
        ("ALL", '"ALL"'),
        ("ADMINS", '"ADMINS"'),
        ("A1_", '"A1_"'),
    ],
)
def test_a_name_is_neither_an_alias_nor_a_keyword_nor_everybody(facts: Facts, name: str, told: str) -> None:
    assert line(name, facts) == f"{told} ALL=(ALL) NOPASSWD: ALL\n".encode()


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
