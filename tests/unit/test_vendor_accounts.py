"""Accounts that a vendor keeps in /usr: recognised, never changed, and refused as the admin."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.backends.account import choose_ids
from azureinit.config.model import Config
from azureinit.errors import InvalidUsername
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Caution, Satisfied
from azureinit.record import replace
from support.facts import altered, parts
from support.immutable_trees import VENDOR_GROUP, VENDOR_PASSWD, azure_linux, coreos, flatcar


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def facts_of(root: Path) -> Facts:
    return read_facts(Machine(root=str(root)), Config())


def plan(name: str, facts: Facts, *groups: str) -> tuple[object, ...]:
    return plan_account(
        username=name,
        groups=groups,
        password_hash=None,
        password_done=False,
        **parts(facts, "host", "accounts"),
        config=Config(),
        today=20000,
    )


@pytest.mark.parametrize("shape", [flatcar, coreos])
def test_they_are_those_that_etc_has_not(root: Path, shape: object) -> None:
    assert callable(shape)
    shape(root)
    accounts = facts_of(root).accounts
    assert {user.name for user in accounts.vendor_users} == {"docker", "nobody"}
    assert accounts.user("docker") is None and accounts.vendor_user("docker") is not None
    assert accounts.user("core") is not None and accounts.vendor_user("core") is None


def test_where_nsswitch_names_no_such_service_there_are_none(root: Path) -> None:
    azure_linux(root)
    (root / "usr/lib/passwd").write_text(VENDOR_PASSWD)
    assert facts_of(root).accounts.vendor_users == ()


@pytest.mark.parametrize(("shape", "name"), [(flatcar, "docker"), (coreos, "docker")])
def test_an_admin_cannot_be_one_of_them(root: Path, shape: object, name: str) -> None:
    assert callable(shape)
    shape(root)
    with pytest.raises(InvalidUsername, match=f"'{name}' belongs to the system .* among the accounts in /usr"):
        plan(name, facts_of(root))


def test_the_vendor_s_own_admin_is_welcome_though_its_number_is_the_system_s(root: Path) -> None:
    flatcar(root)
    facts = facts_of(root)
    names = {item.name: item for item in plan("core", facts) if isinstance(item, Satisfied)}
    assert {"user core", "home of core"} <= set(names)
    with pytest.raises(InvalidUsername, match="belongs to the system"):
        plan("core", altered(facts, distro=replace(facts.host.distro, admin=None)))


def test_a_group_of_theirs_is_told_of(root: Path) -> None:
    flatcar(root)
    told = [item.why for item in plan("ada", facts_of(root), "sudo", "adm", "none") if isinstance(item, Caution)]
    assert told == [
        "group 'adm' is in /usr and not in /etc/group, so that no member can be added; skipped",
        "group 'none' does not exist; skipped",
    ]


def test_their_numbers_are_taken(root: Path) -> None:
    coreos(root)
    (root / "usr/lib/passwd").write_text(VENDOR_PASSWD + "lab:x:1007:1007::/:/bin/sh\n")
    (root / "usr/lib/group").write_text(VENDOR_GROUP + "lab:x:1008:\n")
    ids = choose_ids("ada", facts_of(root).accounts)
    assert not isinstance(ids, str) and (ids.uid, ids.gid) == (1008, 1009)
