"""Deprovisioning: tree before, tree after, every changed file listed; and accounts that are never removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureinit.facts.machine_state import DATA, is_own, parse_sudoer
from azureinit.machine import Machine
from azureinit.machine.trees import remove_tree
from azureinit.memory.instance import KINDS
from azureinit.plan.deprovision import without_host, without_sudoer
from support.deprovisioned import CHANGED, GONE, add_user, make_used_machine, put, run
from support.trees import changed, listing

OVF = """\
<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:w="http://schemas.microsoft.com/windowsazure">
<w:ProvisioningSection><w:Version>1.0</w:Version><w:LinuxProvisioningConfigurationSet>
<w:UserName>joe</w:UserName></w:LinuxProvisioningConfigurationSet></w:ProvisioningSection></Environment>
"""
ACCOUNT_FILES = {f"etc/{name}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_used_machine(tmp_path / "root")


WITH_USER = {
    *(f"home/joe{name}" for name in ("", "/.bash_history", "/work", "/work/deep", "/work/deep/file")),
    "etc/sudoers.d/azure-init-user",
    "var/spool/cron/crontabs/joe",
}


def test_everything_of_the_machine_goes_and_the_accounts_stay(tree: Path) -> None:
    before = listing(tree)
    assert run(tree, "--force") == 0
    after = listing(tree)
    assert changed(before, after) == GONE | CHANGED
    assert not GONE & set(after)
    assert after["etc/machine-id"] == ("-r--r--r--", before["etc/machine-id"][1], b"")
    assert after["var/lib/hyperv/.kvp_pool_1"][2] == b""
    assert after["etc/hosts"][2] == b"127.0.0.1\tlocalhost\n127.0.1.1\tother\n::1\tlocalhost\n"


def test_with_the_user_nothing_tells_of_it_any_more(tree: Path) -> None:
    before = listing(tree)
    assert run(tree, "--user", "--force") == 0
    after = listing(tree)
    assert changed(before, after) - {"etc/.pwd.lock"} == GONE | CHANGED | WITH_USER | ACCOUNT_FILES
    assert not (GONE | WITH_USER) & set(after)
    assert [name for name, (_mode, _owner, data) in after.items() if b"joe" in data or b"$6$" in data] == []
    assert b"sudo:x:27:eve\n" in after["etc/group"][2]
    assert b"sudo:*::eve\n" in after["etc/gshadow"][2]


def test_no_dhcp_client_goes_on_sending_the_name(tree: Path) -> None:
    put(tree, "etc/dhcp/dhclient.conf", 'send host-name "web-1";\nrequest host-name;\n')
    put(tree, "etc/sysconfig/network-scripts/ifcfg-eth0", "DHCP_HOSTNAME=the-image-s-own\n")
    before = listing(tree)
    assert run(tree, "--force") == 0
    after = listing(tree)
    assert changed(before, after) == GONE | CHANGED | {"etc/dhcp/dhclient.conf"}
    assert after["etc/dhcp/dhclient.conf"][2] == b"send host-name = gethostname();\nrequest host-name;\n"


OWN_NETWORK = {
    "etc/systemd/network/zzx-azure-init-000d3a123457.network",
    "etc/NetworkManager/system-connections/azure-init-000d3a123457.nmconnection",
    "etc/netplan/60-azure-init.yaml",
    "etc/network/interfaces.d/60-azure-init",
    "etc/sysconfig/network-scripts/rule-eth1",
}


def test_no_network_configuration_of_this_machine_reaches_the_image(tree: Path) -> None:
    others = ("etc/systemd/network/20-mine.network", "etc/netplan/50-image.yaml", "etc/network/interfaces.d/eth0")
    for name in (*OWN_NETWORK, *others):
        put(tree, name, "# Written by azure-init\n")
    put(tree, "etc/sysconfig/network-scripts/ifcfg-eth0", "DEVICE=eth0\n")
    before = listing(tree)
    assert run(tree, "--force") == 0
    after = listing(tree)
    assert {name for name in before if "etc/" in name} - {*after} == {
        name for name in GONE if "etc/" in name
    } | OWN_NETWORK


def test_the_second_run_has_nothing_to_do(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "--user", "--lock-root", "--force") == 0
    before = listing(tree)
    capsys.readouterr()
    assert run(tree, "--user", "--lock-root") == 0
    assert "\n0 to do, " in capsys.readouterr().out
    assert listing(tree) == before


def test_a_dry_run_changes_nothing_and_tells_everything(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    assert run(tree, "--user", "--dry-run") == 0
    assert listing(tree) == before
    told = capsys.readouterr().out
    assert "+ user 'joe': was this machine's admin (uid 1000)" in told
    assert "remove /home/joe, with everything in it" in told
    assert "remove /var/lib/waagent/events/, with everything in it" in told
    assert "$6$" not in told


@pytest.mark.parametrize("answer", ["", "n\n", "no\n", "\n", "maybe\n"])
def test_without_a_yes_nothing_is_done(tree: Path, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    assert run(tree, "--user", answer=answer) == 1
    assert listing(tree) == before
    told = capsys.readouterr()
    assert told.out.count("[y/N]") == 1
    unanswered = ": standard input gave no answer; use --force to skip the question" if not answer else ""
    assert told.err == f"azure-init: nothing was removed{unanswered}\n"


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_one_yes_is_enough(tree: Path, answer: str) -> None:
    assert run(tree, answer=answer) == 0
    assert not (tree / "etc/hostname").exists()


# ---- who never goes


@pytest.mark.parametrize(("name", "uid"), [("root", 0), ("svc", 999), ("nobody", 65534)])
def test_an_account_of_the_system_never_goes_and_the_rest_does(
    tree: Path, name: str, uid: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if name != "root":
        add_user(tree, name, uid)
    put(tree, "etc/sudoers.d/azure-init-user", f"{name} ALL=(ALL) ALL\n")
    accounts = {file: (tree / file).read_text() for file in ACCOUNT_FILES}
    assert run(tree, "--user", "--force") == 1
    assert (
        f"azure-init: user '{name}': native: declined: it belongs to the system (uid {uid})" in capsys.readouterr().err
    )
    assert {file: (tree / file).read_text() for file in ACCOUNT_FILES} == accounts
    assert (tree / "etc/sudoers.d/azure-init-user").exists()
    assert not (tree / "etc/hostname").exists(), "the rest is done all the same"


@pytest.mark.parametrize("home", ["/", "/home", "/home/joe/../.."])
def test_a_home_that_is_more_than_one_stays(tree: Path, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    passwd = tree / "etc/passwd"
    passwd.write_text(passwd.read_text().replace(":/home/joe:", f":{home}:"))
    assert run(tree, "--user", "--force") == 0
    assert "joe" not in passwd.read_text()
    assert (tree / "home/joe/work").is_dir() and (tree / "etc/shadow").exists()
    assert "! home of joe: " in capsys.readouterr().out


def test_a_home_that_another_lives_in_stays(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_user(tree, "eve", 1001, home="/home/joe/work")
    assert run(tree, "--user", "--force") == 0
    assert "! home of joe: /home/joe stays: eve has its home there too" in capsys.readouterr().out
    assert (tree / "home/joe/work").is_dir()
    assert "eve:x:1001" in (tree / "etc/passwd").read_text()


def test_a_group_that_others_are_in_stays(tree: Path) -> None:
    group = tree / "etc/group"
    group.write_text(group.read_text().replace("joe:x:1000:\n", "joe:x:1000:eve\n"))
    assert run(tree, "--user", "--force") == 0
    assert "joe:x:1000:eve\n" in group.read_text()


def test_a_link_in_the_home_is_removed_and_not_followed(tree: Path) -> None:
    (tree / "home/joe/work/link").symlink_to(tree / "var/log")
    (tree / "home/joe/.zsh_history").symlink_to("/etc/passwd")
    assert run(tree, "--user", "--force") == 0
    assert (tree / "var/log/syslog").exists() and (tree / "etc/passwd").exists()


def test_whom_nobody_names_cannot_go(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "etc/sudoers.d/azure-init-user").unlink()
    assert run(tree, "--user", "--force") == 0
    assert "! user: no provisioned account is known here" in capsys.readouterr().out
    assert "joe:" in (tree / "etc/passwd").read_text()


@pytest.mark.parametrize(
    "saved", ["", "{", "[]", '{"username": 3}', '{"username": ""}', '{"username": "joe", "crc32": 1}', "[" * 60_000]
)
def test_a_damaged_saved_file_names_no_account(tree: Path, capsys: pytest.CaptureFixture[str], saved: str) -> None:
    (tree / "etc/sudoers.d/azure-init-user").unlink()
    put(tree, "var/lib/azure-init/1234.saved", saved)
    assert run(tree, "--user", "--dry-run") == 0
    assert "! user: no provisioned account is known here" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["argument", "saved", "media", "sudoers of WALinuxAgent"])
def test_the_account_is_known_from_whatever_is_left(tree: Path, source: str) -> None:
    (tree / "etc/sudoers.d/azure-init-user").unlink()
    if source == "saved":
        put(tree, "var/lib/azure-init/1234.saved", '{"username": "joe"}')
    elif source == "media":
        put(tree, "var/lib/waagent/ovf-env.xml", OVF)
    elif source.startswith("sudoers"):
        put(tree, "etc/sudoers.d/waagent", "# x\njoey ALL=(ALL) ALL\njoe ALL=(ALL) ALL\n")
    words = ("--user", "joe") if source == "argument" else ("--user",)
    assert run(tree, *words, "--force") == 0
    assert "joe:" not in (tree / "etc/passwd").read_text()
    if source.startswith("sudoers"):
        assert (tree / "etc/sudoers.d/waagent").read_text() == "# x\njoey ALL=(ALL) ALL\n"


# ---- the pure parts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("joe ALL=(ALL) ALL\n", "joe"),
        ('"Joe" ALL=(ALL) NOPASSWD: ALL\n', "Joe"),
        ("a ALL=(ALL) ALL\nb ALL=(ALL) ALL\n", "b"),
        ("# joe ALL\n@include x\n", None),
        ("%wheel ALL=(ALL) ALL\n", None),
        ("Defaults env_reset\n", None),
        ("ALL ALL=(ALL) ALL\n", None),
        ("", None),
        ("\0\xff", None),
    ],
)
def test_a_sudoers_line_names_its_user(text: str, name: str | None) -> None:
    assert parse_sudoer(text.encode("latin-1")) == name


def test_a_name_that_is_part_of_another_takes_nobody_with_it() -> None:
    data = b'joey ALL\njoe ALL\n"joe" ALL\nx ALL=(joe) ALL\n'
    assert without_sudoer(data, "joe") == b"joey ALL\nx ALL=(joe) ALL\n"
    assert without_host(b"127.0.1.1 web-10\n127.0.1.1 web-1 # us\n10.0.0.1 web-1\n", b"web-1") == (
        b"127.0.1.1 web-10\n10.0.0.1 web-1\n"
    )


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/var/lib/azure-init/", True),
        ("/var/lib", False),
        ("/", False),
        ("var/lib/x", False),
        ("/var/lib/../..", False),
    ],
)
def test_a_directory_is_one_program_s_own_only_if_it_lies_deep_enough(path: str, own: bool) -> None:
    assert is_own(path) is own


def test_every_kind_of_state_file_is_removed_from_a_shared_directory() -> None:
    assert {f"*.{kind}" for kind in KINDS} <= {*DATA}


def test_a_tree_is_removed_whole(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    put(tmp_path, "a/b/c", "x")
    (tmp_path / "a/link").symlink_to("/etc")
    (tmp_path / "a/dangling").symlink_to("nowhere")
    assert remove_tree(machine, "/a/") is True
    assert remove_tree(machine, "/a") is False
    assert remove_tree(machine, "/no/such") is False
    assert list(tmp_path.iterdir()) == []
