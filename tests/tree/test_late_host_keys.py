"""Host keys that are made after Ready: with a small share of the processors, and otherwise as ssh-keygen makes them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from azureinit.apply.executor import apply_step
from azureinit.backends.ssh_keygen import GIVE_WAY
from azureinit.config.model import Config
from azureinit.errors import HostKeysFailed, PlanStale
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Run, Step, Way
from azureinit.plan.hostkeys import plan_host_keys
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import AFTER_READY, PROVISION
from azureinit.run.watching import runs_of
from azureinit.sources.metadata import Metadata
from support.facts import parts
from support.need import need
from support.ssh_trees import facts_of, tree

AUTOGROUP = Path("/proc/self/autogroup")
LOWEST = 19
KEY = "/etc/ssh/ssh_host_ecdsa_key"
# What the program finds, and an exit status of its own.
TOOL = """#!/bin/sh
printf '%s\\n' "$@"
nice
cat /proc/self/autogroup 2>/dev/null
exit 3
"""


def run(tool: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """In a session of its own, as a service; afterwards it prints the value of its group."""
    outer = 'sh -c "$@"; status=$?; echo after; cat /proc/self/autogroup 2>/dev/null; exit $status'
    argv = ["/bin/sh", "-c", outer, "sh", GIVE_WAY, str(tool), "-N", "", "two words"]
    env = {"PATH": "/usr/bin:/bin", **more}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, start_new_session=True)


def has_groups() -> bool:
    """Whether a new session has a group. The file of a process that began before any session is empty."""
    ran = subprocess.run(["cat", AUTOGROUP], capture_output=True, check=False, start_new_session=True)
    return bool(ran.stdout)


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    place = tmp_path / "tool"
    place.write_text(TOOL)
    place.chmod(0o755)
    return place


def test_the_program_gives_way_and_its_arguments_and_status_are_its_own(tool: Path) -> None:
    grouped = has_groups()
    ran = run(tool)
    told, _, after = ran.stdout.partition("after\n")
    arguments, (niceness, *group) = told.splitlines()[:3], told.splitlines()[3:]
    assert ran.returncode == 3 and arguments == ["-N", "", "two words"]
    assert int(niceness) == min(LOWEST, os.nice(0) + 10)
    assert [line.split()[-1] for line in group] == (["10"] if grouped else [])
    assert [line.split()[-1] for line in after.splitlines()] == (["0"] if grouped else [])
    assert ran.stderr == ""


def test_it_is_started_also_where_there_is_no_nice(tool: Path, tmp_path: Path) -> None:
    shell = tmp_path / "bin"
    shell.mkdir()
    (shell / "sh").symlink_to("/bin/sh")
    tool.write_text("#!/bin/sh\necho started; exit 4\n")
    ran = run(tool, PATH=str(shell))
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (4, "started"), ran.stderr


def late(place: Path) -> tuple[Step, Run]:
    need("ssh-keygen")
    facts = facts_of(tree(place, {"/etc/ssh/sshd_config": ""}), tools=frozenset(("ssh-keygen",)))
    (step,) = plan_host_keys(types=("ecdsa",), **parts(facts, "host", "ssh"), late=True)
    assert isinstance(step, Step) and isinstance(step.ways[0], Way)
    (action,) = step.ways[0].actions
    assert isinstance(action, Run)
    return step, action


def test_only_the_keys_after_ready_give_way(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": ""}), tools=frozenset(("ssh-keygen",)))
    wanted = Wanted(metadata=Metadata(), config=Config())
    early = make_plan(tuple(row for row in PROVISION if row.name == "host keys"), wanted, facts)
    for plan, begins in (
        (early, ("ssh-keygen", "-q", "-t")),
        (make_plan(AFTER_READY, wanted, facts), ("sh", "-c", GIVE_WAY)),
    ):
        runs = [run for item in plan if isinstance(item, Step) for run in runs_of(item)]
        assert runs and {run.argv[:3] for run in runs} == {begins}


def test_a_late_key_is_one_of_ssh_keygen(tmp_path: Path) -> None:
    step, action = late(tmp_path)
    (early,) = plan_host_keys(
        types=("ecdsa",), **parts(facts_of(tree(tmp_path, {}), tools=frozenset(("ssh-keygen",))), "host", "ssh")
    )
    assert isinstance(early, Step) and isinstance(early.ways[0], Way)
    (plain,) = early.ways[0].actions
    assert isinstance(plain, Run) and plain.argv[0] == "ssh-keygen"
    assert action.argv == ("sh", "-c", GIVE_WAY, *plain.argv) and action.makes == plain.makes == KEY
    apply_step(tree(tmp_path, {}), step, journal=MemoryJournal(), deadline=float("inf"))
    made = tmp_path / KEY.lstrip("/")
    assert made.stat().st_mode & 0o777 == 0o600 and "PRIVATE KEY" in made.read_text()
    assert made.with_name(f"{made.name}.pub").read_text().startswith("ecdsa-sha2-nistp256 ")


def test_a_key_that_another_program_made_meanwhile_stays(tmp_path: Path) -> None:
    step, _action = late(tmp_path)
    made = tmp_path / KEY.lstrip("/")
    made.write_text("another's")
    with pytest.raises(PlanStale, match="appeared while provisioning"):
        apply_step(tree(tmp_path, {}), step, journal=MemoryJournal(), deadline=float("inf"))
    assert made.read_text() == "another's"


def test_a_key_that_cannot_be_made_is_a_failure_with_the_words_of_ssh_keygen(tmp_path: Path) -> None:
    step, _action = late(tmp_path)
    (tmp_path / "etc/ssh").rename(tmp_path / "etc/elsewhere")
    with pytest.raises(HostKeysFailed, match="ssh_host_ecdsa_key"):
        apply_step(tree(tmp_path, {}), step, journal=MemoryJournal(), deadline=float("inf"))
