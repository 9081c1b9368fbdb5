"""The backends for accounts: their actions, and their reasons to decline."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, PasswordProvisioners, User, UserProvisioners
from azureinit.errors import InvalidUsername, PasswordFailed, UserFailed
from azureinit.facts.accounts import read_accounts
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Caution, Declined, Link, Locked, Run, Satisfied, Step, Way
from azureinit.record import Secret, replace
from support.facts import altered, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.plan.actions import Plan

TOOLS = frozenset(("useradd", "usermod", "chpasswd"))
HASH = Secret("$6$salt$" + "h" * 86)
FILES = {
    "passwd": "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "group": "root:x:0:\nadm:x:4:\nsudo:x:27:\nusers:x:100:\n",
    "shadow": "root:*:1::::::\ndaemon:*:1::::::\nnobody:*:1::::::\n",
    "gshadow": "root:*::\nadm:*::\nsudo:*::\nusers:*::\n",
    "login.defs": "USERGROUPS_ENAB yes\nUID_MIN 1000\n",
}
ANN = {
    **FILES,
    "passwd": FILES["passwd"] + "ann:x:1000:100::/home/ann:/bin/sh\n",
    "shadow": FILES["shadow"] + "ann:$6$old$old:1::::::\n",
}


def facts_of(root: Path, files: dict[str, str] | None = None, **changes: Any) -> Facts:
    """As on a running Debian where we are root, unless `changes` says otherwise."""
    (root / "etc").mkdir(exist_ok=True)
    for name, text in (files or FILES).items():
        (root / "etc" / name).write_text(text)
    facts = read_facts(Machine(root=str(root)), Config())
    return altered(facts, **{"root": "", "rooted": False, "privileged": True, "tools": TOOLS, **changes})


def plan(facts: Facts, config: Config = Config(), name: str = "bob", **options: Any) -> Plan:  # noqa: B008
    asked = {"groups": (), "password_hash": None, "password_done": False, **options}
    return plan_account(username=name, **parts(facts, "host", "accounts"), config=config, today=20000, **asked)


def step(plan: Plan, name: str) -> Step:
    (found,) = (item for item in plan if item.name == name and isinstance(item, Step))
    return found


def why_declined(plan: Plan, name: str) -> dict[str, str]:
    return {way.backend: way.why for way in step(plan, name).ways if isinstance(way, Declined)}


def actions(plan: Plan, name: str, backend: str) -> tuple[Any, ...]:
    (way,) = (way for way in step(plan, name).ways if way.backend == backend)
    assert isinstance(way, Way), way
    return way.actions


def test_useradd_makes_the_account_in_one_call(tmp_path: Path) -> None:
    made = plan(facts_of(tmp_path), groups=("sudo", "adm", "sudo"))
    (run,) = actions(made, "user bob", "useradd")
    assert isinstance(run, Run)
    assert run.argv[-2:] == ("--", "bob")
    for option, value in (("--home-dir", "/home/bob"), ("--groups", "sudo,adm"), ("--password", "*")):
        assert run.argv[run.argv.index(option) + 1] == value
    assert "--gid" not in run.argv
    assert step(made, "user bob").failure is UserFailed
    assert [way.backend for way in step(made, "user bob").ways] == ["files", "useradd"]


def test_the_configured_order_is_the_plans(tmp_path: Path) -> None:
    config = Config(user_provisioners=UserProvisioners(backends=("useradd", "files")))
    assert [way.backend for way in step(plan(facts_of(tmp_path), config), "user bob").ways] == ["useradd", "files"]
    config = Config(user_provisioners=UserProvisioners(backends=()))
    assert step(plan(facts_of(tmp_path), config), "user bob").ways == ()


def test_an_existing_group_of_that_name_becomes_the_primary_one(tmp_path: Path) -> None:
    files = {**FILES, "group": FILES["group"] + "bob:x:55:\n"}
    made = plan(facts_of(tmp_path, files))
    (run,) = actions(made, "user bob", "useradd")
    assert run.argv[run.argv.index("--gid") + 1] == "bob"
    edits = {edit.path: edit for edit in actions(made, "user bob", "files")[-1].edits}
    assert edits["/etc/passwd"].line.split(":")[2:4] == ["1000", "55"]
    assert "/etc/group" not in edits


def test_passwd_is_written_last_so_that_the_account_appears_whole(tmp_path: Path) -> None:
    *_home, locked = actions(plan(facts_of(tmp_path), groups=("sudo",)), "user bob", "files")
    assert isinstance(locked, Locked)
    assert list(dict.fromkeys(edit.path for edit in locked.edits)) == [
        "/etc/gshadow",
        "/etc/group",
        "/etc/shadow",
        "/etc/passwd",
    ]


@pytest.mark.parametrize(
    ("changes", "useradd", "files"),
    [
        ({"rooted": True}, "running system", None),
        ({"rooted": True, "privileged": False}, "running system", None),
        ({"privileged": False}, "only root", "only root"),
        ({"tools": frozenset()}, "useradd is not installed", None),
        ({"selinux": True}, None, "SELinux"),
    ],
)
def test_backends_decline_where_they_do_not_belong(
    changes: dict[str, Any], useradd: str | None, files: str | None, tmp_path: Path
) -> None:
    why = why_declined(plan(facts_of(tmp_path, **changes)), "user bob")
    for backend, reason in (("useradd", useradd), ("files", files)):
        assert (backend in why) is (reason is not None), why
        assert (reason or "") in why.get(backend, "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nss_plain": False, "nss_why": "nsswitch.conf asks sss for passwd"}, "asks sss"),
        ({"caches": ("nscd",)}, "nscd is running"),
        ({"unreadable": ("/etc/shadow",)}, "/etc/shadow cannot be read"),
        ({"shadow": None}, "no /etc/shadow"),
        ({"skeleton_problem": "/etc/skel is odd"}, "/etc/skel is odd"),
    ],
)
def test_files_declines_where_files_are_not_all_there_is(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    facts = replace(facts, accounts=replace(facts.accounts, **change))
    assert reason in why_declined(plan(facts), "user bob")["files"]


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("login.defs.d/70-yast.defs", "UID_MIN 5000\n", "/etc/login.defs.d/70-yast.defs"),
        ("shadow-maint/useradd-post.d/quota", "#!/bin/sh\n", "/etc/shadow-maint/useradd-post.d/quota"),
        ("login.defs", "USERADD_CMD /usr/sbin/useradd.local\n", "/usr/sbin/useradd.local"),
    ],
)
def test_what_only_useradd_heeds_makes_it_the_one_to_do_it(tmp_path: Path, path: str, text: str, named: str) -> None:
    place = tmp_path / "etc" / path
    place.parent.mkdir(parents=True)
    facts = facts_of(tmp_path, {**FILES, path: text})
    assert why_declined(plan(facts), "user bob") == {"files": f"only useradd can apply {named}"}
    others: tuple[dict[str, Any], ...] = ({"rooted": True}, {"tools": frozenset()})
    for other in others:
        assert "files" not in why_declined(plan(altered(facts, **other)), "user bob"), "where it is not there to"
    half = facts_of(tmp_path, {**ANN, path: text, "shadow": FILES["shadow"]})
    assert "files" not in why_declined(plan(half, name="ann"), "user ann"), "it completes no account"


def test_a_tree_is_not_the_caches_business(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, rooted=True)
    facts = replace(facts, accounts=replace(facts.accounts, nss_plain=False, caches=("nscd",)))
    assert "files" not in why_declined(plan(facts), "user bob")


def test_a_date_only_useradd_can_read_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/useradd").write_text("EXPIRE=next tuesday\n")
    assert "EXPIRE" in why_declined(plan(facts_of(tmp_path)), "user bob")["files"]


def test_no_free_number_is_a_reason(tmp_path: Path) -> None:
    files = {**FILES, "login.defs": "USERGROUPS_ENAB yes\nUID_MIN 1\nUID_MAX 1\n"}
    assert "no user number" in why_declined(plan(facts_of(tmp_path, files)), "user bob")["files"]


def test_links_into_the_skeleton_become_links_into_the_home(tmp_path: Path) -> None:
    (tmp_path / "etc/skel").mkdir(parents=True)
    (tmp_path / "etc/skel/abs").symlink_to("/etc/skel/x")
    (tmp_path / "etc/skel/out").symlink_to("/etc/skeleton")
    (locked,) = actions(plan(facts_of(tmp_path)), "user bob", "files")
    links = {action.path: action.target for action in locked.first if isinstance(action, Link)}
    assert links == {"/home/bob/abs": "/home/bob/x", "/home/bob/out": "/etc/skeleton"}


def test_groups_that_do_not_exist_are_skipped_with_a_caution(tmp_path: Path) -> None:
    made = plan(facts_of(tmp_path), groups=("docker", "sudo", "bob"))
    cautions = [item for item in made if isinstance(item, Caution)]
    assert [item.why for item in cautions] == ["group 'docker' does not exist; skipped"]


@pytest.mark.parametrize(
    ("groups", "sudo", "joined"),
    [
        ("adm:x:4:\nsudo:x:27:\n", "auto", "adm,sudo"),
        ("adm:x:4:\nwheel:x:10:\n", "password", "adm,wheel"),
        ("adm:x:4:\nsudo:x:27:\nwheel:x:10:\n", "none", "adm"),
        ("users:x:100:\n", "auto", ""),
    ],
)
def test_without_a_word_about_groups_a_new_account_is_an_administrator_s(
    tmp_path: Path, groups: str, sudo: str, joined: str
) -> None:
    facts = facts_of(tmp_path, {**FILES, "group": f"root:x:0:\n{groups}", "gshadow": ""})
    made = plan(facts, Config(user=User(sudo=sudo)), groups=None)
    (run,) = actions(made, "user bob", "useradd")
    assert run.argv[run.argv.index("--groups") + 1 :][:1] == (joined,) if joined else "--groups" not in run.argv
    assert not [item for item in made if isinstance(item, Caution)], "nothing was asked for that is missing"
    (none,) = actions(plan(facts, groups=()), "user bob", "useradd")
    assert "--groups" not in none.argv


def test_without_a_word_about_groups_an_existing_account_gains_none(tmp_path: Path) -> None:
    (tmp_path / "home/ann").mkdir(parents=True)
    (tmp_path / "home/ann/.keep").touch()
    assert not [item for item in plan(facts_of(tmp_path, ANN), name="ann", groups=None) if isinstance(item, Step)]


def test_an_account_whose_creation_was_interrupted_joins_them_too(tmp_path: Path) -> None:
    """useradd writes passwd first: the group file, with the memberships, is written last."""
    files = {**FILES, "passwd": FILES["passwd"] + "bob:x:1000:1000::/home/bob:/bin/sh\n"}
    *_home, locked = actions(plan(facts_of(tmp_path, files), groups=None), "user bob", "files")
    members = {(edit.path, edit.key) for edit in locked.edits if edit.member == "bob"}
    assert {("/etc/group", "adm"), ("/etc/group", "sudo")} <= members


def test_gshadow_is_written_before_group_whose_members_count(tmp_path: Path) -> None:
    """A crash between the two would leave gshadow without the member for ever."""
    made = plan(facts_of(tmp_path, ANN), name="ann", groups=("sudo", "adm"))
    (locked,) = (action for action in actions(made, "groups of ann", "files") if isinstance(action, Locked))
    assert [edit.path for edit in locked.edits] == ["/etc/gshadow"] * 2 + ["/etc/group"] * 2


def test_an_existing_user_gains_only_what_is_missing(tmp_path: Path) -> None:
    files = {**ANN, "group": ANN["group"].replace("adm:x:4:", "adm:x:4:ann")}
    (tmp_path / "home/ann").mkdir(parents=True)
    (tmp_path / "home/ann/.keep").touch()
    made = plan(facts_of(tmp_path, files), name="ann", groups=("adm", "sudo", "users"))
    assert [item.name for item in made if isinstance(item, Step)] == ["groups of ann"]
    (run,) = actions(made, "groups of ann", "useradd")
    assert run.argv == ("usermod", "--append", "--groups", "sudo", "--", "ann")
    (locked,) = actions(made, "groups of ann", "files")
    assert {(edit.path, edit.key, edit.member) for edit in locked.edits} == {
        ("/etc/group", "sudo", "ann"),
        ("/etc/gshadow", "sudo", "ann"),
    }


@pytest.mark.parametrize("name", ["root", "daemon", "nobody", "-rf", "a:b", "a\nb"])
def test_names_of_the_system_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidUsername):
        plan(facts_of(tmp_path), name=name)


def test_a_password_reaches_chpasswd_on_stdin_only(tmp_path: Path) -> None:
    made = plan(facts_of(tmp_path), password_hash=HASH)
    password = step(made, "password bob")
    assert password.once
    assert password.failure is PasswordFailed
    (run,) = actions(made, "password bob", "chpasswd")
    assert run.argv == ("chpasswd", "-e")
    assert run.stdin == Secret(b"bob:" + HASH.reveal() + b"\n")
    assert "$6$" not in repr(made)
    (locked,) = actions(made, "password bob", "files")
    assert locked.edits[0].fields == ((1, HASH), (2, "20000"))


def test_passwd_only_locks(tmp_path: Path) -> None:
    config = Config(password_provisioners=PasswordProvisioners(backends=("passwd",)))
    facts = facts_of(tmp_path, ANN)
    why = 'it only locks: add "chpasswd" to password_provisioners.backends'
    assert why_declined(plan(facts, config, password_hash=HASH), "password bob") == {"passwd": why}
    kept = plan(facts, config, name="ann")[-1]
    assert isinstance(kept, Satisfied)
    assert "keeps" in kept.why
    (run,) = actions(plan(facts, config, name="ann", lock=True), "password ann", "passwd")
    assert run.argv == ("usermod", "--password", "*", "--", "ann")


def test_a_password_is_set_once(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, ANN)
    assert isinstance(plan(facts, name="ann", password_hash=HASH, password_done=True)[-1], Satisfied)
    assert isinstance(plan(facts, name="ann", password_hash=Secret("$6$old$old"))[-1], Satisfied)
    assert isinstance(plan(facts, name="ann", password_hash=HASH)[-1], Step)
    assert isinstance(plan(facts)[-1], Satisfied)


def test_a_home_useradd_would_leave_to_a_stranger_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "home/bob").mkdir(parents=True)
    run, home, *_rest = actions(plan(facts_of(tmp_path)), "user bob", "useradd")
    assert isinstance(run, Run)
    assert (home.path, home.owner) == ("/home/bob", "bob")


def test_facts_of_the_running_system_are_readable() -> None:
    assert read_accounts(Machine()).user("root")


@pytest.mark.parametrize("home", ["/root", "/root/", "/home/ann"])
def test_a_home_that_another_account_has_too_keeps_its_owner(tmp_path: Path, home: str) -> None:
    (tmp_path / "root").mkdir()
    passwd = f"root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::{home}:/bin/sh\n"
    facts = facts_of(tmp_path, {**FILES, "passwd": passwd, "shadow": "bob:*:1::::::\n", "group": "bob:x:1001:\n"})
    (item,) = (item for item in plan(facts) if item.name == "home of bob")
    assert isinstance(item, Satisfied) and "stays as it is" in item.why
