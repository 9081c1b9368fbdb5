"""The `files` backend compared with useradd: from the same tree, both make the same tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.plan.actions import Run, Step, Way
from azureinit.record import Secret
from support.account_trees import (
    DEBIAN_DEFS,
    DEBIAN_USERADD,
    GROUP,
    PASSWD,
    RHEL_DEFS,
    RHEL_USERADD,
    apply,
    make_tree,
    plan_for,
    snapshot,
    today,
)
from support.need import need, need_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
