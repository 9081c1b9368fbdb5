"""users, user and groups in the forms that people write them; and random documents, which no planner crashes on."""

from __future__ import annotations

import json
from random import Random

import pytest

from azureinit.facts.image_config import ConfigFile
from azureinit.machine import Machine
from azureinit.modules.users_asked import asked_groups, asked_users, other_admin
from azureinit.plan.actions import Caution, Satisfied, Step, Unknown
from azureinit.run.user_modules import ADMIN_CHECK, SET_PASSWORDS, SSH, SSH_IMPORT_ID, USERS_GROUPS
from azureinit.userdata.document import read_document
from support.module_runs import request_of
from support.random_users import random_document


@pytest.mark.parametrize(
    ("text", "admin", "others"),
    [
        ("users: [default]", True, []),
        ("users: []", False, []),
        ("users: default, bob,eve", True, ["bob", "eve"]),
        ("users: [bob, 'eve,kim']", False, ["bob", "eve", "kim"]),
        ("users: [[bob, eve]]", False, ["bob", "eve"]),
        ("users: [{gecos: A}]", True, []),
        ("users: [{name: ada}, {name: bob}]", True, ["bob"]),
        ("users: {default: true, bob: false, eve: {gecos: E}, kim: 'yes'}", True, ["eve", "kim"]),
        ("user: {gecos: A}", True, []),
        ("user: ada\nusers: [bob]", True, ["bob"]),
    ],
)
def test_the_forms_of_users(text: str, admin: bool, others: list[str]) -> None:
    asked = asked_users(request_of(text).config, "ada")
    assert (asked.admin is not None) == admin
    assert [user.name for user in asked.users] == others


def test_the_first_value_counts_and_hyphens_are_underscores() -> None:
    text = (
        "user: {gecos: U}\nusers:\n  - {name: default, gecos: D, lock-passwd: false}\n  - {name: ada, shell: /bin/a}\n"
    )
    asked = asked_users(request_of(text).config, "ada")
    assert asked.admin is not None
    assert (asked.admin.text("gecos"), asked.admin.text("shell")) == ("U", "/bin/a")
    assert asked.admin.get("lock_passwd") is not None and not asked.admin.flag("lock_passwd")


def test_the_default_user_is_the_admin_and_counts_least() -> None:
    """`system_info.default_user`, with which documents add the admin to the group docker."""
    text = (
        "users: [default, {name: ada, shell: /bin/a}]\nsystem_info: {default_user: {groups: [docker], shell: /bin/b}}\n"
    )
    asked = asked_users(request_of(text).config, "ada")
    assert asked.admin is not None and asked.users == ()
    assert (asked.admin.words("groups"), asked.admin.text("shell")) == (("docker",), "/bin/a")
    alone = asked_users(request_of("system_info: {default_user: {name: eve, groups: docker}}").config, "ada")
    assert alone.admin is not None and alone.admin.words("groups") == ("docker",) and alone.users == ()
    assert asked_users(request_of("system_info: {default_user: {groups: docker}}").config, None).everyone == ()


def test_the_default_user_of_the_image_is_not_the_admin() -> None:
    given = "default_user: {name: cloud-user, lock_passwd: true, groups: [adm], shell: /bin/sh}"
    below = ConfigFile(path="/etc/cloud/cloud.cfg", content=f"system_info: {{{given}}}\n".encode(), strict=False)
    document = read_document(b"#cloud-config\nsystem_info: {default_user: {groups: [docker]}}\n", below=(below,))
    asked = asked_users(document.config, "ada")
    assert asked.admin is not None and set(asked.admin.settings) == {"groups"}
    assert other_admin(document.config, "ada") is None
    assert asked_users(read_document(b"", below=(below,)).config, "ada").admin is None


def test_without_an_admin_the_named_user_is_an_ordinary_one() -> None:
    asked = asked_users(request_of("user: {name: bob}\nusers: [default]\n").config, None)
    assert [user.name for user in asked.users] == ["bob"] and asked.admin is not None


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("groups: a,b", {"a": (), "b": ()}),
        ("groups: [a, {b: [x, y]}, {b: z}]", {"a": (), "b": ("x", "y", "z")}),
        ("groups: {a: x, b: [y]}", {"a": ("x",), "b": ("y",)}),
    ],
)
def test_the_forms_of_groups(text: str, groups: dict[str, tuple[str, ...]]) -> None:
    assert {group.name: group.members for group in asked_groups(request_of(text).config)} == groups


# ---- random documents


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    root = tmp_path_factory.mktemp("vm")
    (root / "etc/ssh").mkdir(parents=True)
    (root / "etc/ssh/sshd_config").write_text("UsePAM yes\n")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nada:x:1000:\n")
    (root / "etc/shadow").write_text("root:*:1::::::\nada:$6$a$b:1::::::\n")
    (root / "etc/sudoers.d").mkdir()
    return Machine(root=str(root))


@pytest.mark.parametrize("seed", range(20))
def test_no_document_that_passes_validation_crashes_a_planner(machine: Machine, seed: int) -> None:
    data = b"#cloud-config\n" + json.dumps(random_document(Random(seed))).encode()
    assert not read_document(data).errors
    for rooted in (True, False):
        request = request_of(data, rooted=rooted, today=20000)
        for module in (ADMIN_CHECK, USERS_GROUPS, SSH, SET_PASSWORDS, SSH_IMPORT_ID):
            if module.asked(request):
                plan = module.planner(request, module.facts(machine, request))
                assert all(isinstance(item, (Step, Satisfied, Caution, Unknown)) for item in plan)
