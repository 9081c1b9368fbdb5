"""azure-init's parser of sshd's configuration, the host keys, and the key files of a home."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.facts.key_files import read_keys_files
from azureinit.facts.ssh import Logins, Ssh, read_files
from azureinit.facts.sshd_answer import Answer, parse_answer, parse_version, remembered, with_answer
from azureinit.facts.sshd_config import MOST_FILES, Walk, expand, matches, parse_line
from azureinit.machine import Machine, local_error
from support.ssh_trees import DEBIAN, read_ssh, tree

NO_TOOLS: frozenset[str] = frozenset()
WHOLE = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


def read(root: Path, files: Mapping[str, str | bytes]) -> Ssh:
    return read_ssh(tree(root, files), tools=NO_TOOLS, query=True)


@pytest.mark.parametrize(
    ("line", "keyword", "arguments"),
    [
        ("PasswordAuthentication no", "passwordauthentication", ("no",)),
        ("\tPASSWORDAUTHENTICATION\tno  \r", "passwordauthentication", ("no",)),
        ("PasswordAuthentication=no", "passwordauthentication", ("no",)),
        ("PasswordAuthentication = no", "passwordauthentication", ("no",)),
        ('PasswordAuthentication="no"', "passwordauthentication", ("no",)),
        ('"PasswordAuthentication" no', "passwordauthentication", ("no",)),
        ("AuthorizedKeysFile a \"b c\" 'd e' f\\ g h#i # j", "authorizedkeysfile", ("a", "b c", "d e", "f g", "h#i")),
        # As OpenSSH's strdelim has it: one "=" at the start is passed over, and a quoted part belongs to its word.
        ("=PasswordAuthentication no", "passwordauthentication", ("no",)),
        (" =\tPasswordAuthentication = no", "passwordauthentication", ("no",)),
        ("==PasswordAuthentication no", "", ()),
        ('Password"Authentication" no', "passwordauthentication", ("no",)),
        ("=# PasswordAuthentication no", "", ()),
        ("# PasswordAuthentication no", "", ()),
        ("", "", ()),
        ("PasswordAuthentication", "passwordauthentication", ()),
        ('AuthorizedKeysFile "a', "authorizedkeysfile", ()),
    ],
)
def test_a_line_is_a_keyword_and_its_arguments(line: str, keyword: str, arguments: tuple[str, ...]) -> None:
    assert parse_line(line) == (keyword, arguments)


@given(st.text(alphabet="ab=\"'\\# \t\r\f\u00e9"))
def test_no_line_is_too_odd_to_parse(line: str) -> None:
    keyword, arguments = parse_line(line)
    assert keyword == keyword.lower()
    assert all(isinstance(word, str) for word in arguments)


@given(st.text(alphabet="ab.", max_size=8), st.text(alphabet="ab.*?", max_size=6))
def test_globs_match_as_the_shell_has_them(name: str, pattern: str) -> None:
    hidden = name.startswith(".") and not pattern.startswith(".")
    assert matches(name, pattern) == (fnmatch.fnmatchcase(name, pattern) and not hidden)


@pytest.mark.parametrize(
    ("name", "pattern", "matched"),
    [
        ("10-a.conf", "[0-9]*.conf", True),
        ("x.conf", "[!0-9]*.conf", True),
        ("x.conf", "[^x]*", False),
        ("*.conf", "\\*.conf", True),
        ("a.conf", "\\*.conf", False),
        ("]a", "[]]a", True),
        ("[a", "[a", True),
        (".hidden.conf", "*.conf", False),
        (".00-azure-init.conf.azure-init~", "*.conf", False),
        ("a" * 5000, "*a" * 20 + "b", False),
    ],
)
def test_globs_know_sets_escapes_and_hidden_files(name: str, pattern: str, matched: bool) -> None:
    assert matches(name, pattern) is matched


def test_a_glob_walks_every_directory_it_must() -> None:
    listing = {"/": ("etc",), "/etc": ("b.d", "a.d", "c"), "/etc/a.d": ("2", "1"), "/etc/b.d": ("0",)}
    assert expand("/etc/*.d/?", listing.get) == ("/etc/a.d/1", "/etc/a.d/2", "/etc/b.d/0")
    assert expand("/no/*", listing.get) == ()


def test_a_glob_skips_directories_it_may_not_read() -> None:
    def names(directory: str) -> tuple[str, ...]:
        if directory == "/a/closed":
            raise local_error(PermissionError(13, "Permission denied"), "list", directory)
        return ("closed", "open") if directory == "/a" else ("x",)

    assert expand("/a/*/*", names) == ("/a/open/x",)


def test_the_first_value_counts_and_includes_are_read_at_their_place(tmp_path: Path) -> None:
    ssh = read(
        tmp_path,
        {
            "/etc/ssh/sshd_config": DEBIAN + "PasswordAuthentication no\n",
            "/etc/ssh/sshd_config.d/50-cloud.conf": "PasswordAuthentication yes\n",
            "/etc/ssh/sshd_config.d/60-other.conf": "PasswordAuthentication no\n",
            "/etc/ssh/sshd_config.d/ignored.txt": "PasswordAuthentication no\n",
        },
    )
    assert ssh.logins == Logins(password=True, keyboard=False)
    assert [file.path.rpartition("/")[2] for file in ssh.files] == ["sshd_config", "50-cloud.conf", "60-other.conf"]
    assert ssh.use_pam and ssh.dropin_dir and not ssh.vendor


def test_a_relative_include_is_in_etc_ssh_and_may_name_several(tmp_path: Path) -> None:
    ssh = read(
        tmp_path,
        {
            "/etc/ssh/sshd_config": 'INCLUDE "sshd_config.d/*.conf" more/*\n',
            "/etc/ssh/sshd_config.d/a.conf": "PasswordAuthentication no\n",
            "/etc/ssh/more/b": "KbdInteractiveAuthentication no\n",
        },
    )
    assert ssh.logins == Logins(password=False, keyboard=False)


def test_match_blocks_are_left_out_but_match_all_counts_for_everyone(tmp_path: Path) -> None:
    text = "PasswordAuthentication yes\nMatch User bob\nKbdInteractiveAuthentication no\nMatch all\n"
    ssh = read(tmp_path, {"/etc/ssh/sshd_config": text + "PasswordAuthentication no\n"})
    assert ssh.logins == Logins(password=False, keyboard=True)


def test_a_match_inside_an_included_file_ends_with_it(tmp_path: Path) -> None:
    ssh = read(
        tmp_path,
        {
            "/etc/ssh/sshd_config": "Include a\nPasswordAuthentication no\nMatch User b\nInclude c\n",
            "/etc/ssh/a": "Match User x\n",
            "/etc/ssh/c": "Match all\nKbdInteractiveAuthentication no\n",
        },
    )
    assert ssh.logins == Logins(password=False, keyboard=True)


def test_what_counts_for_some_is_kept_with_the_block_that_names_them(tmp_path: Path) -> None:
    ssh = read(
        tmp_path,
        {
            "/etc/ssh/sshd_config": "Match User b\nInclude a\nMatch all\nPasswordAuthentication no\n",
            "/etc/ssh/a": "PasswordAuthentication yes\nMatch all\nskeyauthentication No\nMatch Group c\n"
            "PasswordAuthentication no\nUsePAM no\n",
        },
    )
    found = [(said.block, said.number, said.line, said.arguments) for said in ssh.exceptions]
    assert [(block.path, block.line, *said) for block, *said in found if block] == [
        ("/etc/ssh/sshd_config", "Match User b", 1, "PasswordAuthentication yes", ("yes",)),
        ("/etc/ssh/sshd_config", "Match User b", 3, "skeyauthentication No", ("No",)),
        ("/etc/ssh/a", "Match Group c", 5, "PasswordAuthentication no", ("no",)),
    ]


@pytest.mark.parametrize("line", ["HostKey /etc/ssh/\0ed25519", "Include /etc/ssh/x\0y", "Include /x\0y/*", "\0"])
def test_a_nul_in_the_configuration_is_no_crash(tmp_path: Path, line: str) -> None:
    ssh = read(tmp_path, {"/etc/ssh/sshd_config": f"PasswordAuthentication no\n{line}\n\n"})
    assert ssh.logins.password is False


def test_a_file_that_includes_itself_ends(tmp_path: Path) -> None:
    ssh = read(tmp_path, {"/etc/ssh/sshd_config": "Include sshd_config sshd_config\nPasswordAuthentication no\n"})
    assert ssh.logins.password is False


def test_no_configuration_is_walked_for_ever() -> None:
    opened = []

    def read_any(path: str) -> bytes:
        opened.append(path)
        return b"Include /a /b /c\n"

    Walk("/a", read=read_any, expand=lambda pattern: (pattern,), aliases={})
    assert len(opened) == MOST_FILES


def test_without_sshd_there_is_nothing_to_know(tmp_path: Path) -> None:
    ssh = read(tmp_path, {})
    assert (ssh.installed, ssh.config_path, ssh.files, ssh.configured) == (False, None, (), {})


def test_the_vendors_configuration_counts_where_etc_has_none(tmp_path: Path) -> None:
    ssh = read(tmp_path, {"/usr/etc/ssh/sshd_config": "Include /etc/ssh/sshd_config.d/*.conf\n"})
    assert (ssh.installed, ssh.config_path, ssh.vendor) == (True, "/usr/etc/ssh/sshd_config", True)
    assert not ssh.dropin_dir


def test_what_would_be_in_force_is_worked_out_without_writing(tmp_path: Path) -> None:
    files = {"/etc/ssh/sshd_config": DEBIAN, "/etc/ssh/sshd_config.d/50-x.conf": "PasswordAuthentication yes\n"}
    ssh = read(tmp_path, files)
    no = b"PasswordAuthentication no\n"
    assert ssh.logins_with("/etc/ssh/sshd_config.d/00-a.conf", no).password is False
    assert ssh.logins_with("/etc/ssh/sshd_config.d/99-a.conf", no).password is True
    assert ssh.logins_with("/etc/ssh/sshd_config.d/00-a.txt", no).password is True


def test_an_old_sshd_holds_the_two_keyboard_switches_apart() -> None:
    ssh = Ssh(installed=True, config_path="/c", version=(8, 4))
    assert ssh.logins_with("/c", b"KbdInteractiveAuthentication no\n").keyboard is True
    assert ssh.logins_with("/c", b"ChallengeResponseAuthentication no\n").keyboard is False
    new = Ssh(installed=True, config_path="/c", version=(8, 7))
    both = b"ChallengeResponseAuthentication no\nKbdInteractiveAuthentication yes\n"
    assert new.logins_with("/c", both).keyboard is False


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("", None),
        ("AuthorizedKeysFile .ssh/authorized_keys /etc/keys/%u\n", (".ssh/authorized_keys", "/etc/keys/%u")),
        ("AuthorizedKeysFile None\n", ()),
    ],
)
def test_the_key_files_are_those_the_configuration_names(
    tmp_path: Path, text: str, files: tuple[str, ...] | None
) -> None:
    assert read(tmp_path, {"/etc/ssh/sshd_config": text}).authorized_keys_files == files


def test_key_files_are_not_asked_for_where_the_configuration_forbids_it(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": "AuthorizedKeysFile x\n"})
    assert read_ssh(machine, tools=NO_TOOLS, query=False).authorized_keys_files is None


def test_a_host_key_is_there_whole_or_torn(tmp_path: Path) -> None:
    ssh = read(
        tmp_path,
        {
            "/etc/ssh/sshd_config": "",
            "/etc/ssh/ssh_host_ed25519_key": WHOLE,
            "/etc/ssh/ssh_host_ecdsa_key": WHOLE[:-40],
        },
    )
    assert [(key.type, key.there, key.whole) for key in ssh.host_keys] == [
        ("ed25519", True, True),
        ("ecdsa", True, False),
        ("rsa", False, False),
    ]


def test_host_keys_are_where_the_configuration_says(tmp_path: Path) -> None:
    text = "HostKey /srv/ed25519_key\nHostKey /srv/other\nMatch all\n"
    ssh = read(tmp_path, {"/etc/ssh/sshd_config": text})
    assert [(key.type, key.path) for key in ssh.host_keys] == [("ed25519", "/srv/ed25519_key"), ("", "/srv/other")]
    assert ssh.host_keys_named


def test_dsa_keys_and_those_of_an_agent_are_not_ours_to_make(tmp_path: Path) -> None:
    text = "HostKey /etc/ssh/ssh_host_dsa_key\nHostKey /etc/ssh/ssh_host_ecdsa_key\nHostKey relative\n"
    assert [key.type for key in read(tmp_path, {"/etc/ssh/sshd_config": text}).host_keys] == ["ecdsa"]
    assert read(tmp_path, {"/etc/ssh/sshd_config": text + "HostKeyAgent SSH_AUTH_SOCK\n"}).host_keys == ()


def again(machine: Machine, before: Ssh) -> Ssh | None:
    """A second look, without asking."""
    return remembered(machine, read_files(machine, query=True), before)


def answered(root: Path, config: str) -> tuple[Machine, Path, Ssh]:
    """Of an sshd that refuses passwords, whatever the file says."""
    machine = tree(root, {"/etc/ssh/sshd_config": config})
    said: dict[str, tuple[str, ...]] = {
        "passwordauthentication": ("no",),
        "authorizedkeysfile": (".ssh/a",),
        "usepam": ("yes",),
    }
    answer = Answer(values=said, version=(9, 3))
    return machine, root / "etc/ssh/sshd_config", with_answer(machine, read_files(machine, query=True), answer)


def test_where_our_reading_is_sshds_own_it_is_asked_once(tmp_path: Path) -> None:
    machine, config, ssh = answered(tmp_path, "PasswordAuthentication NO\n")
    assert again(machine, ssh) == ssh
    config.write_text("PasswordAuthentication yes\nAuthorizedKeysFile .ssh/b\n")
    then = again(machine, ssh)
    assert then is not None
    assert (then.logins.password, then.authorized_keys_files, then.use_pam) == (True, (".ssh/b",), True)
    assert then.version == (9, 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("PasswordAuthentication yes\n", "PasswordAuthentication no\n"),  # sshd said otherwise
        ("PasswordAuthentication no\n", ""),  # and what by itself?
    ],
)
def test_where_it_is_not_or_a_word_is_gone_sshd_is_asked_again(tmp_path: Path, before: str, after: str) -> None:
    machine, config, ssh = answered(tmp_path, before)
    assert not ssh.logins.password
    config.write_text(after)
    assert again(machine, ssh) is None


def test_a_missing_sshd_is_a_reason_and_not_an_error(tmp_path: Path) -> None:
    machine = Machine(search=(str(tmp_path),), kernel=str(tmp_path))
    assert "not installed" in read_ssh(machine, tools=frozenset(("sshd",)), query=True).query_failure


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19", (9, 2)),
        ("x\nOpenSSH_10.0p2, ", (10, 0)),
        ("OpenSSH_for_Windows_9.5p1", None),
        ("OpenSSH_" + "9" * 5000 + ".1", None),
        ("", None),
    ],
)
def test_a_version_is_found_in_the_usage(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version


@given(st.binary())
def test_no_answer_is_too_odd_to_parse(out: bytes) -> None:
    assert all(arguments for arguments in parse_answer(out).values())


def seen(root: Path, path: str = "/home/ada/.ssh/authorized_keys") -> tuple[str | None, bytes | None]:
    (file,) = read_keys_files(Machine(root=str(root)), home="/home/ada", paths=(path,))
    return file.problem, file.data


def test_a_key_file_is_read_with_the_way_to_it(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/home/ada/.ssh/authorized_keys": "x\n"})
    (tmp_path / "home/ada/.ssh").chmod(0o755)
    (tmp_path / "home/ada/.ssh/authorized_keys").chmod(0o644)
    path = "/home/ada/.ssh/authorized_keys"
    (file,) = read_keys_files(machine, home="/home/ada", paths=(path,))
    assert (file.home, file.beneath, file.data, file.mode) == ("/home/ada", "/home/ada", b"x\n", 0o644)
    assert file.problem is None
    assert [(way.path, way.mode) for way in file.directories] == [("/home/ada/.ssh", 0o755)]


def test_a_home_that_is_not_there_has_no_key_file(tmp_path: Path) -> None:
    assert seen(tmp_path) == (None, None)


def test_links_and_odd_files_in_a_home_are_problems(tmp_path: Path) -> None:
    ssh = tmp_path / "home/ada/.ssh"
    ssh.parent.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").write_text("secret")
    ssh.symlink_to("/etc")
    assert seen(tmp_path) == ("/home/ada/.ssh is a symbolic link", None)
    ssh.unlink()
    ssh.write_text("")
    assert seen(tmp_path) == ("/home/ada/.ssh is a file", None)
    ssh.unlink()
    ssh.mkdir()
    (ssh / "authorized_keys").symlink_to("/etc/shadow")
    assert seen(tmp_path) == ("/home/ada/.ssh/authorized_keys is a symbolic link", None)
    (ssh / "authorized_keys").unlink()
    os.mkfifo(ssh / "authorized_keys")
    assert seen(tmp_path) == ("/home/ada/.ssh/authorized_keys is a special file", None)
    (ssh / "authorized_keys").unlink()
    (ssh / "authorized_keys").mkdir()
    assert seen(tmp_path) == ("/home/ada/.ssh/authorized_keys is a directory", None)


def test_a_key_file_too_large_to_be_one_is_a_problem(tmp_path: Path) -> None:
    tree(tmp_path, {"/home/ada/.ssh/authorized_keys": b"x" * (1 << 20) + b"x"})
    problem, data = seen(tmp_path)
    assert data is None
    assert problem is not None
    assert "larger than" in problem


def test_a_key_file_with_another_name_is_a_problem(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/secret": "secret", "/home/ada/.ssh/x": ""})
    os.link(tmp_path / "etc/secret", tmp_path / "home/ada/.ssh/authorized_keys")
    assert seen(tmp_path) == ("/home/ada/.ssh/authorized_keys has other names (hard links)", None)
