"""Documents that would take the platform's admin its login, its name or its rights are refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.machine import Machine
from azureinit.modules.admin_check import admin_conflicts, plan_admin_check
from azureinit.plan.actions import Satisfied, Step, Way
from azureinit.record import replace
from azureinit.run.module_tables import modules_of
from azureinit.run.modules import NETWORK
from azureinit.run.user_modules import ADMIN_CHECK, SET_PASSWORDS
from azureinit.sources.imds import PublicKey
from azureinit.sources.metadata import Metadata
from azureinit.userdata.node import FLAG, MAPPING, TEXT, Node
from support.module_runs import request_of
from support.ssh_trees import ed25519

KEY, OTHER = ed25519("p"), ed25519("o")
HASH = "$6$saltsalt$" + "h" * 86
BY_KEY = Metadata(username="ada", keys=(PublicKey(data=KEY),))
BY_PASSWORD = Metadata(username="ada", has_password=True)


def conflicts(root: Path, text: str, metadata: Metadata) -> tuple[str, ...]:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n")
    request = request_of(text, metadata=metadata)
    return admin_conflicts(request, ADMIN_CHECK.facts(Machine(root=str(root)), request))


# The document, and whether it is refused for an admin with a key, and for one with a password alone.
CASES = [
    ("users: [bob]", False, False),
    ("users: [default, {name: bob, lock_passwd: true, shell: /bin/false, sudo: false}]", False, False),
    ("users: [{name: default, lock_passwd: true}]", False, True),
    ("users: [{name: ada, lock-passwd: true}]", False, True),
    ("users: {ada: {lock_passwd: true}}", False, True),
    ("user: {lock_passwd: true}", False, True),
    ("user: {name: ada}", False, False),
    ("user: bob", True, True),
    ("user: {name: bob}", True, True),
    ("users: [{shell: /bin/false}]", True, True),
    ("users: [{name: ada, shell: /usr/sbin/nologin}]", True, True),
    ("users: [{name: ada, shell: /bin/bash}]", False, False),
    ("users: [{name: ada, sudo: false}]", True, True),
    ("users: [{name: ada, sudo: null}]", True, True),
    ("users: [{name: ada, sudo: []}]", True, True),
    ("users: [{name: ada, sudo: 'ALL=(ALL) !ALL'}]", True, True),
    ("users: [{name: ada, sudo: 'ALL=(ALL) NOPASSWD:ALL'}]", False, False),
    ("users: [{name: ada, ssh_redirect_user: true}]", True, True),
    ("users: [{name: ada, hashed_passwd: '*'}]", False, True),
    ("users: [{name: ada, snapuser: a@b.example}]", True, True),
    ("users: [{name: bob, uid: 1000}]", True, True),
    ("disable_root: true", False, False),
    ("ssh_pwauth: false", False, True),
    ("ssh_pwauth: 'no'", False, True),
    ("ssh_pwauth: unchanged", False, False),
    (f"ssh_pwauth: false\nssh_authorized_keys: ['{KEY}']", False, False),
    ("ssh_pwauth: false\nssh_authorized_keys: ['ssh-rsa broken']", False, True),
    (f"ssh_pwauth: false\nssh_authorized_keys: ['from=\"10.0.0.1\" {KEY}']", False, True),
    (f"users: [{{name: ada, lock_passwd: true}}]\nssh_authorized_keys: ['{KEY}']", False, True),
    (f"users: [{{name: ada, lock_passwd: true, ssh_authorized_keys: ['{KEY}']}}]", False, False),
    (f"ssh_pwauth: false\nusers: [{{name: ada, ssh_authorized_keys: ['{KEY}']}}]", False, False),
    ("password: x", False, False),
    ("password: x\nchpasswd: {expire: true}", False, True),
    ("password: x\nchpasswd: {expire: false}", False, False),
    (f"chpasswd: {{expire: true, users: [{{name: ada, password: '{HASH}'}}]}}", False, True),
    (f"chpasswd: {{expire: false, users: [{{name: ada, password: '{HASH}'}}]}}", False, False),
    ("chpasswd: {expire: false, users: [{name: ada, password: '!'}]}", False, True),
    ("chpasswd: {list: 'bob:x'}", False, False),
    ("write_files: [{path: /etc/passwd, content: ''}]", True, True),
    ("write_files: [{path: /etc/../etc//shadow, content: '', defer: true}]", True, True),
    ("write_files: [{path: /etc/passwd, content: 'x', append: true}]", False, False),
    ("write_files: [{path: /etc/motd, content: 'x'}]", False, False),
    ("write_files: [{path: /home/ada/.ssh/authorized_keys, content: ''}]", True, False),
    (f"write_files: [{{path: /home/ada/.ssh/authorized_keys, content: '{OTHER}', defer: true}}]", True, False),
    (f"write_files: [{{path: /home/ada/.ssh/authorized_keys, content: '{OTHER}', append: true}}]", False, False),
    (f'write_files: [{{path: /home/ada/.ssh/authorized_keys, content: "{OTHER}\\n{KEY}"}}]', False, False),
    ("write_files: [{path: /home/ada/.ssh/authorized_keys, encoding: gz, content: 'x'}]", False, False),
    ("write_files: [{path: /home/bob/.ssh/authorized_keys, content: ''}]", False, False),
]


@pytest.mark.parametrize(("text", "with_key", "with_password"), CASES)
def test_a_document_is_refused_if_the_admin_would_lose_the_login(
    tmp_path: Path, text: str, with_key: bool, with_password: bool
) -> None:
    assert bool(conflicts(tmp_path, text, BY_KEY)) == with_key
    assert bool(conflicts(tmp_path, text, BY_PASSWORD)) == with_password


def test_files_are_the_admins_concern_only_where_they_hold_accounts() -> None:
    assert ADMIN_CHECK.asked(request_of("write_files: [{path: /etc/passwd}]", metadata=BY_KEY))
    assert ADMIN_CHECK.asked(request_of("write_files: [{path: /home/ada/.ssh/authorized_keys}]", metadata=BY_KEY))
    assert not ADMIN_CHECK.asked(request_of("write_files: [{path: /etc/motd}]", metadata=BY_KEY))


def test_root_as_the_admin_is_not_disabled(tmp_path: Path) -> None:
    admin = Metadata(username="root", keys=(PublicKey(data=KEY),))
    told = "line 2: disable_root refuses root, and root is the admin"
    assert conflicts(tmp_path, "disable_root: true", admin) == (told,)
    assert conflicts(tmp_path, "disable_root: false", admin) == ()


def test_without_an_admin_there_is_nothing_to_protect(tmp_path: Path) -> None:
    assert conflicts(tmp_path, "user: bob\nssh_pwauth: false\n", Metadata()) == ()


def test_the_check_is_the_first_row_and_one_refused_step_with_every_reason(tmp_path: Path) -> None:
    assert modules_of(NETWORK)[0] is ADMIN_CHECK
    assert ADMIN_CHECK.veto
    (tmp_path / "etc").mkdir()
    request = request_of("user: bob\nssh_pwauth: false\n", metadata=BY_PASSWORD)
    (step,) = plan_admin_check(request, ADMIN_CHECK.facts(Machine(root=str(tmp_path)), request))
    assert isinstance(step, Step) and not any(isinstance(way, Way) for way in step.ways)
    (declined,) = step.ways
    assert "line 2: user names" in declined.why and "line 3: ssh_pwauth" in declined.why  # type: ignore[union-attr]


def test_the_images_configuration_yields_to_the_platforms_setting(tmp_path: Path) -> None:
    """Many images have `ssh_pwauth: false` in /etc/cloud/cloud.cfg, which counts where compatible."""
    (tmp_path / "etc").mkdir()
    metadata = replace(BY_PASSWORD, disable_password=False)
    value = Node(FLAG, False, 3, 1, part="/etc/cloud/cloud.cfg")
    config = Node(MAPPING, ((Node(TEXT, "ssh_pwauth", 3, 1), value),), 1, 1)
    request = replace(request_of("users: []\n", metadata=metadata), config=config)
    machine = Machine(root=str(tmp_path))
    assert plan_admin_check(request, ADMIN_CHECK.facts(machine, request)) == ()
    (item,) = SET_PASSWORDS.planner(request, SET_PASSWORDS.facts(machine, request))
    assert isinstance(item, Satisfied) and "platform's setting" in item.why
