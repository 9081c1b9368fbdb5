"""Which of sshd's key files belong to one user alone: only these get the admin's key."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.config.model import Config, Ssh
from azureinit.plan.actions import Caution, Step, Write
from azureinit.sources.imds import PublicKey
from support.ssh_trees import KEYS, PASSWD, actions_of, ed25519, own, plan_ada, tree

MAIN = "/etc/ssh/sshd_config"
BOB = "bob:x:1001:1001::/home/bob:/bin/bash\n"


def written(machine_root: Path, config: str, *, passwd: str = PASSWD, **files: str) -> tuple[list[str], list[str]]:
    """The files that get the key, and what the plan warns of."""
    machine = tree(machine_root, {MAIN: config, "/etc/passwd": passwd, **files})
    plan = plan_ada(machine, ed25519())
    steps = [item for item in plan if isinstance(item, Step)]
    paths = [action.path for action in (actions_of(plan) if steps else ()) if isinstance(action, Write)]
    return paths, [item.why for item in plan if isinstance(item, Caution)]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("AuthorizedKeysFile /etc/ssh/authorized_keys2 .ssh/keys", "/home/ada/.ssh/keys"),
        ("AuthorizedKeysFile /etc/ssh/authorized_keys2 %h/.ssh/authorized_keys2", "/home/ada/.ssh/authorized_keys2"),
        ("AuthorizedKeysFile /etc/ssh/keys/%u", "/etc/ssh/keys/ada"),
        ("AuthorizedKeysFile /etc/ssh/keys/%U", "/etc/ssh/keys/1000"),
        ("AuthorizedKeysFile /etc/ssh/%%u .ssh/x", "/home/ada/.ssh/x"),
        ("AuthorizedKeysFile /etc/ssh/%%%u", "/etc/ssh/%ada"),
        ("Match User ada\nAuthorizedKeysFile /etc/ssh/ada_keys", "/etc/ssh/ada_keys"),
        ("Match User ADA\nAuthorizedKeysFile /etc/ssh/ada_keys", KEYS),
        ("Match User ada,bob\nAuthorizedKeysFile /etc/ssh/two /etc/ssh/%u", "/etc/ssh/ada"),
        ("Match User a*\nAuthorizedKeysFile /etc/ssh/two %h/x", "/home/ada/x"),
        ("Match User bob\nAuthorizedKeysFile /etc/ssh/bob", KEYS),
        ("Match Group ada\nAuthorizedKeysFile .ssh/group", "/home/ada/.ssh/group"),
        (
            "AuthorizedKeysFile /srv/all\nMatch User ada\nAuthorizedKeysFile .k\nMatch all\nX11Forwarding no",
            "/home/ada/.k",
        ),
        ("AuthorizedKeysFile /home/bob/%u .ssh/mine", "/home/ada/.ssh/mine"),
    ],
)
def test_a_key_goes_to_a_file_of_the_users_own(tmp_path: Path, config: str, path: str) -> None:
    paths, _cautions = written(tmp_path, config + "\n", passwd=PASSWD + BOB)
    assert paths == [path]


@pytest.mark.parametrize(
    "config",
    [
        "AuthorizedKeysFile /etc/ssh/shared",
        "AuthorizedKeysFile /etc/ssh/shared /srv/keys",
        "Match User ada,bob\nAuthorizedKeysFile /etc/ssh/shared",
        "Match User *\nAuthorizedKeysFile /etc/ssh/shared",
        "Match Address 10.0.0.0/8\nAuthorizedKeysFile /etc/ssh/shared",
    ],
)
def test_a_shared_file_is_never_written(tmp_path: Path, config: str) -> None:
    paths, cautions = written(tmp_path, config + "\n")
    assert paths == [KEYS]  # which sshd may not read, and which is nobody else's
    assert "AuthorizedKeysFile /etc/ssh/shared is the same file for every account: not written" in cautions


@pytest.mark.parametrize(
    "config",
    [
        "AuthorizedKeysFile /etc/ssh/shared\nMatch User ada\nAuthorizedKeysFile /etc/ssh/shared",
        "Match User ada\nAuthorizedKeysFile /etc/ssh//shared\nMatch User root\nAuthorizedKeysFile /etc/ssh/shared",
        "Match User ada\nAuthorizedKeysFile /etc/ssh/shared\nMatch Group bob\nAuthorizedKeysFile /etc/ssh/shared",
        "AuthorizedKeysFile /etc/ssh/%u\nMatch User bob\nAuthorizedKeysFile /etc/ssh/ada",
    ],
)
def test_a_file_that_a_line_for_others_names_too_is_not_the_users_own(tmp_path: Path, config: str) -> None:
    paths, cautions = written(tmp_path, config + "\n", passwd=PASSWD + BOB)
    assert paths == [KEYS]  # which is nobody else's
    assert any("is read for other accounts too: not written" in why for why in cautions)


@pytest.mark.parametrize("config", [f"AuthorizedKeysFile {KEYS}", f"Match User root\nAuthorizedKeysFile {KEYS}"])
def test_a_file_in_the_own_home_that_others_keys_are_read_from_takes_no_key(tmp_path: Path, config: str) -> None:
    paths, cautions = written(tmp_path, config + "\n")
    assert paths == []
    assert cautions[-1] == "sshd reads no file that belongs to this user alone: the keys are not written"
    machine = tree(tmp_path, {MAIN: config + "\n"})
    plan = plan_ada(machine, PublicKey(data=ed25519(), path=KEYS))
    assert not [item for item in plan if isinstance(item, Step)]


def test_a_match_line_does_not_make_a_file_of_a_shared_home_the_users_own(tmp_path: Path) -> None:
    twin = PASSWD + "eve:x:1007:1007::/home/ada:/bin/sh\n"
    config = "Match User ada\nAuthorizedKeysFile"
    assert written(tmp_path, f"{config} .ssh/authorized_keys\n", passwd=twin)[0] == []
    assert written(tmp_path, f"{config} .ssh/adas\n", passwd=twin)[0] == ["/home/ada/.ssh/adas"]


def test_the_configured_path_is_not_shared_either(tmp_path: Path) -> None:
    machine = tree(tmp_path, {MAIN: "AuthorizedKeysFile none\n"})
    config = Config(ssh=Ssh(authorized_keys_path="/etc/ssh/everybody"))
    assert [
        action.path for action in actions_of(plan_ada(machine, ed25519(), config=config)) if isinstance(action, Write)
    ] == [KEYS]


def test_a_home_that_another_account_has_too_takes_no_key(tmp_path: Path) -> None:
    twin = PASSWD + "eve:x:1007:1007::/home/ada/:/bin/sh\n"
    paths, cautions = written(tmp_path, "", passwd=twin)
    assert paths == []
    assert any("also the home of eve" in why for why in cautions)
    assert cautions[-1] == "sshd reads no file that belongs to this user alone: the keys are not written"
    paths, _ = written(tmp_path, "AuthorizedKeysFile .ssh/a /etc/ssh/k/%u\n", passwd=twin)
    assert paths == ["/etc/ssh/k/ada"]
    paths, _ = written(tmp_path, "", passwd=PASSWD + "ada2:x:1000:1000::/home/ada:/bin/sh\n")
    assert paths == [KEYS]


def test_where_the_address_decides_every_file_that_may_count_gets_the_key(tmp_path: Path) -> None:
    config = "AuthorizedKeysFile .ssh/far\nMatch Address 10.0.0.0/8\nAuthorizedKeysFile .ssh/near\n"
    paths, _ = written(tmp_path, config)
    assert sorted(paths) == ["/home/ada/.ssh/far", "/home/ada/.ssh/near"]


def test_a_link_gives_way_to_the_next(tmp_path: Path) -> None:
    machine = tree(tmp_path, {MAIN: ""})
    (tmp_path / "home/ada/.ssh").mkdir(mode=0o700)
    own(tmp_path / "home/ada/.ssh")
    (tmp_path / KEYS[1:]).symlink_to("/etc/passwd")
    machine.write("/etc/ssh/sshd_config", b"AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2\n")
    plan = plan_ada(machine, ed25519())
    assert [action.path for action in actions_of(plan) if isinstance(action, Write)] == [f"{KEYS}2"]
    assert (tmp_path / "etc/passwd").read_text() == PASSWD
