"""A program sshd is asked for its configuration, and homes of other owners."""

from __future__ import annotations

from pathlib import Path

from azureinit.facts.key_files import KeysFile, read_keys_files
from azureinit.machine import Machine
from support.need import need_root
from support.ssh_trees import read_ssh, tree


def sshd(root: Path, script: str) -> Machine:
    """A machine that is not rooted, whose only program is an sshd of our own."""
    tool = root / "bin/sshd"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return Machine(search=(str(tool.parent),), kernel=str(root))


def test_sshd_itself_is_asked_first(tmp_path: Path) -> None:
    machine = sshd(tmp_path, 'echo "passwordauthentication no"; echo "authorizedkeysfile .ssh/a .ssh/b"')
    ssh = read_ssh(machine, tools=frozenset(("sshd",)), query=True)
    assert (ssh.logins.password, ssh.authorized_keys_files, ssh.version) == (False, (".ssh/a", ".ssh/b"), (9, 3))
    assert ssh.query_failure == ""


def test_an_sshd_that_does_not_answer_says_why_and_how_old_it_is(tmp_path: Path) -> None:
    script = 'printf "unknown option -- G\\r\\nOpenSSH_8.4p1 Debian-5, OpenSSL\\nusage: sshd\\n" >&2; exit 1'
    ssh = read_ssh(sshd(tmp_path, script), tools=frozenset(("sshd",)), query=True)
    assert (ssh.query_failure, ssh.version) == ("sshd -G: unknown option -- G", (8, 4))


def way(machine: Machine, home: str, path: str | None = None) -> KeysFile:
    (file,) = read_keys_files(machine, home=home, paths=(path or f"{home}/.ssh/authorized_keys",))
    return file


def test_a_home_in_a_directory_of_its_users_is_not_followed(tmp_path: Path) -> None:
    need_root()
    machine = tree(tmp_path, {"/root/.ssh/authorized_keys": "root's"})
    (tmp_path / "home/ada/sub").symlink_to("/root")
    assert way(machine, "/home/ada/sub").problem == "/home/ada/sub is a symbolic link"
    (tmp_path / "home/ada/sub").unlink()
    assert way(machine, "/home/ada/sub").beneath == "/home/ada"
