"""Keys, host keys and sshd's configuration on real trees, judged by the real sshd, ssh-keygen and ssh."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from azureinit.apply.executor import apply_step
from azureinit.config.model import Config
from azureinit.errors import InvalidKey, KeysFailed, LocalError, SshdFailed
from azureinit.facts.key_files import read_keys_files
from azureinit.facts.ssh import KEYBOARD, PASSWORD, Logins, aliases_of, logins_of
from azureinit.facts.sshd_config import Walk, expand
from azureinit.machine import Machine
from azureinit.memory.journal import Journal
from azureinit.plan.actions import Run, Satisfied, Step
from azureinit.plan.hostkeys import plan_host_keys
from azureinit.plan.keys import key_paths, plan_keys
from azureinit.plan.sshd import HEADER, interval, plan_sshd, with_block
from azureinit.pubkey import parse_key
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from support.facts import altered, parts
from support.need import need, need_root, unfit
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

MAIN = "/etc/ssh/sshd_config"
CONFIG = Config()


def apply(machine: Machine, plan: tuple[Any, ...]) -> None:
    for step in plan:
        if isinstance(step, Step):
            apply_step(machine, step, journal=Journal("/journal", []), deadline=float("inf"))


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


def ssh_keygen(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([need("ssh-keygen"), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)


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


# ---- our reading of it, judged by sshd -T


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host key, and the directory without which sshd as root does not judge."""
    need("sshd")
    key = tmp_path_factory.mktemp("judge") / "key"
    assert ssh_keygen("-q", "-t", "ed25519", "-N", "", "-f", str(key)).returncode == 0
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", 0o755, exist_ok=True)  # left, as sshd's own service does: another worker may need it
    return key


def in_force(config: Path, key: Path) -> dict[str, str]:
    run = [need("sshd"), "-T", "-f", str(config), "-h", str(key)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {word.lower(): rest for word, _, rest in (line.partition(" ") for line in done.stdout.splitlines())}


def ours(config: Path) -> dict[str, tuple[str, ...]]:
    def read(path: str) -> bytes | None:
        return Path(path).read_bytes() if os.path.isfile(path) else None

    def names(path: str) -> tuple[str, ...] | None:
        return tuple(os.listdir(path)) if os.path.isdir(path) else None

    return Walk(
        str(config), read=read, expand=lambda pattern: expand(pattern, names), aliases=aliases_of((9, 2))
    ).values


TRICKY = {
    "nothing": "",
    "first wins": "PasswordAuthentication no\nPasswordAuthentication yes\n",
    "case": "pAsSwOrDaUtHeNtIcAtIoN NO\n",
    "equals": "PasswordAuthentication=no\nKbdInteractiveAuthentication = no\n",
    "quotes": 'PasswordAuthentication "no"\n"KbdInteractiveAuthentication" no\n',
    "comment after": "PasswordAuthentication no # not yes\n#KbdInteractiveAuthentication no\n",
    "carriage returns": "PasswordAuthentication no\r\nUsePAM yes\r\n",
    "blanks": "\t PasswordAuthentication\t\tno \t\f\n",
    "no last newline": "PasswordAuthentication no",
    "alias first": "ChallengeResponseAuthentication no\nKbdInteractiveAuthentication yes\n",
    "alias last": "KbdInteractiveAuthentication yes\nSkeyAuthentication no\n",
    "match user": "Match User nobody\nPasswordAuthentication no\n",
    "match all after a match": "Match User x\nPasswordAuthentication no\nMatch all\nKbdInteractiveAuthentication no\n",
    "match all over global": "PasswordAuthentication yes\nMatch all\nPasswordAuthentication no\n",
    "two match all": "Match all\nPasswordAuthentication no\nMatch ALL\nPasswordAuthentication yes\n",
    "match equals": "Match=all\nPasswordAuthentication no\n",
    "include first": "Include {d}/*.conf\nPasswordAuthentication no\n",
    "include last": "PasswordAuthentication no\nInclude {d}/*.conf\n",
    "include order": "Include {d}/2*.conf {d}/1*.conf\n",
    "include quoted": 'include="{d}/[1-2]0.conf"\n',
    "include one letter": "Include {d}/?0.conf\n",
    "include of nothing": "Include {d}/none/*.conf {d}/missing\nPasswordAuthentication no\n",
    "include in match": "Match User nobody\nInclude {d}/*.conf\nMatch all\nPasswordAuthentication no\n",
    "include in match all": "PasswordAuthentication yes\nMatch all\nInclude {d}/20.conf\n",
    "include with a match": "Include {d}/match\nKbdInteractiveAuthentication no\n",
    "include with match all": "PasswordAuthentication yes\nInclude {d}/all\nKbdInteractiveAuthentication no\n",
    "match all in an include in a match": "Match User nobody\nInclude {d}/all\n",
    "a nul": "PasswordAuthentication no # \0x\nKbdInteractiveAuthentication no\n",
    "a nul after a word": "PasswordAuthentication \0no\nno\nKbdInteractiveAuthentication no\n",
    "a nul in a comment": "# \0\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
    "key files": "AuthorizedKeysFile .ssh/a /etc/keys/%u '%h/b c' d\\ e f#g # h\n",
    "key files none": "AuthorizedKeysFile none\n",
    "key files first": "AuthorizedKeysFile a b\nAuthorizedKeysFile c\n",
}
PARTS = {
    "10.conf": "PasswordAuthentication yes\n",
    "20.conf": "PasswordAuthentication no\nKbdInteractiveAuthentication no\n",
    ".05.conf": "PasswordAuthentication no\n",
    "30.conf.bak": "KbdInteractiveAuthentication no\n",
    "match": "PasswordAuthentication no\nMatch User nobody\nKbdInteractiveAuthentication yes\n",
    "all": "Match all\nPasswordAuthentication no\n",
}


@pytest.mark.parametrize("case", TRICKY)
def test_we_read_a_configuration_as_sshd_does(tmp_path: Path, judge: Path, case: str) -> None:
    parts = tmp_path / "d"
    parts.mkdir()
    for name, text in PARTS.items():
        (parts / name).write_text(text)
    config = tmp_path / "sshd_config"
    config.write_bytes(TRICKY[case].replace("{d}", str(parts)).encode())
    theirs, values = in_force(config, judge), ours(config)
    logins = logins_of(values, (9, 2))
    assert logins == Logins(password=theirs[PASSWORD] == "yes", keyboard=theirs[KEYBOARD] == "yes")
    files = values.get("authorizedkeysfile", (".ssh/authorized_keys", ".ssh/authorized_keys2"))
    assert " ".join(files) == theirs["authorizedkeysfile"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("Include {d}/*.conf\nUsePAM yes\n", "00-azure-init.conf"), ("PasswordAuthentication yes\n", None)],
)
def test_what_we_say_would_win_does_win(tmp_path: Path, judge: Path, text: str, name: str | None) -> None:
    (tmp_path / "50.conf").write_text("PasswordAuthentication yes\n")
    config = tmp_path / "sshd_config"
    lines = b"PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    old = text.replace("{d}", str(tmp_path)).encode()
    config.write_bytes(old if name else with_block(old, lines))
    if name:
        (tmp_path / name).write_bytes(HEADER + lines)
    theirs = in_force(config, judge)
    assert (theirs[PASSWORD], theirs[KEYBOARD]) == ("no", "no")


@pytest.mark.parametrize("includes", [True, False])
@pytest.mark.parametrize("allow", [None, False])
def test_sshd_itself_asks_silent_clients_as_we_told_it(
    tmp_path: Path, judge: Path, includes: bool, allow: bool | None
) -> None:
    """What the plan writes, read by sshd: under --root its paths are those of the tree."""
    config = Config(ssh=replace(CONFIG.ssh, client_alive_interval=125))
    old = ("Include /etc/ssh/sshd_config.d/*.conf\n" if includes else "") + "ClientAliveInterval 7\nUsePAM no\n"
    machine = tree(tmp_path / "root", {MAIN: old})
    apply(machine, plan_sshd(allow_password=allow, **parts(facts_of(machine), "host", "ssh"), config=config))
    main = tmp_path / "root" / MAIN[1:]
    main.write_text(main.read_text().replace("/etc/ssh/", f"{tmp_path}/root/etc/ssh/"))
    theirs = in_force(main, judge)
    assert theirs["clientaliveinterval"] == "125"
    assert theirs[PASSWORD] == ("yes" if allow is None else "no")
    main.write_text(main.read_text().replace(f"{tmp_path}/root/etc/ssh/", "/etc/ssh/"))
    again = plan_sshd(allow_password=allow, **parts(facts_of(machine), "host", "ssh"), config=config)
    assert not [item for item in again if isinstance(item, Step)]


@pytest.mark.parametrize("text", ["90", "90s", "1m30", "1h", "1H2M", "1d", "1w", "2m2m", "x", "1x", "m"])
def test_we_read_an_interval_as_sshd_does(tmp_path: Path, judge: Path, text: str) -> None:
    config = tmp_path / "sshd_config"
    config.write_text(f"ClientAliveInterval {text}\n")
    ran = subprocess.run([need("sshd"), "-T", "-f", str(config), "-h", str(judge)], capture_output=True, text=True)
    if interval(text) < 0:
        assert "invalid time value" in ran.stderr.lower()
    else:
        assert f"clientaliveinterval {interval(text)}\n" in ran.stdout


# ---- all of it, by logging in


def test_the_admin_logs_in_with_the_key_and_no_password_is_offered(tmp_path: Path, judge: Path) -> None:
    need_root()
    unshare, ssh, sshd = need("unshare"), need("ssh"), need("sshd")
    if subprocess.run([unshare, "-m", "true"], capture_output=True, check=False).returncode != 0:
        unfit("no mount namespaces here")
    ssh_keygen("-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "id"))
    root = tmp_path / "root"
    machine = tree(root, {MAIN: "Include sshd_config.d/*.conf\n"})
    (root / "root").mkdir(mode=0o700)
    about: dict[str, Any] = {
        "username": "root",
        "home": "/root",
        "keys": (PublicKey(data=(tmp_path / "id.pub").read_text(), path="/root/.ssh/authorized_keys"),),
        "config": CONFIG,
    }
    facts = facts_of(machine)
    seen = read_keys_files(machine, home="/root", paths=key_paths(**parts(facts, "accounts", "ssh"), **about))
    apply(machine, plan_host_keys(types=("ed25519",), **parts(facts, "host", "ssh")))
    apply(machine, plan_keys(**parts(altered(facts, keys_files=seen), "host", "accounts", "ssh", "admin"), **about))
    apply(machine, plan_sshd(allow_password=False, **parts(facts, "host", "ssh"), config=CONFIG))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mounts = f"mount --bind {root}/root /root && mount --bind {root}/etc/ssh /etc/ssh"
    serve = f"{mounts} && exec {sshd} -D -e -p {port} -o ListenAddress=127.0.0.1 -o PidFile=none"
    server = subprocess.Popen([unshare, "-m", "sh", "-c", serve], stderr=subprocess.PIPE)
    try:
        options = ["-F", "none", "-p", str(port), "-i", str(tmp_path / "id"), "-o", "BatchMode=yes"]
        options += ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known"]
        wait_for(port, server)
        come_in = [ssh, *options, "root@127.0.0.1", "echo in"]
        logged_in = subprocess.run(come_in, capture_output=True, text=True, check=False)
        assert logged_in.stdout == "in\n", logged_in.stderr
        knock = [ssh, "-v", *options, "-o", "PubkeyAuthentication=no", "root@127.0.0.1", "true"]
        refused = subprocess.run(knock, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert "Authentications that can continue: publickey\n" in refused.stderr.replace("\r", "")
    finally:
        server.terminate()
        server.communicate()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        assert server.poll() is None, server.communicate()[1].decode()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise AssertionError("sshd does not listen")
