"""Deprovisioning of machines that are not as usual, and failures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from azureinit.cli import main as azure_init
from azureinit.cli.deprovision import main
from azureinit.config.load import load
from azureinit.errors import LocalError, UsageError
from azureinit.machine import Machine
from support.deprovisioned import CHANGED, GONE, make_used_machine, put, run
from support.need import need, need_root
from support.trees import changed, listing


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_used_machine(tmp_path / "root")


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
