"""The sudoers file: it gives sudo to the admin, and to no other account."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, User
from azureinit.errors import UserFailed
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Remove, Run, Satisfied, Step, Way, Write
from azureinit.plan.show import as_text
from azureinit.plan.sudoers import plan_sudoers
from support.facts import altered, parts
from support.trees import make_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

CONFIG = Config()
PATH = "/etc/sudoers.d/azure-init-user"


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return altered(read_facts(Machine(root=str(make_tree(tmp_path))), CONFIG), privileged=True)


def write(facts: Facts, name: str = "ada", *, has_password: bool = False) -> Write:
    (step,) = plan_sudoers(
        username=name, has_password=has_password, **parts(facts, "host", "accounts", "sudoers"), config=CONFIG
    )
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
    (step,) = plan_sudoers(
        username="ada",
        has_password=False,
        **parts(altered(facts, privileged=False), "host", "accounts", "sudoers"),
        config=CONFIG,
    )
    assert "(owner 0:0 not set: not root)" in as_text((step,), privileged=False)


def test_what_is_there_already_is_satisfied(facts: Facts) -> None:
    there = altered(facts, file=b"ada ALL=(ALL) NOPASSWD: ALL\n")
    assert plan_sudoers(
        username="ada", has_password=False, **parts(there, "host", "accounts", "sudoers"), config=CONFIG
    ) == (Satisfied(name="sudo", why="ada is a sudoer"),)
    # The same admin with a password now is another wish.
    assert write(there, has_password=True).was == b"ada ALL=(ALL) NOPASSWD: ALL\n"


def planned(facts: Facts, sudo: str, *, has_password: bool) -> Plan:
    config = Config(user=User(sudo=sudo))
    return plan_sudoers(
        username="ada", has_password=has_password, **parts(facts, "host", "accounts", "sudoers"), config=config
    )


def written(plan: Plan) -> bytes:
    (data,) = [
        action.data
        for item in plan
        for way in (item.ways if isinstance(item, Step) else ())
        for action in (way.actions if isinstance(way, Way) else ())
        if isinstance(action, Write)
    ]
    assert isinstance(data, bytes)
    return data


def test_it_can_be_turned_off_and_our_own_file_goes_then(facts: Facts) -> None:
    assert planned(facts, "none", has_password=False) == (Satisfied(name="sudo", why="user.sudo is none"),)
    (step,) = planned(altered(facts, file=b"ada ALL=(ALL) NOPASSWD: ALL\n"), "none", has_password=False)
    assert isinstance(step, Step)
    assert step.ways == (Way(backend="native", actions=(Remove(path=PATH),)),)


@pytest.mark.parametrize("has_password", [True, False])
def test_whether_the_password_is_asked_for_can_be_chosen(facts: Facts, has_password: bool) -> None:
    assert written(planned(facts, "nopasswd", has_password=has_password)) == b"ada ALL=(ALL) NOPASSWD: ALL\n"
    always = planned(facts, "password", has_password=has_password)
    assert written(always) == b"ada ALL=(ALL) ALL\n"
    told = [item.why for item in always if isinstance(item, Caution)]
    assert told == ([] if has_password else ["user.sudo is password, and ada has no password: sudo cannot be used"])


def test_an_account_that_has_a_password_of_its_own_can_be_asked_for_it(facts: Facts, tmp_path: Path) -> None:
    with (tmp_path / "etc/passwd").open("a") as file:
        file.write("ada:x:1000:1000::/home/ada:/bin/sh\n")
    with (tmp_path / "etc/shadow").open("a") as file:
        file.write("ada:$6$x$y:1::::::\n")
    facts = altered(read_facts(Machine(root=str(tmp_path)), CONFIG), privileged=True)
    assert not [item for item in planned(facts, "password", has_password=False) if isinstance(item, Caution)]


def test_a_machine_without_sudo_is_no_failure(facts: Facts) -> None:
    without = altered(facts, directory=False)
    (item,) = plan_sudoers(
        username="ada", has_password=False, **parts(without, "host", "accounts", "sudoers"), config=CONFIG
    )
    assert isinstance(item, Caution) and "/etc/sudoers.d" in item.why


def test_visudo_checks_an_odd_name_on_the_running_machine_only(facts: Facts) -> None:
    here = altered(facts, tools=frozenset({"visudo"}))
    assert write(here, "a.b").check is None
    assert write(altered(here, rooted=False), "a.b").check == Run(argv=("visudo", "-c", "-f", PATH), changes=False)
    assert write(altered(here, rooted=False, tools=frozenset()), "a.b").check is None
    assert write(altered(here, rooted=False), "ada").check is None


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
