"""azure-init's reading of sshd's configuration, compared with sshd -T and with logins."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from azureinit.config.model import Config
from azureinit.facts.key_files import read_keys_files
from azureinit.facts.ssh import KEYBOARD, PASSWORD, Logins, logins_of
from azureinit.plan.actions import Step
from azureinit.plan.hostkeys import plan_host_keys
from azureinit.plan.keys import key_paths, plan_keys
from azureinit.plan.sshd import HEADER, interval, plan_sshd, with_block
from azureinit.record import replace
from azureinit.sources.imds import PublicKey
from support.facts import altered, parts
from support.need import need, need_root, unfit
from support.ssh_trees import (
    facts_of,
    tree,
)
from support.sshd_trees import CONFIG, MAIN, apply, ours, ssh_keygen

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
