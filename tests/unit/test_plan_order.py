"""The order of the steps; SELinux labels are the last one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azureinit.config.model import Config
from azureinit.errors import InvalidHostname, InvalidUsername
from azureinit.facts.gather import Facts, read_facts
from azureinit.machine import Machine
from azureinit.plan.actions import Caution, Run, Satisfied, Step, Way, work_left
from azureinit.plan.plan import Wanted, make_plan
from azureinit.plan.provision import AFTER_READY, PROVISION
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from support.facts import altered
from support.ssh_trees import ed25519
from support.trees import make_tree

if TYPE_CHECKING:
    from azureinit.plan.actions import Plan

CONFIG = Config()
METADATA = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=ed25519()),), disable_password=True)
LABELS = "selinux labels"


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    root = make_tree(tmp_path)
    (root / "etc/ssh").mkdir()
    (root / "etc/ssh/sshd_config").write_text("Include /etc/ssh/sshd_config.d/*.conf\n")
    return altered(read_facts(Machine(root=str(root)), CONFIG))


def planned(facts: Facts, metadata: Metadata = METADATA, *, done: frozenset[str] = frozenset()) -> Plan:
    return make_plan(PROVISION, Wanted(metadata=metadata, config=CONFIG, done=done, today=20000), facts)


def labels(plan: Plan) -> object:
    assert plan[-1].name == LABELS
    return plan[-1]


def test_host_keys_come_before_sshd_is_asked_anything_and_the_account_before_its_keys(facts: Facts) -> None:
    names = [item.name for item in planned(facts)]
    assert names == [
        "hostname",
        "hosts",
        "host key ed25519",
        "host key ecdsa",
        "user ada",
        "password ada",
        "sudo",
        "ssh keys ada",
        "sshd",
    ]


def test_rsa_waits_until_the_platform_knows(facts: Facts) -> None:
    assert [item.name for item in make_plan(AFTER_READY, Wanted(metadata=Metadata(), config=CONFIG), facts)] == [
        "host key rsa"
    ]


def test_an_unknown_password_switch_leaves_sshd_alone(facts: Facts) -> None:
    sshd = planned(facts, replace(METADATA, disable_password=None))[-1]
    assert isinstance(sshd, Satisfied) and "not changed" in sshd.why


@pytest.mark.parametrize(
    ("changes", "error"), [({"hostname": None}, InvalidHostname), ({"username": None}, InvalidUsername)]
)
def test_nothing_is_planned_for_nobody(facts: Facts, changes: dict[str, None], error: type[Exception]) -> None:
    with pytest.raises(error):
        planned(facts, replace(METADATA, **changes))


def test_labels_are_restored_last_and_remembered(facts: Facts) -> None:
    selinux = altered(facts, selinux=True, tools=facts.host.tools | {"restorecon"})
    step = labels(planned(selinux))
    assert isinstance(step, Step) and step.once
    (way,) = step.ways
    assert isinstance(way, Way)
    (run,) = way.actions
    # -i: a path that is not there is no failure.
    assert isinstance(run, Run) and run.argv[:4] == ("restorecon", "-i", "-R", "-F")
    assert {"/etc/hostname", "/etc/hosts", "/etc/ssh", "/home/ada"} <= set(run.argv)


def test_labels_are_restored_again_after_anything_else_was_done(facts: Facts) -> None:
    selinux = altered(facts, selinux=True, tools=facts.host.tools | {"restorecon"})
    plan = planned(selinux, done=frozenset({LABELS}))
    assert len(work_left(plan)) > 1
    assert isinstance(labels(plan), Step)


def test_a_machine_that_cannot_restore_labels_says_so_and_goes_on(facts: Facts) -> None:
    selinux = altered(facts, selinux=True, tools=facts.host.tools - {"restorecon"})
    assert isinstance(labels(planned(selinux)), Caution)
    assert LABELS not in [item.name for item in planned(facts)]


@pytest.mark.parametrize(
    "path", sorted((Path(make_plan.__code__.co_filename).parent).glob("*.py")), ids=lambda p: p.name
)
def test_every_step_of_a_run_says_in_the_log_what_was_done(path: Path) -> None:
    """All but those that are declined, and those of `azure-init deprovision`, which prints its plan."""
    if path.name == "deprovision.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "Step":
            continue
        words = {word.arg: ast.unparse(word.value) for word in node.keywords}
        declined = words["ways"] in ("(declined,)", "(write,)") or "Declined(" in words["ways"]
        undone = words["why"] in ("'has words that azure-init added'",) or (
            words.get("name") == "DHCP_NAME" and "failure" not in words
        )
        assert "did" in words or declined or undone, f"{path.name}:{node.lineno}"
