"""Deprovisioning: tree before, tree after, every changed file listed; and accounts that are never removed."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from azureinit.cli import main as azure_init
from azureinit.cli.deprovision import main
from azureinit.config.load import load
from azureinit.errors import LocalError, UsageError
from azureinit.facts.machine_state import is_own, parse_saved_name, parse_sudoer
from azureinit.machine import Machine
from azureinit.machine.trees import remove_tree
from azureinit.plan.deprovision import without_host, without_sudoer
from support.need import need, need_root
from support.trees import changed, listing, make_tree

OVF = """\
<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:w="http://schemas.microsoft.com/windowsazure">
<w:ProvisioningSection><w:Version>1.0</w:Version><w:LinuxProvisioningConfigurationSet>
<w:UserName>joe</w:UserName></w:LinuxProvisioningConfigurationSet></w:ProvisioningSection></Environment>
"""
ACCOUNT_FILES = {f"etc/{name}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What two years of service leave behind."""
    root = make_tree(tmp_path / "root")
    put(root, "etc/hostname", "web-1\n")
    put(root, "etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tweb-1.corp web-1\n127.0.1.1\tother\n::1\tlocalhost\n")
    put(root, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    put(root, "etc/resolv.conf", "nameserver 10.0.0.1\n")
    put(root, "etc/sudoers.d/azure-init-user", "joe ALL=(ALL) NOPASSWD: ALL\n")
    for kind in ("ed25519", "rsa"):
        put(root, f"etc/ssh/ssh_host_{kind}_key", "secret")
        put(root, f"etc/ssh/ssh_host_{kind}_key.pub", "public")
    put(root, "etc/ssh/sshd_config", "UsePAM yes\n")
    put(root, "var/lib/dbus/machine-id", "0123456789abcdef0123456789abcdef\n")
    put(root, "var/lib/dhcp/dhclient.eth0.leases", "lease")
    put(root, "var/lib/NetworkManager/internal-1-eth0.lease", "lease")
    put(root, "var/lib/NetworkManager/NetworkManager.state", "state")
    put(root, "var/lib/systemd/random-seed", "seed")
    put(root, "var/lib/cloud/instances/i-1/user-data.txt", "data")
    put(root, "var/lib/cloud/seed/nocloud/user-data", "the image's own")
    (root / "var/lib/cloud/instance").symlink_to("/var/lib/cloud/instances/i-1")
    put(root, "var/lib/hyperv/.kvp_pool_1", "words")
    put(root, "var/lib/hyperv/.kvp_pool_2", "")
    put(root, "var/lib/waagent/provisioned", "id")
    put(root, "var/lib/waagent/events/1.tld", "{}")
    put(root, "var/lib/azure-init/1234.provisioned", "")
    put(root, "var/lib/azure-init/1234.saved", "{}")
    put(root, "var/lib/azure-init/custom-data.log", "words of somebody's program")
    put(root, "var/log/azure-init.log", "log")
    put(root, "var/log/waagent.log.1", "log")
    put(root, "var/log/azure/extension/out.log", "log")
    put(root, "var/log/syslog", "the image builder's own business")
    put(root, "root/.bash_history", "rm -rf /\n")
    add_user(root, "joe", 1000)
    put(root, "home/joe/.bash_history", "ls\n")
    put(root, "home/joe/work/deep/file", "work")
    own(root / "home/joe", 1000)
    put(root, "var/spool/cron/crontabs/joe", "* * * * * true\n")
    return root


GONE = {
    "etc/hostname",
    "etc/resolv.conf",
    *(f"etc/ssh/ssh_host_{kind}_key{end}" for kind in ("ed25519", "rsa") for end in ("", ".pub")),
    "var/lib/dbus/machine-id",
    "var/lib/dhcp/dhclient.eth0.leases",
    "var/lib/NetworkManager/internal-1-eth0.lease",
    "var/lib/systemd/random-seed",
    *(f"var/lib/cloud/{name}" for name in ("instance", "instances", "instances/i-1", "instances/i-1/user-data.txt")),
    *(f"var/lib/waagent/{name}" for name in ("provisioned", "events", "events/1.tld")),
    *(f"var/lib/azure-init/{name}" for name in ("1234.provisioned", "1234.saved", "custom-data.log")),
    "var/log/azure-init.log",
    "var/log/waagent.log.1",
    *(f"var/log/azure/{name}" for name in ("extension", "extension/out.log")),
    "root/.bash_history",
    "home/joe/.bash_history",
}
CHANGED = {"etc/hosts", "etc/machine-id", "var/lib/hyperv/.kvp_pool_1"}
WITH_USER = {
    *(f"home/joe{name}" for name in ("", "/.bash_history", "/work", "/work/deep", "/work/deep/file")),
    "etc/sudoers.d/azure-init-user",
    "var/spool/cron/crontabs/joe",
}


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def add_user(root: Path, name: str, uid: int, home: str = "") -> None:
    lines = {
        "passwd": f"{name}:x:{uid}:{uid}::{home or f'/home/{name}'}:/bin/sh\n",
        "shadow": f"{name}:$6$salt$hash:19700::::::\n",
        "group": f"{name}:x:{uid}:\n",
        "gshadow": f"{name}:!::\n",
        "subuid": f"{name}:100000:65536\n",
        "subgid": f"{name}:100000:65536\n",
    }
    for file, line in lines.items():
        with (root / "etc" / file).open("a") as out:
            out.write(line)
    for file in ("group", "gshadow"):
        path = root / "etc" / file
        path.write_text(path.read_text().replace("sudo:x:27:\n", f"sudo:x:27:eve,{name}\n"))
        path.write_text(path.read_text().replace("sudo:*::\n", f"sudo:*:{name}:eve,{name}\n"))


def own(directory: Path, uid: int) -> None:
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


def run(tree: Path, *argv: str, answer: str = "", **options: str) -> int:
    machine = Machine(root=str(tree), environ={})
    return main(
        list(argv),
        machine=machine,
        configured=lambda: load(machine, config=None, groups=None).config,
        answers=io.StringIO(answer),
        **options,
    )


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


# ---- what is not as usual


def test_a_resolv_conf_that_is_a_link_stays_and_so_does_what_it_leads_to(tree: Path) -> None:
    (tree / "etc/resolv.conf").unlink()
    (tree / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    put(tree, "run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n")
    assert run(tree, "--force") == 0
    assert os.readlink(tree / "etc/resolv.conf") == "../run/systemd/resolve/stub-resolv.conf"
    assert (tree / "run/systemd/resolve/stub-resolv.conf").read_text() == "nameserver 127.0.0.53\n"


@pytest.mark.parametrize("content", ["", "uninitialized\n", None])
def test_a_machine_id_that_is_none_stays_as_it_is(tree: Path, content: str | None) -> None:
    (tree / "etc/machine-id").unlink()
    if content is not None:
        put(tree, "etc/machine-id", content)
    (tree / "var/lib/dbus/machine-id").unlink()
    (tree / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    before = listing(tree)
    assert run(tree, "--force") == 0
    assert not {"etc/machine-id", "var/lib/dbus/machine-id"} & changed(before, listing(tree))


@pytest.mark.parametrize("by", ["flag", "waagent.conf", "configuration"])
def test_root_is_locked_when_asked_and_the_old_hash_is_nowhere(tree: Path, by: str) -> None:
    shadow = tree / "etc/shadow"
    shadow.write_text(shadow.read_text().replace("root:*:", "root:$6$root$hash:"))
    if by == "waagent.conf":
        put(tree, "etc/waagent.conf", "Provisioning.DeleteRootPassword=y\n")
    if by == "configuration":
        put(tree, "etc/azure-init.toml", "[user]\nlock_root = true\n")
    assert run(tree, "--force", *(("--lock-root",) if by == "flag" else ())) == 0
    assert shadow.read_text().startswith("root:*:")
    assert [name for name, entry in listing(tree).items() if b"$6$root" in entry[2]] == []


def test_a_hash_that_a_run_left_behind_when_it_died_goes_with_the_next(tree: Path) -> None:
    put(tree, "etc/shadow-", "root:$6$root$hash:19700::::::\n")  # root's own is locked already
    assert run(tree, "--force", "--lock-root") == 0
    assert not (tree / "etc/shadow-").exists()


def test_walinuxagents_own_directories_are_where_its_configuration_says(tree: Path) -> None:
    put(tree, "etc/waagent.conf", "Lib.Dir=/srv/agents/waagent\nExtension.LogDir=/var/lib\n")
    put(tree, "srv/agents/waagent/provisioned", "id")
    assert run(tree, "--force") == 0
    assert list((tree / "srv/agents/waagent").iterdir()) == []
    assert (tree / "var/lib/NetworkManager/NetworkManager.state").exists(), "/var/lib is nobody's own"
    assert list((tree / "var/lib/waagent").iterdir()) == [], "that is where azure-init was told that it keeps things"


def test_in_a_directory_that_is_not_walinuxagents_own_only_its_files_go(tree: Path) -> None:
    put(tree, "etc/azure-init.toml", '[waagent]\nlib_dir = "/srv/"\n[azure_init_data_dir]\npath = "/opt"\n')
    for name in ("provisioned", "ovf-env.xml", "CustomData", "disable_agent", "somebody-elses"):
        put(tree, f"srv/{name}", "x")
    for name in ("custom-data.log", "custom-data.log.1", "somebody-elses"):
        put(tree, f"opt/{name}", "x")
    assert run(tree, "--force") == 0
    assert [path.name for place in ("srv", "opt") for path in (tree / place).iterdir()] == ["somebody-elses"] * 2


def test_what_we_told_sshd_goes_and_the_image_s_own_words_stay(tree: Path) -> None:
    ours = "# Written by azure-init. sshd takes the first value it reads.\nPasswordAuthentication no\n"
    put(tree, "etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\n")
    put(tree, "etc/ssh/sshd_config.d/00-azure-init.conf", ours)
    put(tree, "etc/ssh/sshd_config.d/50-image.conf", "X11Forwarding no\n")
    assert run(tree, "--force") == 0
    assert os.listdir(tree / "etc/ssh/sshd_config.d") == ["50-image.conf"]


def test_lines_of_ours_in_sshd_config_go(tree: Path) -> None:
    begin, end = "# azure-init: begin. sshd takes the first value it reads.\n", "# azure-init: end\n"
    put(tree, "etc/ssh/sshd_config", f"{begin}PasswordAuthentication no\n{end}UsePAM yes\n")
    assert run(tree, "--force") == 0
    assert (tree / "etc/ssh/sshd_config").read_text() == "UsePAM yes\n"


# ---- what fails


def test_a_failure_in_the_middle_is_told_and_the_rest_goes_on(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_root()
    stuck = tree / "var/lib/dhcp/dhclient.eth0.leases"
    subprocess.run([need("chattr"), "+i", str(stuck)], check=True)
    try:
        put(tree, "var/lib/dhcp/other.leases", "lease")
        before = listing(tree)
        assert run(tree, "--force") == 1
        gone = changed(before, listing(tree))
        assert gone == (GONE | CHANGED | {"var/lib/dhcp/other.leases"}) - {"var/lib/dhcp/dhclient.eth0.leases"}
        told = capsys.readouterr().err
        assert f"azure-init: DHCP leases: cannot remove {tree}/var/lib/dhcp/dhclient.eth0.leases: " in told
        assert "run it again" in told
    finally:
        subprocess.run([need("chattr"), "-i", str(stuck)], check=True)
    assert run(tree, "--force") == 0
    assert not stuck.exists()


def test_what_is_mounted_inside_stays_and_is_told(tree: Path) -> None:
    need_root()
    (tree / "var/lib/dhcpcd/proc").mkdir(parents=True)
    (tree / "var/lib/waagent/ext/mount").mkdir(parents=True)
    script = f"""
        mount -t tmpfs none {tree}/var/lib/dhcpcd/proc && touch {tree}/var/lib/dhcpcd/proc/file
        mount -t tmpfs none {tree}/var/lib/waagent/ext/mount && touch {tree}/var/lib/waagent/ext/mount/file
        python3 -m azureinit --root {tree} deprovision --force; echo status $?
        ls {tree}/var/lib/dhcpcd/proc {tree}/var/lib/waagent/ext/mount {tree}/var/lib/waagent
    """
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [need("unshare"), "--mount", "sh", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert "! DHCP leases: /var/lib/dhcpcd/proc is another file system: not removed" in ran.stdout
    assert f"cannot remove {tree}/var/lib/waagent/ext/mount: something is mounted there" in ran.stderr
    assert "status 1" in ran.stdout
    assert ran.stdout.count("file\n") == 2 and "events" not in ran.stdout.partition("status")[2]


def test_another_of_us_at_work_is_waited_for_and_then_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import azureinit.cli.deprovision as deprovision

    monkeypatch.setattr(deprovision, "LOCK_TIMEOUT", 0.0)
    Machine(root=str(tree), environ={}).hold("/var/lib/azure-init/lock", timeout=0)
    before = listing(tree)
    with pytest.raises(LocalError, match=f"another azure-init has held {tree}/var/lib/azure-init/lock"):
        run(tree, "--force")
    assert listing(tree) == before


def test_only_root_deprovisions_the_running_machine() -> None:
    machine = Machine(environ={})
    machine.privileged = False
    with pytest.raises(LocalError, match="deprovision needs root"):
        main(["--dry-run"], machine=machine, configured=lambda: load(machine, config=None, groups=None).config)


def test_a_wrong_word_is_a_usage_error(tree: Path) -> None:
    with pytest.raises(UsageError, match="deprovision: unexpected argument '--users'"):
        run(tree, "--users")


def test_the_command_line_knows_the_verb(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(tree)
    assert azure_init(["--root", str(tree), "deprovision", "--dry-run"]) == 0
    assert "+ hostname: " in capsys.readouterr().out
    assert listing(tree) == before


def test_an_account_that_cannot_go_does_not_count_as_to_do(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert azure_init(["--root", str(tree), "deprovision", "--user", "root", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "! user 'root': is to be removed\n    native declines: " in told
    assert told.endswith(", 1 not possible\n")


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


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"username": 3}', b'{"username": ""}', b"\xff", b"[" * 60_000])
def test_a_saved_file_that_names_nobody(data: bytes) -> None:
    assert parse_saved_name(data) is None


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


def test_a_tree_is_removed_whole(tmp_path: Path) -> None:
    machine = Machine(root=str(tmp_path), environ={})
    put(tmp_path, "a/b/c", "x")
    (tmp_path / "a/link").symlink_to("/etc")
    (tmp_path / "a/dangling").symlink_to("nowhere")
    assert remove_tree(machine, "/a/") is True
    assert remove_tree(machine, "/a") is False
    assert remove_tree(machine, "/no/such") is False
    assert list(tmp_path.iterdir()) == []
