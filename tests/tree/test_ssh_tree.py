"""Keys, host keys and sshd's configuration on real trees, judged by the real sshd, ssh-keygen and ssh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from azureinit.errors import InvalidKey, KeysFailed, LocalError, SshdFailed
from azureinit.facts.ssh import Logins
from azureinit.plan.actions import Run, Satisfied
from azureinit.plan.hostkeys import plan_host_keys
from azureinit.plan.sshd import HEADER, plan_sshd, with_block
from azureinit.pubkey import parse_key
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from support.facts import parts
from support.need import need, need_root
from support.ssh_trees import (
    DEBIAN,
    DROPIN,
    KEYS,
    POINTS,
    blob,
    changes,
    ed25519,
    ed25519_point,
    facts_of,
    plan_ada,
    snapshot,
    tree,
)
from support.sshd_trees import CONFIG, MAIN, apply, ssh_keygen

# ---- keys in a home


def test_keys_are_added_with_owner_and_modes_and_nothing_else_changes(tmp_path: Path) -> None:
    machine = tree(tmp_path, {KEYS: f"# mine\n{ed25519('m')}", "/home/ada/.profile": "x"})
    before = snapshot(tmp_path)
    apply(machine, plan_ada(machine, ed25519("a"), ed25519("m", "again")))
    after = snapshot(tmp_path)
    assert changes(before, after) == {KEYS, "/home/ada/.ssh"}
    assert after["/home/ada/.ssh"] == (0o700, "dir")
    assert after[KEYS] == (0o600, f"# mine\n{ed25519('m')}\n{ed25519('a')}\n".encode())
    if os.geteuid() == 0:
        found = (tmp_path / KEYS[1:]).stat()
        assert (found.st_uid, found.st_gid) == (1000, 1000)
    assert [type(item) for item in plan_ada(machine, ed25519("a"), ed25519("m"))] == [Satisfied]


def test_a_new_home_gets_every_directory_on_the_way(tmp_path: Path) -> None:
    machine = tree(tmp_path, {})
    key = PublicKey(data=ed25519(), path="/home/ada/a/b/keys")
    apply(machine, plan_ada(machine, key))
    after = snapshot(tmp_path / "home/ada")
    assert set(after) == {"/a", "/a/b", "/a/b/keys", "/.ssh", "/.ssh/authorized_keys"}
    assert {mode for mode, data in after.values() if data == "dir"} == {0o700}
    assert [type(item) for item in plan_ada(machine, key)] == [Satisfied]


@pytest.mark.parametrize(
    ("link", "target", "named"),
    [(".ssh", "/etc", "/home/ada/.ssh"), (".ssh/authorized_keys", "/etc/shadow", KEYS)],
)
def test_a_planted_link_is_refused_by_name_and_nothing_is_touched(
    tmp_path: Path, link: str, target: str, named: str
) -> None:
    machine = tree(tmp_path, {"/etc/shadow": "secret"})
    planted = tmp_path / "home/ada" / link
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(target)
    before = snapshot(tmp_path)
    with pytest.raises(KeysFailed, match=f"{named} is a symbolic link"):
        apply(machine, plan_ada(machine, ed25519()))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(("link", "target"), [(".ssh", "/etc"), (".ssh/authorized_keys", "/etc/shadow")])
def test_a_link_planted_after_planning_is_refused_too(tmp_path: Path, link: str, target: str) -> None:
    machine = tree(tmp_path, {"/etc/shadow": "secret"})
    plan = plan_ada(machine, ed25519())
    planted = tmp_path / "home/ada" / link
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(target)
    with pytest.raises(KeysFailed) as refused:
        apply(machine, plan)
    assert isinstance(refused.value.failures["native"], LocalError)
    assert (tmp_path / "etc/shadow").read_text() == "secret"
    assert sorted(path.name for path in (tmp_path / "etc").iterdir()) == ["group", "passwd", "shadow"]


def test_a_hard_link_to_roots_file_gives_nothing_away(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/etc/secret": "secret", "/home/ada/.ssh/x": ""})
    os.link(tmp_path / "etc/secret", tmp_path / KEYS[1:])
    before = snapshot(tmp_path)
    with pytest.raises(KeysFailed, match="has other names"):
        apply(machine, plan_ada(machine, ed25519()))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("home", ["/home/ada/sub", "/home/ada/sub/deep"])
def test_a_home_that_its_user_makes_a_link_is_not_followed(tmp_path: Path, home: str) -> None:
    need_root()
    machine = tree(tmp_path, {"/root/.ssh/authorized_keys": "root's", "/root/deep/x": ""})
    plan = plan_ada(machine, ed25519(), home=home)
    (tmp_path / "home/ada/sub").symlink_to("/root")
    before = snapshot(tmp_path)
    for late in (plan, plan_ada(machine, ed25519(), home=home)):
        with pytest.raises(KeysFailed):
            apply(machine, late)
        assert snapshot(tmp_path) == before


# ---- what a key is, judged by ssh-keygen


@pytest.mark.parametrize(
    "kind",
    [("ed25519",), ("rsa", "-b", "2048"), ("ecdsa", "-b", "256"), ("ecdsa", "-b", "384"), ("ecdsa", "-b", "521")],
)
def test_what_ssh_keygen_makes_is_a_key_and_so_is_its_certificate(tmp_path: Path, kind: tuple[str, ...]) -> None:
    key, authority = str(tmp_path / "key"), str(tmp_path / "ca")
    for path in (key, authority):
        assert ssh_keygen("-q", "-t", *kind, "-N", "", "-C", "me @ home", "-f", path).returncode == 0
    assert ssh_keygen("-q", "-s", authority, "-I", "me", "-n", "ada", f"{key}.pub").returncode == 0
    for path in (f"{key}.pub", f"{key}-cert.pub"):
        text = Path(path).read_text()
        assert parse_key(text) == text


WHOLE = ed25519("k", "me")
P256 = "ecdsa-sha2-nistp256"
JUDGED = {
    "whole": WHOLE,
    "sk": f"sk-ssh-ed25519@openssh.com {blob('sk-ssh-ed25519@openssh.com', ed25519_point(), 'ssh:')}",
    "signature name": None,
    "cut": ed25519()[:-4],
    "cut inside base64": ed25519()[:-1],
    "another kind": ed25519().replace("ssh-ed25519 ", "ssh-rsa "),
    "too long inside": f"ssh-ed25519 {blob('ssh-ed25519', b'k' * 32, b'x')}",
    "short": f"ssh-ed25519 {blob('ssh-ed25519', b'k' * 31)}",
    "unknown": f"ssh-none {blob('ssh-none', b'k' * 32)}",
    "small rsa": f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), bytes((0,)) + b'Z' * 64)}",
    "negative rsa": f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), bytes((0xC5,)) * 256)}",
    "huge rsa": f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), bytes((0,)) + b'z' * 2048 + b'q')}",
    "nistp256": f"{P256} {blob(P256, 'nistp256', POINTS[256])}",
    "nistp384": f"ecdsa-sha2-nistp384 {blob('ecdsa-sha2-nistp384', 'nistp384', POINTS[384])}",
    "nistp521": f"ecdsa-sha2-nistp521 {blob('ecdsa-sha2-nistp521', 'nistp521', POINTS[521])}",
    "another curve": f"{P256} {blob(P256, 'nistp384', POINTS[256])}",
    "off the curve": f"{P256} {blob(P256, 'nistp256', POINTS[256][:-1] + b'x')}",
    "compressed": f"{P256} {blob(P256, 'nistp256', bytes((3,)) + POINTS[256][1:33])}",
    "no point": f"{P256} {blob(P256, 'nistp256', bytes((0,)))}",
    "zero point": f"{P256} {blob(P256, 'nistp256', bytes((4,)) + bytes(64))}",
    "point of another curve": f"{P256} {blob(P256, 'nistp256', POINTS[384])}",
    "tab": WHOLE.replace(" ", "\t"),
    "not base64": "ssh-ed25519 " + "!" * 68,
}


@pytest.mark.parametrize("case", JUDGED)
def test_we_take_what_openssh_takes_and_refuse_what_it_refuses(tmp_path: Path, case: str) -> None:
    text = JUDGED[case]
    if text is None:
        path = tmp_path / "rsa"
        ssh_keygen("-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(path))
        text = path.with_suffix(".pub").read_text().replace("ssh-rsa ", "rsa-sha2-256 ")
    file = tmp_path / "judged.pub"
    file.write_text(text + "\n")
    taken = ssh_keygen("-l", "-f", str(file)).returncode == 0
    try:
        parse_key(text)
        ours = True
    except InvalidKey:
        ours = False
    assert ours is taken


# ---- host keys


def test_host_keys_are_made_once_and_torn_ones_again(tmp_path: Path) -> None:
    need("ssh-keygen")
    machine = tree(tmp_path, {MAIN: DEBIAN, "/etc/ssh/ssh_host_ecdsa_key": "-----BEGIN OPENSSH"})
    before = snapshot(tmp_path)
    apply(machine, plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts_of(machine), "host", "ssh")))
    after = snapshot(tmp_path)
    paths = {f"/etc/ssh/ssh_host_{kind}_key{end}" for kind in ("ed25519", "ecdsa") for end in ("", ".pub")}
    assert changes(before, after) == paths
    assert after["/etc/ssh/ssh_host_ecdsa_key"][0] == 0o600
    again = plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts_of(machine), "host", "ssh"))
    assert [type(item) for item in again] == [Satisfied, Satisfied]
    apply(machine, plan_host_keys(types=("rsa",), **parts(facts_of(machine), "host", "ssh")))
    assert all(key.whole for key in facts_of(machine).ssh.host_keys)


def test_host_keys_are_never_made_outside_the_root(tmp_path: Path) -> None:
    need("ssh-keygen")
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    machine = tree(root, {f"{outside}/sshd_config": ""})
    (root / "etc/ssh").symlink_to(outside)
    (root / str(outside)[1:] / "ssh_host_ed25519_key").symlink_to(f"{outside}/private_ed25519")
    (root / str(outside)[1:] / "private_ed25519.pub").symlink_to(f"{outside}/public")
    apply(machine, plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts_of(machine), "host", "ssh")))
    assert list(outside.iterdir()) == []
    again = plan_host_keys(types=("ed25519", "ecdsa"), **parts(facts_of(machine), "host", "ssh"))
    assert [type(item) for item in again] == [Satisfied, Satisfied]


def test_a_link_to_a_torn_host_key_makes_room_for_a_new_one(tmp_path: Path) -> None:
    need("ssh-keygen")
    machine = tree(tmp_path, {MAIN: DEBIAN, "/srv/torn": "-----BEGIN OPENSSH"})
    (tmp_path / "etc/ssh/ssh_host_ed25519_key").symlink_to("/srv/torn")
    apply(machine, plan_host_keys(types=("ed25519",), **parts(facts_of(machine), "host", "ssh")))
    assert facts_of(machine).ssh.host_keys[0].whole


# ---- sshd's configuration


@pytest.mark.parametrize("allow", [True, False])
def test_sshd_is_told_in_a_dropin_and_then_there_is_nothing_left(tmp_path: Path, allow: bool) -> None:
    machine = tree(tmp_path, {MAIN: DEBIAN, "/etc/ssh/sshd_config.d/50-x.conf": "PasswordAuthentication yes\n"})
    before = snapshot(tmp_path)
    apply(machine, plan_sshd(allow_password=allow, **parts(facts_of(machine), "host", "ssh"), config=CONFIG))
    after = snapshot(tmp_path)
    value = "yes" if allow else "no"
    told = f"PasswordAuthentication {value}\nKbdInteractiveAuthentication {value}\n".encode()
    assert changes(before, after) == {DROPIN}
    assert after[DROPIN] == (0o600, HEADER + told)
    (item,) = plan_sshd(allow_password=allow, **parts(facts_of(machine), "host", "ssh"), config=CONFIG)
    assert isinstance(item, Satisfied)


def test_a_file_without_include_is_edited_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    machine = tree(tmp_path, {MAIN: "UsePAM yes\n"})
    (tmp_path / MAIN[1:]).chmod(0o640)
    before = snapshot(tmp_path)
    for allow in (False, True, False):
        apply(machine, plan_sshd(allow_password=allow, **parts(facts_of(machine), "host", "ssh"), config=CONFIG))
        assert facts_of(machine).ssh.logins == Logins(password=allow, keyboard=allow)
    after = snapshot(tmp_path)
    lines = b"PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    assert changes(before, after) == {MAIN}
    assert after[MAIN] == (0o640, with_block(b"UsePAM yes\n", lines))


def test_a_change_that_sshd_refuses_is_taken_back(tmp_path: Path) -> None:
    machine = tree(tmp_path, {MAIN: DEBIAN, DROPIN: "PasswordAuthentication yes\n"})
    before = snapshot(tmp_path)
    (step,) = plan_sshd(allow_password=False, **parts(facts_of(machine), "host", "ssh"), config=CONFIG)
    write = step.ways[0].actions[-1]  # type: ignore[union-attr]
    checked = replace(step.ways[0], actions=(replace(write, check=Run(argv=("false",))),))  # type: ignore[union-attr]
    with pytest.raises(SshdFailed, match="false failed"):
        apply(machine, (replace(step, ways=(checked,)),))
    assert snapshot(tmp_path) == before
