"""Facts by part: a stage reads the parts that its rows name, and a row uses no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, User
from azureinit.facts.gather import EVERY_PART, LATER, UNREAD, Facts, read_early, read_facts
from azureinit.machine import Machine
from azureinit.plan.plan import LOCAL, Planner, Wanted, make_plan, parts_of
from azureinit.plan.provision import AFTER_READY, PROVISION, SPECIALISED
from azureinit.record import Secret, replace
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import KeyPair, Metadata
from support.facts import altered
from support.ssh_trees import ed25519
from support.trees import make_tree

CONFIG = Config(user=User(lock_root=True))
PAIR = KeyPair(thumbprint="AB" * 20, path=None, public_key=ed25519(), private_key=Secret("k"))
METADATA = Metadata(username="ada", hostname="web-1", keys=(PublicKey(data=ed25519()),), key_pairs=(PAIR,))


def machine(tmp_path: Path) -> Machine:
    root = make_tree(tmp_path)
    (root / "etc/ssh").mkdir()
    (root / "etc/ssh/sshd_config").write_text("Include /etc/ssh/sshd_config.d/*.conf\n")
    (root / "etc/waagent.conf").touch()
    (root / "etc/.ignition-result.json").write_text("{}")
    (root / "etc/selinux/x/contexts/files").mkdir(parents=True)
    (root / "etc/selinux/config").write_text("SELINUX=enforcing\nSELINUXTYPE=x\n")
    (root / "etc/selinux/x/contexts/files/file_contexts").touch()
    return Machine(root=str(root))


@pytest.mark.parametrize("row", (*PROVISION, *AFTER_READY), ids=lambda row: row.name)
def test_a_row_uses_only_the_parts_that_it_names(tmp_path: Path, row: Planner) -> None:
    every = altered(read_facts(machine(tmp_path), CONFIG))
    facts = Facts(**{part: getattr(every, part) for part in ("host", *row.parts)})
    wanted = Wanted(metadata=METADATA, config=CONFIG, vm_id="550e8400-e29b-41d4-a716-446655440000")
    assert make_plan((row,), wanted, facts) == make_plan((row,), wanted, every)


def test_rows_name_parts_that_exist() -> None:
    every = {*EVERY_PART, *LATER}
    assert {*Facts.fields_} == every
    assert parts_of((*PROVISION, *AFTER_READY)) <= every
    assert parts_of(LOCAL) == {"host", "names"}
    assert parts_of(SPECIALISED) == {"host", "waagent"}


@pytest.mark.parametrize("part", EVERY_PART)
def test_a_part_is_read_alone_as_with_all_others(tmp_path: Path, part: str) -> None:
    one = machine(tmp_path)
    every, alone = read_facts(one, CONFIG), read_facts(one, CONFIG, (part,))
    assert getattr(alone, part) == getattr(every, part)
    needed = {"labels": "accounts"}.get(part, part)
    others = [name for name in EVERY_PART if name not in ("host", part, needed)]
    assert all(getattr(alone, name) is UNREAD for name in others)


def test_a_part_that_was_not_read_cannot_be_used_by_mistake(tmp_path: Path) -> None:
    facts = read_facts(machine(tmp_path), CONFIG, ("names",))
    with pytest.raises(RuntimeError, match=r"'users' of a part of the facts that was not read"):
        _ = facts.accounts.users
    with pytest.raises(RuntimeError, match="was not read"):
        _ = facts.waagent or 1
    assert repr(facts.ssh) == "UNREAD"


def test_a_part_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such part of the facts: colour"):
        read_facts(machine(tmp_path), CONFIG, ("colour",))


def test_what_was_read_early_is_not_read_again(tmp_path: Path) -> None:
    one = machine(tmp_path)
    early = read_early(one, CONFIG)
    marked = replace(early, host=replace(early.host, tools=frozenset(("marked",))))
    facts = read_facts(one, CONFIG, early=marked)
    assert facts.host.tools == {"marked"}
    assert facts.ssh == early.ssh
    again = read_facts(one, CONFIG, before=facts)
    assert again.host is facts.host and again.ignition is facts.ignition and again.labels is facts.labels
