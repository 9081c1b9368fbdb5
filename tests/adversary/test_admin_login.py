"""Random documents about users, passwords and ssh: whatever is carried out, the admin can log in afterwards.

A document that admin_check refuses is carried out by no module. Of all others the modules do what they can; a step that
fails ends its module, as in a boot. Then the login is judged as before Ready.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from azureinit.config.model import Access, Config
from azureinit.errors import AzureInitError
from azureinit.facts.gather import read_facts
from azureinit.machine import Machine
from azureinit.modules.user_keys import free_keys
from azureinit.plan.access import plan_access
from azureinit.plan.actions import Step
from azureinit.record import replace
from azureinit.run.admin import with_access, with_admin_files
from azureinit.run.user_modules import ADMIN_CHECK, SET_PASSWORDS, SSH, USERS_GROUPS
from azureinit.sources.metadata import Metadata
from support.bounds import ALL
from support.module_runs import apply_module
from support.random_users import random_document
from support.user_modules import DAY, HASH, WITH_KEY, WITH_PASSWORD, asked, line_of, make_vm, planned

DOCUMENTS = 300 if ALL else 40


def login(root: Path, metadata: Metadata) -> list[str]:
    """Why the admin cannot log in; empty where that is possible."""
    machine, config = Machine(root=str(root)), Config(access=Access(required="true"))
    facts = with_admin_files(machine, config, read_facts(machine, config), metadata)
    facts = with_access(machine, config, facts, metadata)
    plan = plan_access(
        metadata=metadata,
        host=facts.host,
        accounts=facts.accounts,
        ssh=facts.ssh,
        admin=facts.admin,
        access=facts.access,
        config=config,
        today=DAY,
        pending=False,
    )
    return [item.why for item in plan if isinstance(item, Step)]


@pytest.mark.parametrize("metadata", [WITH_KEY, WITH_PASSWORD], ids=["key", "password"])
def test_the_admin_can_log_in_after_any_document(tmp_path: Path, metadata: Metadata) -> None:
    refused = 0
    for seed in range(DOCUMENTS):
        root = make_vm(tmp_path / str(seed))
        assert login(root, metadata) == []
        document = random_document(Random(seed))
        text = "#cloud-config\n" + json.dumps(document)
        if planned(ADMIN_CHECK, root, text, metadata=metadata):
            refused += 1
            continue
        for module in (USERS_GROUPS, SSH, SET_PASSWORDS):
            try:
                apply_module(module, root, text, metadata=metadata, today=DAY)
            except AzureInitError as error:
                assert HASH not in str(error), (seed, error)
        asked_for = (document.get("chpasswd") or {}).get("expire")
        given = free_keys(asked(text).config.get("ssh_authorized_keys"))
        able = metadata if metadata.keys else replace(metadata, keys=given)
        found = [why for why in login(root, able) if not (asked_for and "must change a password" in why)]
        assert found == [], (seed, text)
        if metadata is WITH_PASSWORD:
            field = line_of(root, "shadow", "ada").split(":")[1]
            assert field.startswith("$"), (seed, text)
    assert 0 < refused < DOCUMENTS


def test_the_judgement_sees_a_document_that_locks_the_admin_out(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = "users: [{name: ada, lock_passwd: true}]\n"
    assert ADMIN_CHECK.planner(
        asked(text, metadata=WITH_PASSWORD), ADMIN_CHECK.facts(Machine(root=str(root)), asked(text))
    )
    apply_module(USERS_GROUPS, root, text, metadata=WITH_PASSWORD, today=DAY)
    assert login(root, WITH_PASSWORD)
