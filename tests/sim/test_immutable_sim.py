"""Systems whose /usr is the vendor's and read-only: everything is written to /etc, /var and the home, or reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakeazure import Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import Bench, Benches
from support.immutable_trees import OTHER_KEY, azure_linux, coreos, flatcar, ignition_ran
from support.need import need_root
from support.trees import changed, listing

ACCOUNTS = {f"etc/{name}{kept}" for name in ("passwd", "group", "shadow", "gshadow") for kept in ("", "-")}
HOST_KEYS = {f"etc/ssh/ssh_host_{kind}_key{half}" for kind in ("ed25519", "ecdsa", "rsa") for half in ("", ".pub")}
HOME = {f"home/ada{name}" for name in ("", "/.bashrc", "/.ssh")}
PIECES = {f"home/ada/.ssh/authorized_keys{name}" for name in (".d", ".d/azure-init")}
OURS = ("var/lib/azure-init", "var/log/azure-init.log", "var/lib/waagent")


def read_only(*paths: Path) -> str:
    return " && ".join(f"mount --bind {path} {path} && mount -o remount,ro,bind {path}" for path in paths)


def shaped(bench: Benches, shape: Callable[[Path], None], vm: Vm) -> Bench:
    need_root()  # mounts
    one = bench(vm=vm)
    one.install_sshd()
    shape(one.tree)
    return one


def provisioned(one: Bench, *words: str) -> set[str]:
    """What changed, our own files left out; and that nothing is left to do after it."""
    before = listing(one.tree)
    inside = read_only(one.tree / "usr")
    ran = one.agent(*words, inside=inside)
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    after = listing(one.tree)
    left = one.agent("plan", "--check", *words, inside=inside)
    assert left.status == 0, left.out
    found = {name for name in changed(before, after) if not name.startswith(OURS)}
    assert not any(name.startswith("usr/") for name in found)
    return found - {"etc/.pwd.lock"}


def test_flatcar_gets_a_user_drop_ins_and_a_piece_of_keys(bench: Benches) -> None:
    one = shaped(bench, flatcar, Vm(name="web-1", username="ada"))
    found = provisioned(one, "--groups", "sudo,adm")
    assert found == {
        *ACCOUNTS,
        *HOST_KEYS,
        *HOME,
        *PIECES,
        "home/ada/.ssh/authorized_keys",
        "etc/hostname",
        "etc/ssh/sshd_config.d/00-azure-init.conf",
        "etc/sudoers.d/azure-init-user",
    }
    for name in ("", ".d/azure-init"):
        assert one.read(f"home/ada/.ssh/authorized_keys{name}") == PUBLIC_KEY + "\n"
    assert "sudo:x:150:ada\n" in one.read("etc/group")
    assert "group 'adm' is in /usr and not in /etc/group" in one.agent("plan", "--groups", "sudo,adm").out
    assert os.readlink(one.tree / "home/ada/.bashrc") == "../../usr/share/skel/.bashrc"


def test_keys_that_were_there_before_the_pieces_become_one(bench: Benches) -> None:
    one = shaped(bench, flatcar, Vm(username="core"))
    ssh = one.tree / "home/core/.ssh"
    ssh.mkdir()
    (ssh / "authorized_keys").write_text(f"# mine\n{OTHER_KEY}\n")
    for path in (ssh.parent, ssh, ssh / "authorized_keys"):
        os.chown(path, 500, 500)
    passwd = one.read("etc/passwd")
    found = provisioned(one)
    assert {name for name in found if name.startswith("home/")} == {
        f"home/core/.ssh{name}"
        for name in (
            "",
            "/authorized_keys",
            "/authorized_keys.d",
            "/authorized_keys.d/azure-init",
            "/authorized_keys.d/old_authorized_keys",
        )
    }
    assert (ssh / "authorized_keys").read_text() == f"# mine\n{OTHER_KEY}\n{PUBLIC_KEY}\n"
    assert (ssh / "authorized_keys.d/old_authorized_keys").read_text() == f"{OTHER_KEY}\n"
    assert one.read("etc/passwd") == passwd, "the vendor's own admin stays as it is"


def test_a_linked_sshd_config_becomes_a_file_only_where_no_drop_in_counts(bench: Benches) -> None:
    one = shaped(bench, lambda root: flatcar(root, includes=False), Vm(username="ada"))
    told = one.agent("plan").out
    assert "! sshd: /etc/ssh/sshd_config is a link to /usr/share/ssh/sshd_config" in told
    found = provisioned(one)
    assert "etc/ssh/sshd_config" in found and not (one.tree / "etc/ssh/sshd_config").is_symlink()
    assert one.read("etc/ssh/sshd_config").endswith(one.read("usr/share/ssh/sshd_config"))
    assert "PasswordAuthentication no\n" in one.read("etc/ssh/sshd_config")


def test_a_linked_sshd_config_that_includes_drop_ins_stays_a_link(bench: Benches) -> None:
    one = shaped(bench, lambda root: flatcar(root, includes=False), Vm(username="ada"))
    (one.tree / "usr/share/ssh/sshd_config").write_text("Include /etc/ssh/sshd_config.d/*.conf\n")
    found = provisioned(one)
    assert {"etc/ssh/sshd_config.d", "etc/ssh/sshd_config.d/00-azure-init.conf"} <= found
    assert (one.tree / "etc/ssh/sshd_config").is_symlink()


def test_coreos_gets_its_home_in_var_and_a_piece_that_sshd_asks_for(bench: Benches) -> None:
    one = shaped(bench, coreos, Vm(username="ada", password="correct horse", disable_password=False))
    found = provisioned(one)
    assert found == {
        *ACCOUNTS,
        *HOST_KEYS,
        *(f"var/{name}" for name in (*HOME, *PIECES)),
        "etc/hostname",
        "etc/ssh/sshd_config.d/00-azure-init.conf",
        "etc/sudoers.d/azure-init-user",
    }
    assert one.read("var/home/ada/.ssh/authorized_keys.d/azure-init") == PUBLIC_KEY + "\n"
    assert listing(one.tree)["var/home/ada/.ssh/authorized_keys.d"][0] == "drwx------"
    # Before the vendor's 40-disable-passwords.conf, or it would not count.
    assert "PasswordAuthentication yes\n" in one.read("etc/ssh/sshd_config.d/00-azure-init.conf")


def test_an_account_in_usr_is_not_an_admin_s_name(bench: Benches) -> None:
    for shape in (flatcar, coreos):
        one = shaped(bench, shape, Vm(username="docker"))
        before = listing(one.tree)
        ran = one.agent()
        assert ran.status != 0 and one.fabric.judge().state == "failed"
        assert "user name 'docker' belongs to the system (uid 233, among the accounts in /usr)" in ran.err
        assert not {name for name in changed(before, listing(one.tree)) if name.startswith(("etc/pass", "home", "usr"))}


def test_a_read_only_root_with_a_writable_etc_var_and_home(bench: Benches) -> None:
    one = shaped(bench, azure_linux, Vm(username="ada"))
    binds = " && ".join(f"mount --bind {one.tree}/{name} {one.tree}/{name}" for name in ("etc", "var", "home", "run"))
    # The root first: what is bound below it beforehand would disappear under it.
    top = f"mount --bind {one.tree} {one.tree} && cd / && {binds} && mount -o remount,ro,bind {one.tree}"
    before = listing(one.tree)
    ran = one.agent(inside=top)
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    places = {name.split("/")[0] for name in changed(before, listing(one.tree))}
    assert places == {"etc", "home", "var"}


# ---- what Ignition did


def test_a_user_of_ignition_keeps_everything_and_gains_the_key(bench: Benches) -> None:
    one = shaped(bench, flatcar, Vm(name="web-1", username="ada", password="correct horse", disable_password=False))
    for name, line in {
        "passwd": "ada:x:1001:1001:Ada:/var/ada:/bin/zsh\n",
        "group": "ada:x:1001:\n",
        "shadow": "ada:$6$salt$ignition:19700::::::\n",
    }.items():
        with (one.tree / "etc" / name).open("a") as file:
            file.write(line)
    pieces = one.tree / "var/ada/.ssh/authorized_keys.d"
    pieces.mkdir(parents=True)
    (pieces / "ignition").write_text(OTHER_KEY + "\n")
    (pieces.parent / "authorized_keys").write_text(f"# auto-generated\n{OTHER_KEY}\n")
    for path in (pieces.parents[1], pieces.parent, pieces, *pieces.iterdir(), pieces.parent / "authorized_keys"):
        os.chown(path, 1001, 1001)
    (one.tree / "etc/hostname").write_text("by-ignition\n")
    ignition_ran(one.tree)
    accounts = {name: one.read(f"etc/{name}") for name in ("passwd", "group", "shadow")}
    found = provisioned(one)
    assert {name: one.read(f"etc/{name}") for name in accounts} == accounts
    assert one.read("etc/hostname") == "by-ignition\n"
    assert (pieces / "ignition").read_text() == OTHER_KEY + "\n"
    assert (pieces / "azure-init").read_text() == PUBLIC_KEY + "\n"
    assert (pieces.parent / "authorized_keys").read_text() == f"# auto-generated\n{OTHER_KEY}\n{PUBLIC_KEY}\n"
    assert not (pieces / "old_authorized_keys").exists()
    assert not any(name.startswith(("etc/hostname", "home")) for name in found)
    # In a boot when Ignition did not run the journal still knows.
    ignition_ran(one.tree, boot_id="00000000-0000-0000-0000-000000000000")
    one.state("provisioned").unlink()
    again = one.agent("plan", "--check")
    assert again.status == 0, again.out
    assert "= hostname of Ignition: by-ignition stays" in again.out


@pytest.mark.parametrize("how", ["another boot", "no user config", "older file", "no name", "broken result"])
def test_a_name_that_is_not_ignition_s_gives_way(bench: Benches, how: str) -> None:
    one = shaped(bench, flatcar, Vm(name="web-1", username="ada"))
    name = one.tree / "etc/hostname"
    name.write_text("localhost\n" if how == "no name" else "from-the-image\n")
    ignition_ran(one.tree, boot_id="0" * 32 if how == "another boot" else None, user_config=how != "no user config")
    if how == "older file":
        os.utime(name, (1, 1))
    if how == "broken result":
        (one.tree / "etc/.ignition-result.json").write_text("{")
    provisioned(one)
    assert one.read("etc/hostname") == "web-1\n"


def test_waagent_s_configuration_is_honoured_where_flatcar_keeps_it(bench: Benches) -> None:
    one = shaped(bench, flatcar, Vm(username="ada"))
    (one.tree / "usr/share/oem/waagent.conf").write_text("Provisioning.Agent=waagent\nOS.SshClientAliveInterval=77\n")
    one.configure(waagent={"honour": True})
    provisioned(one)
    assert "ClientAliveInterval 77\n" in one.read("etc/ssh/sshd_config.d/00-azure-init.conf")
    shown = one.agent("config", "import-waagent").out
    assert "client_alive_interval = 77" in shown
