"""Host keys: made if they are missing or incomplete, otherwise left as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.apply.executor import apply_step
from azureinit.memory.journal import MemoryJournal
from azureinit.plan.actions import Declined, MakeDir, Remove, Run, Satisfied, Step
from azureinit.plan.hostkeys import plan_host_keys, types_before_ready
from azureinit.plan.show import as_text
from azureinit.record import replace
from support.facts import parts
from support.ssh_trees import facts_of, tree

WHOLE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
TOOLS = frozenset(("ssh-keygen",))


def test_missing_and_torn_keys_are_made_and_whole_ones_stay(tmp_path: Path) -> None:
    files = {
        "/etc/ssh/sshd_config": "",
        "/etc/ssh/ssh_host_ed25519_key": WHOLE,
        "/etc/ssh/ssh_host_ecdsa_key": WHOLE[:20],
    }
    facts = facts_of(tree(tmp_path, files), tools=TOOLS)
    whole, torn, missing = plan_host_keys(types=("ed25519", "ecdsa", "rsa"), **parts(facts, "host", "ssh"))
    assert whole == Satisfied(name="host key ed25519", why="/etc/ssh/ssh_host_ed25519_key")
    path = "/etc/ssh/ssh_host_ecdsa_key"
    run = ("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", "", "-f", str(tmp_path) + path)
    assert isinstance(torn, Step)
    assert torn.ways[0].actions == (Remove(path=path), Run(argv=run, makes=path))  # type: ignore[union-attr]
    assert isinstance(missing, Step)
    assert (missing.name, missing.why) == ("host key rsa", "no /etc/ssh/ssh_host_rsa_key")
    assert len(missing.ways[0].actions) == 1  # type: ignore[union-attr]


def test_without_ssh_keygen_the_step_is_declined_by_name(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": ""}), tools=frozenset())
    (step,) = plan_host_keys(types=("ed25519",), **parts(facts, "host", "ssh"))
    assert isinstance(step, Step)
    assert step.ways == (Declined(backend="ssh-keygen", why="ssh-keygen is not installed"),)


def test_without_sshd_there_is_nothing_to_make(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {}), tools=TOOLS)
    assert plan_host_keys(types=("rsa",), **parts(facts, "host", "ssh")) == (
        Satisfied(name="host keys", why="sshd is not installed"),
    )
    assert plan_host_keys(types=(), **parts(facts, "host", "ssh")) == ()


def test_keys_are_made_where_the_configuration_looks_for_them(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": "HostKey /srv/my_ecdsa_key\n"}), tools=TOOLS)
    ed25519, ecdsa = plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts, "host", "ssh"))
    assert ed25519 == Satisfied(name="host key ed25519", why="sshd's HostKey lines name none")
    assert isinstance(ecdsa, Step)
    made, run = ecdsa.ways[0].actions  # type: ignore[union-attr]
    assert made == MakeDir(path="/srv", mode=0o755)
    assert isinstance(run, Run)
    assert run.argv[-1] == f"{tmp_path}/srv/my_ecdsa_key"


@pytest.mark.parametrize(
    ("config", "wanted", "early"),
    [
        ("", ("ed25519", "ecdsa", "rsa"), ("ed25519", "ecdsa")),
        ("", ("rsa",), ("rsa",)),
        ("HostKey /etc/ssh/ssh_host_rsa_key\n", ("ed25519", "ecdsa", "rsa"), ("ed25519", "ecdsa", "rsa")),
        ("HostKey /etc/ssh/ssh_host_rsa_key\n", ("ed25519",), ("ed25519", "rsa")),
        ("HostKey /etc/ssh/ssh_host_ed25519_key\nHostKey /etc/ssh/ssh_host_rsa_key\n", ("ed25519",), ("ed25519",)),
        ("HostKey /etc/ssh/identity\n", ("ecdsa", "rsa"), ("ecdsa", "rsa")),
        ("HostKeyAlgorithms rsa-sha2-512\n", ("ed25519", "rsa"), ("ed25519", "rsa")),
        ("HostKeyAlgorithms -ssh-ed*\n", ("ed25519", "rsa"), ("ed25519", "rsa")),
        ("HostKeyAlgorithms -ssh-ed*\n", ("ed25519", "ecdsa", "rsa"), ("ed25519", "ecdsa")),
        ("HostKeyAlgorithms +ssh-rsa\n", ("ed25519", "rsa"), ("ed25519",)),
    ],
)
def test_every_key_that_sshd_is_told_to_load_is_made_before_logins(
    tmp_path: Path, config: str, wanted: tuple[str, ...], early: tuple[str, ...]
) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": config}), tools=TOOLS)
    assert types_before_ready(wanted, facts.ssh) == early
    assert [item for item in plan_host_keys(types=early, **parts(facts, "host", "ssh")) if isinstance(item, Step)]


def test_a_key_whose_name_tells_no_type_is_of_the_first_type_wanted(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": "HostKey /etc/ssh/identity\n"}), tools=TOOLS)
    facts = replace(facts, ssh=replace(facts.ssh, fips=True))
    step = plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts, "host", "ssh"))[-1]
    assert isinstance(step, Step)
    assert step.name == "host key /etc/ssh/identity"
    (run,) = step.ways[0].actions  # type: ignore[union-attr]
    assert isinstance(run, Run)
    assert run.argv[:4] == ("ssh-keygen", "-q", "-t", "ecdsa")
    assert plan_host_keys(types=(), **parts(facts, "host", "ssh")) == ()


def test_a_key_whose_path_goes_up_is_declined_by_name(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": "HostKey /srv/../../x_ed25519\n"}), tools=TOOLS)
    (step,) = plan_host_keys(types=("ed25519",), **parts(facts, "host", "ssh"))
    assert isinstance(step, Step)
    assert step.ways == (Declined(backend="ssh-keygen", why="'/srv/../../x_ed25519' has .. in it"),)


def test_fips_mode_does_without_ed25519(tmp_path: Path) -> None:
    facts = facts_of(tree(tmp_path, {"/etc/ssh/sshd_config": ""}), tools=TOOLS)
    facts = replace(facts, ssh=replace(facts.ssh, fips=True))
    ed25519, ecdsa = plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts, "host", "ssh"))
    assert isinstance(ed25519, Satisfied)
    assert "FIPS" in ed25519.why
    assert isinstance(ecdsa, Step)


def test_a_key_that_others_can_read_stays_and_is_closed(tmp_path: Path) -> None:
    path = "/etc/ssh/ssh_host_ed25519_key"
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": "", path: WHOLE})
    real = tmp_path / path[1:]
    for mode, closed in ((0o600, True), (0o640, True), (0o644, False), (0o604, False)):
        real.chmod(mode)
        (item,) = plan_host_keys(types=("ed25519",), **parts(facts_of(machine, tools=TOOLS), "host", "ssh"))
        assert isinstance(item, Satisfied) == closed, oct(mode)
    (item,) = plan_host_keys(types=("ed25519",), **parts(facts_of(machine, tools=TOOLS), "host", "ssh"))
    assert isinstance(item, Step) and item.why == f"others can read {path}, and sshd refuses such a key"
    shown = as_text((item,), privileged=True)
    assert f"write {path} mode 0600" in shown and "AAAA" not in shown
    apply_step(machine, item, journal=MemoryJournal(), deadline=float("inf"))
    assert (real.read_text(), real.stat().st_mode & 0o777) == (WHOLE, 0o600)
