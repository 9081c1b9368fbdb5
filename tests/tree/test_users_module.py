"""users, user and groups, in a file tree as the run leaves it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from azureinit.config.model import Config, Userdata
from azureinit.errors import AzureInitError
from azureinit.machine import Machine
from azureinit.run.user_modules import SET_PASSWORDS, USERS_GROUPS
from azureinit.sources.metadata import Metadata
from support.user_modules import (
    HASH,
    KEY,
    PLATFORM,
    applied,
    cautions,
    line_of,
    make_vm,
    planned,
    steps,
)

TWO = f"""\
groups:
  - docker: [ada, bob]
  - empty
users:
  - default
  - name: bob
    gecos: Bob B.
    groups: [adm, docker, fresh]
    sudo: ["ALL=(ALL) NOPASSWD:ALL"]
    ssh_authorized_keys: ["{KEY}"]
  - name: eve
    shell: /bin/bash
    primary_group: staff
    lock_passwd: false
    passwd: {HASH}
    sudo: ALL=(ALL) ALL
    homedir: /srv/deep/eve
  - name: daemon2
    system: true
"""


def test_accounts_are_made_as_useradd_makes_them_each_with_its_own_numbers(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    plan = applied(USERS_GROUPS, root, TWO)
    assert line_of(root, "passwd", "bob") == "bob:x:1002:1005:Bob B.:/home/bob:/bin/sh"
    assert line_of(root, "passwd", "eve") == "eve:x:1003:1006::/srv/deep/eve:/bin/bash"
    assert line_of(root, "passwd", "daemon2") == "daemon2:x:999:999::/home/daemon2:/bin/sh"
    assert line_of(root, "group", "docker") == "docker:x:1002:ada,bob"
    assert line_of(root, "group", "empty") == "empty:x:1003:"
    assert line_of(root, "group", "fresh") == "fresh:x:1004:bob"
    assert line_of(root, "group", "staff") == "staff:x:1006:"
    assert line_of(root, "shadow", "bob") == "bob:!:20000:0:99999:7:::"
    assert line_of(root, "shadow", "eve") == f"eve:{HASH}:20000:0:99999:7:::"
    assert line_of(root, "shadow", "daemon2") == "daemon2:!:20000::::::"
    assert (root / "etc/subuid").read_text() == "ada:100000:65536\nbob:165536:65536\neve:231072:65536\n"
    keys = root / "home/bob/.ssh/authorized_keys"
    assert keys.read_text() == KEY + "\n"
    assert (stat.S_IMODE(keys.stat().st_mode), keys.stat().st_uid) == (0o600, 1002)
    assert (root / "srv/deep/eve/.bashrc").exists() and (root / "srv/deep/eve").stat().st_uid == 1003
    assert not (root / "home/daemon2").exists()
    rules = root / "etc/sudoers.d/azure-init-users"
    assert rules.read_text() == (
        "# Written by azure-init, for the users of customData.\n"
        "\n# User rules for bob\nbob ALL=(ALL) NOPASSWD:ALL\n"
        "\n# User rules for eve\neve ALL=(ALL) ALL\n"
    )
    assert stat.S_IMODE(rules.stat().st_mode) == 0o440
    # The admin is as the run left it.
    assert line_of(root, "shadow", "ada").startswith(f"ada:{HASH}:")
    assert steps(plan)
    again = planned(USERS_GROUPS, root, TWO)
    assert steps(again) == []
    assert cautions(again) == {}


def test_settings_of_the_admin_add_to_what_the_run_made(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = f"""\
user: {{gecos: Ada L.}}
users:
  - name: default
    groups: docker, adm
    shell: /bin/zsh
    homedir: /srv/ada
  - name: ada
    ssh_authorized_keys: "{KEY}"
"""
    plan = applied(USERS_GROUPS, root, text)
    assert line_of(root, "passwd", "ada") == "ada:x:1000:1000:Ada L.:/home/ada:/bin/zsh"
    assert line_of(root, "group", "docker") == "docker:x:1002:ada"
    assert line_of(root, "group", "adm") == "adm:x:4:daemon,ada"
    assert (root / "home/ada/.ssh/authorized_keys").read_text() == f"{PLATFORM}\n{KEY}\n"
    assert line_of(root, "shadow", "ada").startswith(f"ada:{HASH}:")
    assert [name for name in cautions(plan) if "homedir" in name] == ["users_groups homedir of ada (line 7)"]
    assert steps(planned(USERS_GROUPS, root, text)) == []


def test_the_default_user_of_system_info_is_the_admin(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = "groups: [docker]\nsystem_info:\n  default_user:\n    name: ubuntu\n    groups: [docker]\n"
    plan = applied(USERS_GROUPS, root, text)
    assert line_of(root, "group", "docker").endswith(":ada")
    assert line_of(root, "passwd", "ubuntu") == ""
    (told,) = cautions(plan).items()
    assert told == (
        "users_groups system_info.default_user.name (line 5)",
        "the admin keeps the platform's name, which is ada",
    )


def test_a_shell_that_does_not_exist_is_not_given_to_the_admin(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    plan = applied(USERS_GROUPS, root, "users: [{name: default, shell: /bin/fish}]\n")
    assert line_of(root, "passwd", "ada").endswith(":/bin/bash")
    assert "sshd refuses" in cautions(plan)["users_groups account of ada (line 2)"]


def test_an_existing_account_keeps_what_counts_for_new_ones_only(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = (
        f"users: [{{name: legacy, shell: /bin/bash, groups: [adm], passwd: '{HASH}x', uid: 4000, sudo: 'ALL=ALL'}}]\n"
    )
    plan = applied(USERS_GROUPS, root, text)
    assert line_of(root, "passwd", "legacy") == "legacy:x:1001:1001::/home/legacy:/bin/sh"
    assert line_of(root, "shadow", "legacy").startswith(f"legacy:!{HASH}:")  # lock_passwd is true by default
    assert "legacy ALL=ALL" in (root / "etc/sudoers.d/azure-init-users").read_text()
    ignored = [name.split()[1] for name in cautions(plan)]
    assert sorted(ignored) == ["groups", "passwd", "shell", "uid"]


def test_a_home_that_belongs_to_the_admin_stays_the_admins(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    before = (root / "home/ada").stat()
    plan = applied(USERS_GROUPS, root, f'users: [{{name: bob, homedir: /home/ada, ssh_authorized_keys: ["{KEY}"]}}]\n')
    after = (root / "home/ada").stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert (root / "home/ada/.ssh/authorized_keys").read_text() == PLATFORM + "\n"
    assert "stay as they are" in cautions(plan)["users_groups user bob (line 2)"]


def test_a_plain_text_password_is_hashed_and_found_again(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = "users: [{name: bob, plain_text_passwd: 'correct horse', lock_passwd: false}]\n"
    plan = applied(USERS_GROUPS, root, text)
    assert line_of(root, "shadow", "bob").startswith("bob:$6$")
    assert "correct horse" not in repr(plan)
    assert any("can be read in the VM's customData" in why for why in cautions(plan).values())
    assert steps(planned(USERS_GROUPS, root, text)) == []


def test_in_the_place_of_cloud_init_advice_on_passwords_is_no_warning(tmp_path: Path) -> None:
    """`cloud-init status` ends with 2 after a warning, and cloud-init has none here."""
    text = "users:\n- {name: bob, plain_text_passwd: sekrit, lock_passwd: false}\n"
    text += f"- {{name: eve, hashed_passwd: '{HASH}'}}\npassword: swordfish\nchpasswd: {{expire: false}}\n"
    compatible = Config(userdata=Userdata(cloud_init_compat=True))
    for settings, told in ((Config(), 3), (compatible, 0)):
        root = make_vm(tmp_path / str(told))
        plans = [applied(module, root, text, settings=settings) for module in (USERS_GROUPS, SET_PASSWORDS)]
        assert sum(len(cautions(plan)) for plan in plans) == told


def test_a_crash_before_the_password_is_made_up_for(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    applied(USERS_GROUPS, root, "users: [bob]\n")
    text = f"users: [{{name: bob, passwd: '{HASH}', lock_passwd: false}}]\n"
    applied(USERS_GROUPS, root, text)
    assert line_of(root, "shadow", "bob").startswith(f"bob:{HASH}:")
    assert steps(planned(USERS_GROUPS, root, text)) == []


def test_a_redirected_user_gets_the_platforms_keys_with_a_command(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = "users: [{name: bob, ssh_redirect_user: true}]\n"
    applied(USERS_GROUPS, root, text)
    line = (root / "home/bob/.ssh/authorized_keys").read_text()
    assert line.startswith("no-port-forwarding,no-agent-forwarding,no-X11-forwarding,command=")
    assert 'user \\"ada\\" rather than the user \\"bob\\".' in line and line.endswith(f'exit 142" {PLATFORM}\n')
    assert steps(planned(USERS_GROUPS, root, text)) == []


def test_a_broken_sudo_rule_fails_and_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    root = make_vm(tmp_path / "vm")
    applied(USERS_GROUPS, root, "users: [{name: bob, sudo: 'ALL=(ALL) ALL'}]\n")
    before = (root / "etc/sudoers.d/azure-init-users").read_bytes()
    text = "users:\n  - name: bob\n    sudo: 'ALL=(ALL) ALL'\n  - name: eve\n    sudo: ['ALL=(ALL', 'x']\n"
    plan = planned(USERS_GROUPS, root, text)
    if Machine().find("visudo") is None:
        pytest.skip("visudo is not installed")
    assert "users_groups sudo of eve (line 6)" in steps(plan)
    with pytest.raises(AzureInitError, match=r"sudo of eve \(line 6\)"):
        applied(USERS_GROUPS, root, text)
    assert (root / "etc/sudoers.d/azure-init-users").read_bytes() == before


def test_an_unusable_key_is_a_failure_after_everything_else_is_done(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    text = f"users:\n  - name: bob\n    ssh_authorized_keys:\n      - ssh-ed25519 AAAA\n      - {KEY}\n  - eve\n"
    with pytest.raises(AzureInitError, match=r"public key \(line 5\).*another key type"):
        applied(USERS_GROUPS, root, text)
    assert (root / "home/bob/.ssh/authorized_keys").read_text() == KEY + "\n"
    assert line_of(root, "passwd", "eve")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("users: [{name: bob, no_create_home: true, ssh_authorized_keys: [KEY]}]", "needs a home"),
        ("users: [{name: bob, ssh_redirect_user: true, ssh_authorized_keys: [KEY]}]", "excludes"),
        ("users: [{name: '-bob'}]", "begins with '-'"),
        ("users: [{name: bob, gecos: 'a:b'}]", "colon"),
        ("users: [{name: bob, homedir: rel}]", "absolute"),
        ("users: [{name: bob, uid: -5}]", "no number"),
        ("users: [{name: bob, hashed_passwd: 'a:b'}]", "a colon"),
        ("users: {bob: [1]}", "no mapping"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_made(tmp_path: Path, text: str, why: str) -> None:
    root = make_vm(tmp_path)
    text = f"groups: [docker]\n{text.replace('KEY', repr(KEY))}\n"
    with pytest.raises(AzureInitError, match=why):
        applied(USERS_GROUPS, root, text)
    assert "docker" not in (root / "etc/group").read_text()


def test_without_the_admin_there_is_no_default(tmp_path: Path) -> None:
    root = make_vm(tmp_path)
    plan = applied(USERS_GROUPS, root, "users: [default, bob]\n", metadata=Metadata())
    assert line_of(root, "passwd", "bob")
    assert any("does not exist here" in why for why in cautions(plan).values())
    assert line_of(root, "passwd", "default") == ""


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        (f"inactive: '{'9' * 50}'", "inactive is no number of days"),
        ("inactive: '--5'", "inactive is no number of days"),
        ("inactive: '\u0663'", "inactive is no number of days"),
        (f"expiredate: '{'9' * 50}'", "expiredate is neither a date nor a number of days"),
        (f"uid: '{'0' * 11}{'9' * 11}'", "uid is no number of an account"),
    ],
)
def test_numbers_that_account_files_cannot_hold_are_refused(tmp_path: Path, setting: str, why: str) -> None:
    root = make_vm(tmp_path)
    before = (root / "etc/shadow").read_bytes()
    with pytest.raises(AzureInitError, match=why):
        applied(USERS_GROUPS, root, f"users:\n- name: bob\n  {setting}\n")
    assert (root / "etc/shadow").read_bytes() == before
