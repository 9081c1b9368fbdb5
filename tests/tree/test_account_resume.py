"""Accounts that exist in part, interrupted runs and hostile trees."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from azureinit.backends.account import COMMENT
from azureinit.errors import UserFailed
from azureinit.machine import Machine
from azureinit.plan.actions import Step
from azureinit.record import Secret
from support.account_trees import GROUP, PASSWD, RHEL_DEFS, RHEL_USERADD, apply, make_tree, plan_for, snapshot, today
from support.need import need_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def test_a_password_goes_into_the_field_and_nowhere_else(tmp_path: Path) -> None:
    need_root()
    make_tree(tmp_path)
    machine = Machine(root=str(tmp_path))
    apply(machine, plan_for(machine))
    before = snapshot(tmp_path)
    made = Secret("$6$salt$" + "h" * 86)
    assert apply(machine, plan_for(machine, password=made)) == ["password bob"]
    after = snapshot(tmp_path)
    assert {path for path in after if after[path] != before.get(path)} == {"etc/shadow", "etc/shadow-"}
    assert f"bob:{made.text()}:{today()}:0:99999:7:::\n" in (tmp_path / "etc/shadow").read_text()
    assert not any(isinstance(item, Step) for item in plan_for(machine, password=made))


def test_an_existing_user_gains_groups_and_loses_nothing(tmp_path: Path) -> None:
    need_root()
    passwd = PASSWD + "bob:x:1000:100:Bob B.:/home/bob:/bin/zsh\n"
    make_tree(tmp_path, passwd=passwd, group=GROUP.replace("adm:x:4:daemon", "adm:x:4:daemon,bob"))
    (tmp_path / "home/bob").mkdir(mode=0o711)
    (tmp_path / "home/bob/.bashrc").write_text("mine")
    machine = Machine(root=str(tmp_path))
    before = snapshot(tmp_path)
    assert apply(machine, plan_for(machine, ("adm", "sudo"))) == ["groups of bob"]
    after = snapshot(tmp_path)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {"etc/group", "etc/group-", "etc/gshadow", "etc/gshadow-", "etc/.pwd.lock"}
    assert "sudo:x:27:bob\n" in (tmp_path / "etc/group").read_text()
    assert "adm:x:4:daemon,bob\n" in (tmp_path / "etc/group").read_text()


@pytest.mark.parametrize("cut", range(12))
def test_cut_off_anywhere_the_next_run_arrives_at_the_same_tree(cut: int, tmp_path: Path) -> None:
    """Homes, then each account file: after `cut` writes the first run dies."""
    need_root()
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for root in (whole, broken):
        make_tree(root, defs=RHEL_DEFS, useradd=RHEL_USERADD)
    apply(Machine(root=str(whole)), plan_for(Machine(root=str(whole)), ("sudo", "adm")))

    machine = DyingMachine(root=str(broken), writes=cut)
    with pytest.raises(Died):
        apply(machine, plan_for(machine, ("sudo", "adm")))
    again = Machine(root=str(broken))
    apply(again, plan_for(again, ("sudo", "adm")))
    assert snapshot(broken) == snapshot(whole)


def test_what_a_killed_useradd_leaves_is_completed(tmp_path: Path) -> None:
    need_root()
    make_tree(tmp_path)
    with (tmp_path / "etc/passwd").open("a") as passwd:
        passwd.write(f"bob:x:1000:1000:{COMMENT}:/home/bob:/bin/sh\n")
    (tmp_path / "home/bob").mkdir(mode=0o000)
    machine = Machine(root=str(tmp_path))
    assert apply(machine, plan_for(machine, ("sudo",))) == ["user bob", "home of bob", "groups of bob"]
    assert f"bob:*:{today()}:0:99999:7:::\n" in (tmp_path / "etc/shadow").read_text()
    assert "bob:x:1000:\n" in (tmp_path / "etc/group").read_text()
    home = (tmp_path / "home/bob").stat()
    assert (home.st_uid, home.st_gid, stat.S_IMODE(home.st_mode)) == (1000, 1000, 0o755)
    assert (tmp_path / "home/bob/.bashrc").stat().st_uid == 1000
    assert not any(isinstance(item, Step) for item in plan_for(machine, ("sudo",)))


def test_a_home_that_is_there_keeps_its_files(tmp_path: Path) -> None:
    need_root()
    make_tree(tmp_path)
    (tmp_path / "home/bob").mkdir()
    (tmp_path / "home/bob/.bashrc").write_text("mine")
    machine = Machine(root=str(tmp_path))
    apply(machine, plan_for(machine))
    assert (tmp_path / "home/bob/.bashrc").read_text() == "mine"
    assert (tmp_path / "home/bob/.rc").is_symlink()
    assert (tmp_path / "home/bob").stat().st_uid == 1000


def test_a_link_planted_where_the_home_belongs_is_not_followed(tmp_path: Path) -> None:
    need_root()
    make_tree(tmp_path / "root")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root/home/bob").symlink_to(tmp_path / "elsewhere")
    machine = Machine(root=str(tmp_path / "root"))
    with pytest.raises(UserFailed):
        apply(machine, plan_for(machine))
    assert not list((tmp_path / "elsewhere").iterdir())
    assert "bob" not in (tmp_path / "root/etc/passwd").read_text()


def test_an_unprivileged_tree_is_complete_but_for_its_owners(tmp_path: Path) -> None:
    need_root()  # to make the tree
    make_tree(tmp_path)
    machine = Machine(root=str(tmp_path))
    machine.privileged = False
    apply(machine, plan_for(machine, ("sudo",)))
    assert (tmp_path / "home/bob/.config/deep/run").stat().st_uid == os.geteuid()
    assert f"bob:x:1000:1000:{COMMENT}:/home/bob:/bin/sh\n" in (tmp_path / "etc/passwd").read_text()


def test_a_link_in_the_mailboxs_place_is_never_followed(tmp_path: Path) -> None:
    need_root()
    make_tree(tmp_path, defs=RHEL_DEFS, useradd=RHEL_USERADD)
    machine = Machine(root=str(tmp_path))
    spool, precious = tmp_path / "var/spool/mail", tmp_path / "etc/precious"
    spool.chmod(0o1777)
    precious.write_text("root's")
    plan = plan_for(machine)
    (spool / "bob").symlink_to("/etc/precious")
    with pytest.raises(UserFailed, match="/var/spool/mail/bob: it is not a regular file"):
        apply(machine, plan)
    assert apply(machine, plan_for(machine)) == ["user bob"]
    assert (precious.read_text(), precious.stat().st_uid) == ("root's", 0)
    assert (spool / "bob").is_symlink()


class Died(BaseException):
    """The process is gone: nobody catches it."""


class DyingMachine(Machine):
    def __init__(self, *, root: str, writes: int) -> None:
        super().__init__(root=root)
        self.left = writes

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Died

    def write(self, *args: Any, **options: Any) -> None:
        self._spend()
        super().write(*args, **options)

    def make_dir(self, *args: Any, **options: Any) -> None:
        self._spend()
        super().make_dir(*args, **options)

    def symlink(self, *args: Any, **options: Any) -> None:
        self._spend()
        super().symlink(*args, **options)
