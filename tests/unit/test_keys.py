"""Public keys: which are valid, and the file that each goes to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from azureinit.config.model import Config, Ssh
from azureinit.errors import InvalidKey, KeysFailed
from azureinit.plan.actions import Caution, Declined, MakeDir, Satisfied, Step, Write
from azureinit.plan.keys import with_keys
from azureinit.pubkey import LONGEST, MOST_KEPT, parse_key
from azureinit.sources.imds import PublicKey
from support.ssh_trees import KEYS, POINTS, actions_of, blob, ed25519, ed25519_point, own, plan_ada, tree

MODULUS = b"\x00" + b"\xc5" * 256
RSA = f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), MODULUS)}"
EVERY_KIND = {
    "ssh-ed25519": ed25519(),
    "ssh-rsa": RSA,
    "rsa-sha2-512": RSA.replace("ssh-rsa ", "rsa-sha2-512 "),
    "ssh-dss": f"ssh-dss {blob('ssh-dss', b'p', b'q', b'g', b'y')}",
    "ecdsa-sha2-nistp256": f"ecdsa-sha2-nistp256 {blob('ecdsa-sha2-nistp256', 'nistp256', POINTS[256])}",
    "ecdsa-sha2-nistp384": f"ecdsa-sha2-nistp384 {blob('ecdsa-sha2-nistp384', 'nistp384', POINTS[384])}",
    "ecdsa-sha2-nistp521": f"ecdsa-sha2-nistp521 {blob('ecdsa-sha2-nistp521', 'nistp521', POINTS[521])}",
    "sk-ssh-ed25519": f"sk-ssh-ed25519@openssh.com {blob('sk-ssh-ed25519@openssh.com', ed25519_point(), 'ssh:')}",
    "sk-ecdsa": "sk-ecdsa-sha2-nistp256@openssh.com "
    + blob("sk-ecdsa-sha2-nistp256@openssh.com", "nistp256", POINTS[256], "ssh:"),
    "certificate": f"ssh-ed25519-cert-v01@openssh.com {blob('ssh-ed25519-cert-v01@openssh.com', b'n', b'k')}",
    "rsa certificate": "rsa-sha2-256-cert-v01@openssh.com " + blob("ssh-rsa-cert-v01@openssh.com", b"n"),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_that_openssh_knows_is_a_key(kind: str) -> None:
    key = EVERY_KIND[kind]
    assert parse_key(key) == key + "\n"
    assert parse_key(key + " ada@example with a comment") == key + " ada@example with a comment\n"


@pytest.mark.parametrize(
    "options",
    ["no-pty", 'from="10.0.0.*",no-pty', 'command="echo \\"a b\\"",restrict', 'environment="A=ssh-rsa AAAA"'],
)
def test_options_before_a_key_are_kept(options: str) -> None:
    assert parse_key(f"{options} {ed25519()}") == f"{options} {ed25519()}\n"


def test_what_the_platform_wraps_and_pads_is_put_right() -> None:
    key = ed25519(comment="ada")
    wrapped = "\ufeff \r\n" + key[:40] + "\r\n" + key[40:] + "\r\n\n "
    assert parse_key(wrapped) == key + "\n"


def test_a_key_that_is_parsed_again_gives_the_same_answer() -> None:
    damaged = RSA.replace("AAAA", "AAAB", 1)
    for _ in range(2):
        assert parse_key(RSA) == RSA + "\n"
        with pytest.raises(InvalidKey, match="incomplete|another key type"):
            parse_key(damaged)
    for number in range(MOST_KEPT + 1):  # more than are kept
        assert parse_key(f"{RSA} {number}") == f"{RSA} {number}\n"
    assert parse_key(RSA) == RSA + "\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        (" \r\n", "empty"),
        ("not a key", "type that OpenSSH knows"),
        ("ssh-ed25519", "no data after its type"),
        ("ssh-ed25519 !!!!", "not base64"),
        ("ssh-ed25519 \u00e9\u00e9\u00e9\u00e9", "not base64"),
        (ed25519()[:-1], "not base64"),
        (ed25519()[:-4], "incomplete or too long"),
        (ed25519().replace("ssh-ed25519 ", "ssh-rsa "), "another key type"),
        (f"ssh-ed25519 {blob('ssh-ed25519', b'k' * 31)}", "31 bytes and not 32"),
        (f"ssh-ed25519 {blob('ssh-ed25519', b'k' * 32, b'more')}", "too long"),
        (f"ssh-rsa {blob('ssh-rsa', bytes((3,)), b'x' * 64)}", "fewer than 1024 bits"),
        (f"ssh-ed25519 {blob('ssh-ed25519', b'a' * 32)}", "not a point"),
        (f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), bytes((0,)) + b'x' * 256)}", "cannot be those of an RSA key"),
        (f"ssh-rsa {blob('ssh-rsa', bytes((1,)), MODULUS)}", "cannot be those of an RSA key"),
        (f"ssh-rsa {blob('ssh-rsa', bytes((2,)), MODULUS)}", "cannot be those of an RSA key"),
        (f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), MODULUS[1:])}", "negative"),
        (f"ssh-rsa {blob('ssh-rsa', bytes((1, 0, 1)), bytes((0,)) + b'z' * 2048 + b'q')}", "more than 16384 bits"),
        (f"{ed25519()}\nssh-rsa AAAA", "line break at character"),
        (f"{ed25519()}\rssh-rsa AAAA", "line break at character"),
        (f"{ed25519('a')}\r\n{ed25519('b')}", "several keys"),
        (f"{ed25519()} a\x00b", "control character at character"),
        (f"{ed25519()} a\ud800b", "control character at character"),
        (f'from="10.0.0.1 {ed25519()}', "unclosed quote"),
        (f"# {ed25519()}", "comment"),
        ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n", "PEM or SSH2"),
        ("-----BEGIN RSA PUBLIC KEY-----\nAAAA\n", "PEM or SSH2"),
        (ed25519(comment="x" * LONGEST), "characters long"),
        ("x" * (1 << 20), "characters long"),
    ],
)
def test_what_sshd_would_not_take_is_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(InvalidKey, match=told) as refused:
        parse_key(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("bits", POINTS)
def test_an_ecdsa_key_names_its_own_curve_and_has_a_point_on_it(bits: int) -> None:
    """Every one-bit damage to the curve's name or to the point is seen."""
    kind, point = f"ecdsa-sha2-nistp{bits}", POINTS[bits]
    for other in {256, 384, 521} - {bits}:
        with pytest.raises(InvalidKey, match="another curve"):
            parse_key(f"{kind} {blob(kind, f'nistp{other}', point)}")
    for at in range(len(point)):
        for bit in range(8):
            damaged = point[:at] + bytes((point[at] ^ 1 << bit,)) + point[at + 1 :]
            with pytest.raises(InvalidKey, match="damaged"):
                parse_key(f"{kind} {blob(kind, f'nistp{bits}', damaged)}")
    half = (len(point) - 1) // 2
    for odd in (b"\x02" + point[1 : 1 + half], b"\x00", b"", point + b"\0", b"\x04" + bytes(2 * half)):
        with pytest.raises(InvalidKey, match="damaged"):
            parse_key(f"{kind} {blob(kind, f'nistp{bits}', odd)}")


@given(st.one_of(st.text(), st.text(alphabet=' \t\r\n"\\A=sh-rd25#').map(lambda text: text + ed25519())))
def test_a_key_is_one_line_or_an_error_that_names_why(text: str) -> None:
    try:
        line = parse_key(text)
    except InvalidKey:
        return
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert parse_key(line) == line


@given(st.binary(max_size=200), st.sampled_from("abc"))
def test_what_was_in_a_file_stays_byte_for_byte(data: bytes, letter: str) -> None:
    lines = (parse_key(ed25519(letter)),)
    once = with_keys(data, lines)
    assert once.startswith(data)
    assert with_keys(once, lines) == once
    assert once.endswith(lines[0].encode())


def test_the_same_key_with_another_comment_or_options_is_the_same_key() -> None:
    there = f'no-pty,command="a b" {ed25519("a")} old\n'.encode()
    assert with_keys(there, (parse_key(ed25519("a", "new")), parse_key(ed25519("b")))) == (
        there + parse_key(ed25519("b")).encode()
    )
    assert with_keys(f"#{ed25519('a')}".encode(), (parse_key(ed25519("a")),)).count(b"\n") == 2


def test_keys_go_into_a_new_file_with_the_modes_sshd_wants(tmp_path: Path) -> None:
    plan = plan_ada(tree(tmp_path, {}), ed25519("a"), ed25519("b"), ed25519("a", "again"))
    data = f"{ed25519('a')}\n{ed25519('b')}\n".encode()
    assert actions_of(plan) == (
        MakeDir(path="/home/ada/.ssh", mode=0o700, owner="ada", beneath="/home/ada"),
        Write(path=KEYS, data=data, mode=0o600, owner="ada", beneath="/home/ada"),
    )
    assert plan[0].name == "ssh keys ada"
    assert plan[0].failure is KeysFailed


def test_no_keys_are_no_plan(tmp_path: Path) -> None:
    assert plan_ada(tree(tmp_path, {})) == ()


def test_keys_in_place_leave_nothing_to_do(tmp_path: Path) -> None:
    machine = tree(tmp_path, {KEYS: f"# mine\nno-pty {ed25519()}\n"})
    for name, mode in (("home/ada/.ssh", 0o700), ("home/ada/.ssh/authorized_keys", 0o600)):
        (tmp_path / name).chmod(mode)
        own(tmp_path / name)
    assert plan_ada(machine, ed25519()) == (Satisfied(name="ssh keys ada", why=f"in {KEYS}"),)
    (tmp_path / "home/ada/.ssh").chmod(0o770)
    assert actions_of(plan_ada(machine, ed25519())) == (
        MakeDir(path="/home/ada/.ssh", mode=0o700, owner="ada", beneath="/home/ada"),
    )
    (tmp_path / "home/ada/.ssh").chmod(0o700)
    (tmp_path / "home/ada/.ssh/authorized_keys").chmod(0o644)
    (write,) = actions_of(plan_ada(machine, ed25519()))
    assert (write.data, write.mode) == (write.was, 0o600)


def test_a_home_yet_to_be_made_keeps_what_the_skeleton_gives_it(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/etc/passwd": "root:x:0:0::/root:/bin/sh\n"}, home=False)
    skeleton = tmp_path / "etc/skel/.ssh/authorized_keys"
    skeleton.parent.mkdir(parents=True)
    skeleton.write_text(ed25519("s"))
    make, write = actions_of(plan_ada(machine, ed25519("a")))
    assert make.path == "/home/ada/.ssh"
    assert write.data == f"{ed25519('s')}\n{ed25519('a')}\n".encode()


@pytest.mark.parametrize(
    ("patterns", "path"),
    [
        ((".ssh/authorized_keys", ".ssh/authorized_keys2"), KEYS),
        (("%h/.keys/%u",), "/home/ada/.keys/ada"),
        (("/etc/ssh/keys/%u-%%-%U",), "/etc/ssh/keys/ada-%-1000"),
        (("%k", ".ssh/b"), "/home/ada/.ssh/b"),
        (("./a//b",), "/home/ada/a/b"),
    ],
)
def test_keys_go_where_sshd_looks_first(tmp_path: Path, patterns: tuple[str, ...], path: str) -> None:
    actions = actions_of(plan_ada(tree(tmp_path, {}), ed25519(), authorized_keys_files=patterns))
    assert actions[-1].path == path


def test_a_file_of_the_systems_is_roots_and_readable(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/etc/ssh/sshd_config": ""})
    actions = actions_of(plan_ada(machine, ed25519(), authorized_keys_files=("/etc/ssh/keys/%u",)))
    assert actions == (
        MakeDir(path="/etc/ssh/keys", mode=0o755),
        Write(path="/etc/ssh/keys/ada", data=f"{ed25519()}\n".encode(), mode=0o644),
    )


def test_where_nobody_says_the_configured_path_is_used(tmp_path: Path) -> None:
    config = Config(ssh=Ssh(authorized_keys_path=".keys/%u"))
    assert actions_of(plan_ada(tree(tmp_path, {}), ed25519(), config=config))[-1].path == "/home/ada/.keys/ada"


def test_an_sshd_that_reads_no_files_is_told_about(tmp_path: Path) -> None:
    caution, step = plan_ada(tree(tmp_path, {}), ed25519(), authorized_keys_files=())
    assert isinstance(caution, Caution)
    assert "AuthorizedKeysFile none" in caution.why
    assert actions_of((step,))[-1].path == KEYS


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (KEYS, [KEYS]),
        ("/home/ada/.ssh/authorized_keys2", ["/home/ada/.ssh/authorized_keys2"]),
        ("/home/ada/elsewhere/keys", ["/home/ada/elsewhere/keys", KEYS]),
        (None, [KEYS]),
        ("", [KEYS]),
    ],
)
def test_a_keys_own_path_in_the_home_is_honoured(tmp_path: Path, path: str | None, written: list[str]) -> None:
    patterns = (".ssh/authorized_keys", ".ssh/authorized_keys2")
    key = PublicKey(data=ed25519(), path=path)
    plan = plan_ada(tree(tmp_path, {}), key, authorized_keys_files=patterns)
    assert [action.path for action in actions_of(plan) if isinstance(action, Write)] == written
    assert len(plan) == 1


def test_the_platforms_idea_of_a_home_is_the_home_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "var/home/ada").mkdir(parents=True)
    plan = plan_ada(tree(tmp_path, {}), PublicKey(data=ed25519(), path=KEYS), home="/var/home/ada")
    assert actions_of(plan)[-1].path == "/var/home/ada/.ssh/authorized_keys"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/home/ada/../bob/.ssh/authorized_keys",
        "/home/adam/x",
        "/home/ada/",
        "/home/ada/a\nb",
        "/" * 5000,
    ],
)
def test_a_path_outside_the_home_is_not_used_and_told(tmp_path: Path, path: str) -> None:
    caution, step = plan_ada(tree(tmp_path, {}), PublicKey(data=ed25519(), path=path))
    assert isinstance(caution, Caution)
    assert len(caution.why) < 250
    assert actions_of((step,))[-1].path == KEYS


def test_a_link_in_the_home_stops_the_step_by_name(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/etc/shadow": "secret"})
    (tmp_path / "home/ada/.ssh").symlink_to("/etc")
    (step,) = plan_ada(machine, ed25519())
    assert isinstance(step, Step)
    assert step.ways == (
        Declined(backend="native", why="/home/ada/.ssh is a symbolic link: the keys are not written there"),
    )


@pytest.mark.parametrize("home", ["/home//ada", "/home/./ada", "/home/ada/"])
def test_however_a_home_is_written_no_link_below_it_is_followed(tmp_path: Path, home: str) -> None:
    for path in (None, KEYS):
        actions = actions_of(plan_ada(tree(tmp_path, {}), PublicKey(data=ed25519(), path=path), home=home))
        assert {(action.beneath, action.owner) for action in actions} == {("/home/ada", "ada")}
        assert actions[-1].path == KEYS


def test_a_home_that_goes_up_is_refused_by_name(tmp_path: Path) -> None:
    (step,) = plan_ada(tree(tmp_path, {}), ed25519(), home="/home/x/../ada")
    assert isinstance(step, Step)
    (way,) = step.ways
    assert isinstance(way, Declined)
    assert "has .. in it" in way.why


def test_below_a_directory_others_can_write_no_link_is_followed(tmp_path: Path) -> None:
    machine = tree(tmp_path, {})
    (tmp_path / "home").chmod(0o1777)
    assert {action.beneath for action in actions_of(plan_ada(machine, ed25519()))} == {"/home"}


def test_a_file_of_the_systems_in_somebodys_directory_is_refused_by_name(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"/root/.ssh/authorized_keys": "root's", "/data/ada/x": ""})
    (tmp_path / "home/ada").chmod(0o777)
    pattern = ("/home/%u/keys",)
    (step,) = plan_ada(machine, ed25519(), home="/data/ada", authorized_keys_files=pattern)
    assert isinstance(step, Step)
    why = "/home/ada can be changed by others than root: the keys are not written there"
    assert step.ways == (Declined(backend="native", why=why),)


def test_one_bad_key_is_an_error_of_the_whole(tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match="line break"):
        plan_ada(tree(tmp_path, {}), ed25519(), f"{ed25519()}\n{ed25519()}")
