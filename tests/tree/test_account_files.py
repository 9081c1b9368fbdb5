"""The `files` backend compared with useradd: from the same tree, both make the same tree."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from azureinit.apply.executor import apply_step
from azureinit.backends.account import COMMENT
from azureinit.config.model import Config, PasswordProvisioners, UserProvisioners
from azureinit.errors import UserFailed
from azureinit.facts.gather import read_facts
from azureinit.machine import Machine
from azureinit.memory.journal import Journal
from azureinit.plan.account import plan_account
from azureinit.plan.actions import Run, Step, Way
from azureinit.record import Secret, replace
from support.facts import altered, parts
from support.need import need, need_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from azureinit.plan.actions import Plan

PASSWD = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUP = "root:x:0:\ndaemon:x:1:\nadm:x:4:daemon\nmail:x:8:\nsudo:x:27:\nusers:x:100:\nnogroup:x:65534:\n"
DEBIAN_DEFS = """\
# Debian
MAIL_DIR        /var/mail
UMASK\t\t022
PASS_MAX_DAYS\t99999
PASS_MIN_DAYS\t0
PASS_WARN_AGE\t7
UID_MIN\t\t\t 1000
UID_MAX\t\t\t60000
SUB_UID_MIN\t\t   100000
SUB_UID_MAX\t\t600100000
SUB_UID_COUNT\t\t    65536
GID_MIN\t\t\t 1000
GID_MAX\t\t\t60000
USERGROUPS_ENAB yes
ENCRYPT_METHOD SHA512
"""
DEBIAN_USERADD = "# defaults\nSHELL=/bin/sh\n# GROUP=100\nSKEL=/etc/skel\n"
RHEL_DEFS = DEBIAN_DEFS.replace("/var/mail", "/var/spool/mail") + "HOME_MODE\t0700\n"
RHEL_USERADD = "GROUP=100\nHOME=/home\nINACTIVE=-1\nEXPIRE=\nSHELL=/bin/bash\nSKEL=/etc/skel\nCREATE_MAIL_SPOOL=yes\n"


def shadow_of(passwd: str) -> str:
    return "".join(f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in passwd.splitlines() if line[:1] != "+")


def gshadow_of(group: str) -> str:
    rows = (line.split(":") for line in group.splitlines())
    return "".join(f"{row[0]}:*::{''.join(row[3:])}\n" for row in rows)


def make_tree(
    root: Path,
    *,
    passwd: str = PASSWD,
    group: str = GROUP,
    defs: str = DEBIAN_DEFS,
    useradd: str = DEBIAN_USERADD,
    gshadow: bool = True,
    subuid: str | None = "",
    subgid: str | None = "",
) -> None:
    etc = root / "etc"
    for directory in (etc / "default", etc / "skel" / ".config" / "deep", root / "home", root / "var/mail"):
        directory.mkdir(parents=True)
    (root / "var/spool/mail").mkdir(parents=True)
    contents = {"passwd": passwd, "group": group, "shadow": shadow_of(passwd), "login.defs": defs}
    contents.update({"default/useradd": useradd, "nsswitch.conf": "passwd: files systemd\n"})
    contents.update({"gshadow": gshadow_of(group)} if gshadow else {})
    contents.update({name: text for name, text in (("subuid", subuid), ("subgid", subgid)) if text is not None})
    for name, text in contents.items():
        (etc / name).write_text(text)
        (etc / name).chmod(0o640 if "shadow" in name else 0o644)
    (etc / "skel" / ".bashrc").write_bytes(b"# bash\n\xff\n")
    (etc / "skel" / ".config" / "deep" / "run").write_text("#!/bin/sh\n")
    (etc / "skel" / ".config" / "deep" / "run").chmod(0o750)
    (etc / "skel" / ".config").chmod(0o700)
    (etc / "skel" / ".rc").symlink_to(".bashrc")
    for path in (etc / "skel").rglob("*"):
        os.chown(path, 0, 0, follow_symlinks=False)
    for name in ("shadow", "gshadow"):
        if (etc / name).exists():
            os.chown(etc / name, 0, 42)


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        inside = os.readlink(path) if kind == stat.S_IFLNK else path.read_bytes() if kind == stat.S_IFREG else None
        found[str(path.relative_to(root))] = (oct(status.st_mode), status.st_uid, status.st_gid, inside)
    return found


FILES_ONLY = Config(
    user_provisioners=UserProvisioners(backends=("files",)),
    password_provisioners=PasswordProvisioners(backends=("files",)),
)
TOOLS_ONLY = Config(
    user_provisioners=UserProvisioners(backends=("useradd",)),
    password_provisioners=PasswordProvisioners(backends=("chpasswd",)),
)


def plan_for(
    machine: Machine, groups: tuple[str, ...] = (), password: Secret | None = None, *, tools: bool = False
) -> Plan:
    """With `tools`: as if the tree were the running system."""
    facts = read_facts(machine, FILES_ONLY)
    if tools:
        facts = altered(facts, rooted=False, tools=frozenset(("useradd", "usermod", "chpasswd")))
    return plan_account(
        username="bob",
        groups=groups,
        password_hash=password,
        password_done=False,
        **parts(facts, "host", "accounts"),
        config=TOOLS_ONLY if tools else FILES_ONLY,
        today=today(),
    )


def run_tools(root: Path, groups: tuple[str, ...] = (), password: Secret | None = None) -> None:
    """What the plan would run, made to work on the tree by the option shadow-utils have for that."""
    need_root()
    for item in plan_for(Machine(root=str(root)), groups, password, tools=True):
        for way in item.ways if isinstance(item, Step) else ():
            assert isinstance(way, Way), way
            for run in way.actions:
                assert isinstance(run, Run), run
                tool, *rest = run.argv
                into = "--root" if tool == "chpasswd" else "--prefix"
                stdin = run.stdin.reveal() if run.stdin else b""
                argv = [need(tool), into, str(root), *rest]
                subprocess.run(argv, check=True, input=stdin, stderr=subprocess.PIPE)


def today() -> int:
    return int(time.time()) // 86400


def apply(machine: Machine, plan: Plan) -> list[str]:
    """The names of the steps it took. Nothing is journalled: these trees are compared whole."""
    journal = Journal("/journal", [])
    journal.locks = {f"/etc/{name}.lock" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")}
    steps = [replace(item, once=False) for item in plan if isinstance(item, Step)]
    for step in steps:
        apply_step(machine, step, journal=journal, deadline=float("inf"))
    return [step.name for step in steps]


CASES: dict[str, dict[str, Any]] = {
    "debian": {},
    "debian with groups": {"groups": ("sudo", "adm")},
    "rhel": {"defs": RHEL_DEFS, "useradd": RHEL_USERADD, "groups": ("adm",)},
    "rhel without group mail": {"defs": RHEL_DEFS, "useradd": RHEL_USERADD, "group": GROUP.replace("mail:x:8:\n", "")},
    "no gshadow": {"gshadow": False, "groups": ("sudo",)},
    "no subordinate ids": {"subuid": None, "subgid": None},
    "subordinate ids with a hole": {
        "subuid": "a:100000:65536\nb:231072:65536\nc:300000:10\n",
        "subgid": "a:100000:1\nb:500000:65536\n",
    },
    "subordinate ids turned off": {"defs": DEBIAN_DEFS.replace("    65536", "    0") + "SUB_GID_COUNT 0\n"},
    "no group of one's own": {"defs": DEBIAN_DEFS.replace("ENAB yes", "ENAB no")},
    "a default group by name": {
        "defs": DEBIAN_DEFS.replace("ENAB yes", "ENAB no"),
        "useradd": DEBIAN_USERADD + "GROUP=adm\n",
    },
    "gaps in the numbers": {"passwd": PASSWD + "a:x:1000:1000::/:/bin/sh\nb:x:1500:1500::/:/bin/sh\n"},
    "the last number taken": {"passwd": PASSWD + "a:x:60000:1000::/:/bin/sh\nb:x:1000:1500::/:/bin/sh\n"},
    "the group's number taken": {"group": GROUP + "wanted:x:1000:\nhigh:x:2000:\n"},
    "its own group there already": {"group": GROUP + "bob:x:555:\n"},
    "another range": {"defs": DEBIAN_DEFS.replace(" 1000", " 5000").replace("60000", "5999")},
    "no limits stated": {"defs": "USERGROUPS_ENAB yes\n"},
    "a private umask": {"defs": DEBIAN_DEFS.replace("022", "077")},
    "expiry and inactivity": {"useradd": DEBIAN_USERADD + "INACTIVE=30\nEXPIRE=2030-01-02\n"},
    "no default shell": {"useradd": "SKEL=/etc/skel\n"},
    "no newline at the end": {
        "passwd": PASSWD + "a:x:1000:1000::/:/bin/sh",
        "group": GROUP.rstrip("\n"),
        "groups": ("sudo",),
    },
    "nis lines": {"passwd": PASSWD + "+::::::\n"},
    "malformed lines": {
        "passwd": PASSWD + "\nno colons\nshort:x:3000:\n",
        "group": GROUP + "bare:x:77\n",
        "groups": ("bare",),
    },
    "a member without gshadow line": {"group": GROUP + "late:x:78:x,y\n", "drop_gshadow": "late", "groups": ("late",)},
    "no directory for homes": {"no_home": True},
    "a left-over shadow line": {"stray_shadow": "bob:!:1::::::\n"},
}


@pytest.mark.parametrize("case", CASES)
def test_files_writes_what_useradd_writes(case: str, tmp_path: Path) -> None:
    need_root()
    options = dict(CASES[case])
    groups = options.pop("groups", ())
    drop = options.pop("drop_gshadow", None)
    stray = options.pop("stray_shadow", "")
    no_home = options.pop("no_home", False)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    make_tree(theirs, **options)
    if drop:
        gshadow = theirs / "etc/gshadow"
        gshadow.write_text("".join(x for x in gshadow.read_text().splitlines(True) if not x.startswith(f"{drop}:")))
    if stray:
        (theirs / "etc/shadow").write_text((theirs / "etc/shadow").read_text() + stray)
    if no_home:
        (theirs / "home").rmdir()
    subprocess.run(["cp", "-a", theirs, ours], check=True)
    machine = Machine(root=str(ours))

    before = today()
    run_tools(theirs, groups)
    assert apply(machine, plan_for(machine, groups)) == ["user bob"]
    same_trees(ours, theirs, before)
    assert not any(isinstance(item, Step) for item in plan_for(machine, groups)), "something is left to do"


def same_trees(ours: Path, theirs: Path, day: int) -> None:
    for root in (ours, theirs):
        (root / "etc/.pwd.lock").unlink(missing_ok=True)
    if today() != day:
        pytest.skip("midnight passed between the two")
    assert snapshot(ours) == snapshot(theirs)


def test_files_adds_groups_and_passwords_as_usermod_and_chpasswd_do(tmp_path: Path) -> None:
    need_root()
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    day = today()
    made = Secret("$6$salt$" + "h" * 86)
    for root in (ours, theirs):
        make_tree(root)
        apply(Machine(root=str(root)), plan_for(Machine(root=str(root)), ("adm",)))
    run_tools(theirs, ("adm", "users", "sudo"), made)
    machine = Machine(root=str(ours))
    assert apply(machine, plan_for(machine, ("adm", "users", "sudo"), made)) == ["groups of bob", "password bob"]
    same_trees(ours, theirs, day)


@pytest.mark.parametrize("case", ["debian with groups", "rhel", "no gshadow"])
def test_the_checkers_of_shadow_find_nothing(case: str, tmp_path: Path) -> None:
    need_root()
    options = dict(CASES[case])
    groups = options.pop("groups", ())
    make_tree(tmp_path, **options)
    machine = Machine(root=str(tmp_path))
    apply(machine, plan_for(machine, groups, Secret("$6$salt$" + "h" * 86)))
    for argv in ([need("pwck"), "-r", "-q"], [need("grpck"), "-r"]):
        ran = subprocess.run([*argv, "--root", tmp_path], capture_output=True, text=True)
        assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


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
