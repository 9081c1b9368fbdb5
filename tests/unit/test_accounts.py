"""The parsers of the account files, also for malformed files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.errors import LocalError
from azureinit.facts.accounts import (
    MOST_SKELETON_ENTRIES,
    nss_problem,
    parse_group,
    parse_passwd,
    parse_subids,
    read_accounts,
)
from azureinit.facts.policy import parse_login_defs, parse_policy
from azureinit.machine import Machine, local_error


def test_users_are_found_among_malformed_lines() -> None:
    data = b"\n# c:x:1:1::/:/\n+::::::\n-eve::::::\nbad\nann:x:1000:100:Ann:/home/ann:/bin/sh\nx:x:-1:0::/:/\nb:x:1:\n"
    (ann,) = parse_passwd(data)
    assert (ann.name, ann.uid, ann.gid, ann.home, ann.shell) == ("ann", 1000, 100, "/home/ann", "/bin/sh")


def test_a_line_with_a_nul_is_nobodys() -> None:
    assert parse_passwd(b"eve:x:1001:1001::/home/\0eve:/bin/sh\n") == ()
    assert parse_group(b"e\0ve:x:1001:\n") == ()
    policy = parse_policy(b"MAIL_DIR /var/\0mail\n", b"SKEL=/etc/sk\0el\nHOME=/\0\nSHELL=\0\nCREATE_MAIL_SPOOL=yes\n")
    assert (policy.skeleton, policy.home, policy.shell, policy.mail_dir) == ("/etc/skel", "/home", None, "/var/mail")


@pytest.mark.parametrize(("number", "known"), [("4294967294", True), ("4294967295", False), ("9999999999", False)])
def test_a_number_the_kernel_cannot_hold_is_nobodys(number: str, known: bool) -> None:
    assert bool(parse_passwd(f"eve:x:{number}:1::/:/bin/sh\n".encode())) is known
    assert bool(parse_passwd(f"eve:x:1:{number}::/:/bin/sh\n".encode())) is known
    assert bool(parse_group(f"eve:x:{number}:\n".encode())) is known
    assert parse_policy(f"UID_MAX {number}\n".encode(), b"").uid_max == (int(number) if known else 60000)


def test_groups_may_lack_their_members() -> None:
    groups = parse_group(b"adm:x:4:a,,b\nbare:x:5\n+:::\nodd:x:five:\n")
    assert [(group.name, group.gid, group.members) for group in groups] == [("adm", 4, ("a", "b")), ("bare", 5, ())]


@given(st.binary(max_size=400))
def test_no_bytes_break_a_parser(data: bytes) -> None:
    lines = data.count(b"\n") + 1
    assert all(len(parse(data)) <= lines for parse in (parse_passwd, parse_group, parse_subids))
    assert parse_policy(data, data).uid_max >= 0
    assert isinstance(nss_problem(data, data), str)


def test_login_defs_are_read_as_shadow_reads_them() -> None:
    assert parse_login_defs(b'#X 1\n A\t "b c"  \nB\nMODE 0700\nMODE 0750\n') == {"A": "b c", "MODE": "0750"}
    policy = parse_policy(b"UMASK 077\nUID_MIN 0x10\nPASS_MAX_DAYS junk\nUSERGROUPS_ENAB YES\n", b"INACTIVE=-1\n")
    assert policy.home_mode == 0o700
    assert policy.uid_min == 16
    assert policy.max_days is None
    assert policy.inactive_days is None
    assert policy.user_group


@pytest.mark.parametrize(
    ("nsswitch", "plain"),
    [
        (b"", True),
        (b"passwd: files systemd # sss\ngroup:files\n", True),
        (b"passwd: files [NOTFOUND=return] systemd\nhosts: files dns ldap\n", True),
        (b"passwd: files [NOTFOUND=return]\n", True),
        (b"group: files [SUCCESS=merge] sss\n", False),
        (b"passwd: sss files systemd\n", False),
        (b"shadow: ldap\n", False),
        (b"passwd: compat\n", True),
    ],
)
def test_other_name_services_are_noticed(nsswitch: bytes, plain: bool) -> None:
    assert (nss_problem(nsswitch, b"root:x:0:0::/:/\n") == "") is plain


def test_compat_is_plain_only_without_nis_lines() -> None:
    assert nss_problem(b"passwd: compat\n", b"root:x:0:0::/:/\n+::::::\n") == "nsswitch.conf includes NIS for passwd"


def tree(root: Path, **files: str) -> Machine:
    (root / "etc/skel").mkdir(parents=True)
    for name, text in files.items():
        (root / "etc" / name).write_text(text)
    return Machine(root=str(root))


PASSWD = "root:x:0:0::/root:/bin/sh\nann:x:1000:4::/home/ann:/bin/sh\nold:$6$x$y:1001:4::/:/bin/sh\n"


@pytest.mark.parametrize(
    ("field", "state"),
    [("$6$a$b", "set"), ("", "set"), ("!$6$a$b", "locked"), ("!", "locked"), ("!!", "locked"), ("*", "none")],
)
def test_the_state_of_a_password_is_told(field: str, state: str, tmp_path: Path) -> None:
    accounts = read_accounts(tree(tmp_path, passwd=PASSWD, shadow=f"ann:{field}:1::::::\n"))
    assert accounts.password_state("ann") == state
    assert accounts.password_state("root") == "unknown"
    assert accounts.password_state("old") == "set"
    assert accounts.password_state("nobody") == "unknown"


def test_hashes_do_not_show(tmp_path: Path) -> None:
    accounts = read_accounts(tree(tmp_path, passwd=PASSWD, shadow="ann:$6$a$secret:1::::::\n"))
    assert "$6$" not in repr(accounts)


def test_a_shadow_we_may_not_read_is_unknown_not_a_crash(tmp_path: Path) -> None:
    class Unprivileged(Machine):
        def read(self, path: str, *, limit: int = 1 << 20, beneath: str | None = None) -> bytes | None:
            if "shadow" in path:
                raise local_error(PermissionError(13, "Permission denied"), "read", path)
            return super().read(path, limit=limit, beneath=beneath)

    tree(tmp_path, passwd=PASSWD, shadow="ann:*:::::::\n")
    accounts = read_accounts(Unprivileged(root=str(tmp_path)))
    assert accounts.shadow is None
    assert accounts.unreadable == ("/etc/shadow", "/etc/gshadow")
    assert accounts.password_state("ann") == "unknown"


def test_a_shadow_that_is_broken_is_an_error(tmp_path: Path) -> None:
    machine = tree(tmp_path, passwd=PASSWD)
    (tmp_path / "etc/shadow").mkdir()
    with pytest.raises(LocalError, match="/etc/shadow"):
        read_accounts(machine)


def test_the_groups_of_a_user_include_the_primary_one(tmp_path: Path) -> None:
    accounts = read_accounts(tree(tmp_path, passwd=PASSWD, group="adm:x:4:\nsudo:x:27:ann\nno:x:28:anna\n"))
    assert accounts.groups_of("ann") == {"adm", "sudo"}
    assert accounts.groups_of("who") == frozenset()
    assert accounts.group("sudo") is not None
    assert accounts.home_of("ann") == "/home/ann"
    assert accounts.home_of("new") == "/home/new"


def test_an_empty_tree_has_nobody(tmp_path: Path) -> None:
    accounts = read_accounts(Machine(root=str(tmp_path)))
    assert (accounts.users, accounts.groups, accounts.shadow, accounts.subuid) == ((), (), None, None)
    assert accounts.nss_plain


def test_the_skeleton_is_read_parents_first(tmp_path: Path) -> None:
    machine = tree(tmp_path)
    (tmp_path / "etc/skel/.a").mkdir(mode=0o700)
    (tmp_path / "etc/skel/.a/b").write_bytes(b"\x00")
    (tmp_path / "etc/skel/.a/c").symlink_to("/etc/skel/.a/b")
    (tmp_path / "usr/etc/skel").mkdir(parents=True)
    (tmp_path / "usr/etc/skel/.vendor").touch()
    found = {entry.path: entry for entry in read_accounts(machine).skeleton}
    assert list(found) == [".vendor", ".a", ".a/b", ".a/c"]
    assert found[".a"].mode == 0o700
    assert found[".a/b"].data == b"\x00"
    assert found[".a/c"].target == "/etc/skel/.a/b"


def test_a_skeleton_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    machine = tree(tmp_path)
    for number in range(MOST_SKELETON_ENTRIES + 1):
        (tmp_path / "etc/skel" / str(number)).touch()
    accounts = read_accounts(machine)
    assert accounts.skeleton == ()
    assert "larger" in accounts.skeleton_problem


def test_a_skeleton_with_a_fifo_is_a_problem_not_a_hang(tmp_path: Path) -> None:
    import os

    machine = tree(tmp_path)
    os.mkfifo(tmp_path / "etc/skel/pipe")
    assert "neither" in read_accounts(machine).skeleton_problem
