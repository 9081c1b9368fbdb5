"""Keys in authorized_keys.d: azure-init's piece beside others, and no key is lost in a merge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config
from azureinit.facts.gather import Facts, read_facts
from azureinit.facts.ssh import MERGER, READER
from azureinit.plan.actions import Declined, MakeDir, Run, Satisfied, Step, Way, Write
from azureinit.plan.keys import plan_keys
from azureinit.record import Secret
from azureinit.run.admin import with_keys_files
from azureinit.sources.imds import PublicKey
from support.facts import altered, parts
from support.ssh_trees import KEYS, ed25519, own, tree

TOOL = {"/usr/bin/update-ssh-keys": "", "/etc/ssh/sshd_config": "UsePAM yes\n"}
ASKS = "AuthorizedKeysCommand /usr/libexec/ssh-key-dir %u\n"
PIECES = f"{KEYS}.d"
OURS, THEIRS, HAND = ed25519("a", "ours"), ed25519("b", "theirs"), ed25519("c", "by hand")


def planned(root: Path, files: Mapping[str, str | bytes], *keys: PublicKey, running: bool = False) -> tuple[Any, ...]:
    machine = tree(root, files)
    for path in (root / "home/ada").rglob("*"):
        own(path)
    for path in (root / "home/ada/.ssh", root / PIECES[1:]):
        if path.exists():
            path.chmod(0o700)
    wanted = keys or (PublicKey(data=OURS, path=KEYS),)
    facts: Facts = with_keys_files(machine, Config(), read_facts(machine, Config()), username="ada", keys=wanted)
    if running:
        facts = altered(facts, rooted=False, root="", privileged=True)
    return plan_keys(
        username="ada",
        home="/home/ada",
        keys=wanted,
        **parts(facts, "host", "accounts", "ssh", "admin"),
        config=Config(),
    )


def ways(plan: tuple[Any, ...]) -> tuple[Any, ...]:
    (step,) = plan
    assert isinstance(step, Step), step
    return step.ways


def writes(way: Way) -> dict[str, bytes]:
    return {action.path: action.data for action in way.actions if isinstance(action, Write)}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("files", "who"),
    [
        (TOOL, MERGER),
        ({"/etc/ssh/sshd_config": ASKS, "/usr/libexec/ssh-key-dir": ""}, READER),
        ({**TOOL, "/etc/ssh/sshd_config": ASKS, "/usr/libexec/ssh-key-dir": ""}, READER),
        ({"/etc/ssh/sshd_config": ASKS}, None),
        ({"/etc/ssh/sshd_config": "AuthorizedKeysCommand /usr/bin/other\n"}, None),
        ({"/etc/ssh/sshd_config": ""}, None),
    ],
)
def test_who_reads_the_pieces_is_asked_of_the_machine(
    tmp_path: Path, files: Mapping[str, str | bytes], who: str | None
) -> None:
    assert read_facts(tree(tmp_path, files), Config()).ssh.pieces == who


def test_the_merger_is_given_our_piece_and_makes_the_list(tmp_path: Path) -> None:
    first, second = ways(planned(tmp_path, TOOL, running=True))
    assert first == Way(
        backend=MERGER,
        actions=(
            MakeDir(path="/home/ada/.ssh", mode=0o700, owner="ada", beneath="/home/ada"),
            Run(argv=(MERGER, "-u", "ada", "-A", "azure-init"), stdin=Secret(f"{OURS}\n")),
        ),
    )
    assert writes(second) == {f"{PIECES}/azure-init": f"{OURS}\n".encode(), KEYS: f"{OURS}\n".encode()}


def test_keys_of_the_list_that_no_piece_has_become_one_first(tmp_path: Path) -> None:
    there = {KEYS: f"# list\n{THEIRS}\n{HAND}", f"{PIECES}/ignition": f"{THEIRS}\n", f"{PIECES}/.hidden": "x"}
    first, second = ways(planned(tmp_path, {**TOOL, **there}, running=True))
    runs = [action for action in first.actions if isinstance(action, Run)]
    assert [(run.argv[-1], run.stdin) for run in runs] == [
        ("old_authorized_keys", Secret(f"{HAND}\n")),
        ("azure-init", Secret(f"{OURS}\n")),
    ]
    assert list(writes(second).items()) == [
        (f"{PIECES}/old_authorized_keys", f"{HAND}\n".encode()),
        (f"{PIECES}/azure-init", f"{OURS}\n".encode()),
        (KEYS, f"# list\n{THEIRS}\n{HAND}\n{OURS}\n".encode()),
    ]


def test_what_is_no_text_is_kept_byte_for_byte(tmp_path: Path) -> None:
    line = ed25519("d").encode() + b" caf\xe9\n"
    (_, second) = ways(planned(tmp_path, {**TOOL, KEYS: line}))
    assert writes(second)[f"{PIECES}/old_authorized_keys"] == line


def test_under_another_root_the_merger_declines(tmp_path: Path) -> None:
    first, second = ways(planned(tmp_path, TOOL))
    assert isinstance(first, Declined) and "running system" in first.why
    assert isinstance(second, Way)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_what_the_merger_has_made_is_enough(tmp_path: Path, mode: int) -> None:
    files = {KEYS: f"# made\n{OURS}\n{HAND}\n", f"{PIECES}/azure-init": f"{OURS}\n"}
    planned(tmp_path, {**TOOL, **files})
    for name in (KEYS, f"{PIECES}/azure-init"):
        (tmp_path / name[1:]).chmod(mode)
    (item,) = planned(tmp_path, {**TOOL})
    assert isinstance(item, Satisfied)
    (tmp_path / KEYS[1:]).chmod(0o664)
    (item,) = planned(tmp_path, {**TOOL})
    assert isinstance(item, Step), "anybody of the group could add a key"


def test_a_file_of_another_name_is_written_as_ever(tmp_path: Path) -> None:
    elsewhere = PublicKey(data=OURS, path="/home/ada/.ssh/other")
    _, second = ways(planned(tmp_path, TOOL, elsewhere))
    assert set(writes(second)) == {"/home/ada/.ssh/other", f"{PIECES}/azure-init", KEYS}


def test_a_list_that_sshd_reads_elsewhere_has_no_pieces(tmp_path: Path) -> None:
    files = {**TOOL, "/etc/ssh/sshd_config": "AuthorizedKeysFile /etc/ssh/keys/%u\n"}
    (way,) = ways(planned(tmp_path, files, PublicKey(data=OURS)))
    assert set(writes(way)) == {"/etc/ssh/keys/ada"}
