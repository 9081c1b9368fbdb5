"""Deprovisioning a real distribution in a chroot, with its own userdel and waagent.conf."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.container import PROJECT, debian_root
from support.need import need_root

ENTER = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1
mount -t proc proc "$2/root/proc"
mount --bind "$3/src" "$2/root/mnt"
shift 1
exec env -i PATH=/usr/sbin:/usr/bin PYTHONPATH=/mnt PYTHONDONTWRITEBYTECODE=1 chroot "$1/root" sh -ec "$3"
"""
PREPARE = """
useradd -m -s /bin/sh joe
useradd -r svc
echo 'joe:correct horse' | chpasswd
usermod -aG adm joe
echo 'joe ALL=(ALL) ALL' >/etc/sudoers.d/azure-init-user
printf 'web-1\\n' >/etc/hostname
mkdir -p /var/lib/azure-init /etc/ssh
touch /var/lib/azure-init/1.provisioned /home/joe/work /etc/ssh/ssh_host_ed25519_key
setpriv --reuid joe --regid joe --init-groups sleep 100 &
"""


class Disk:
    def __init__(self, root: Path, place: Path) -> None:
        self.root, self.place = root, place
        for name in ("upper", "work", "root"):
            (place / name).mkdir()

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh")
        given = (str(self.root), str(self.place), str(PROJECT), script)
        return subprocess.run((*command, *given), capture_output=True, text=True, timeout=100)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    need_root()
    return Disk(debian_root("trixie"), tmp_path)


def test_the_distribution_s_own_userdel_removes_an_admin_who_is_at_work(disk: Disk) -> None:
    script = f"""{PREPARE}
    python3 -m azureinit deprovision --user --force
    echo status $?
    getent passwd joe || echo no joe
    getent group joe || echo no group
    grep -c joe /etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid || true
    ls -a /home /etc/sudoers.d /var/lib/azure-init /etc/ssh
    ls /etc/*- || true
    stat -c 'machine id %s %a' /etc/machine-id
    python3 -m azureinit deprovision --user --force | tail -n 1
    """
    ran = disk.run(script)
    assert ran.returncode == 0, ran.stderr
    assert "run userdel --force --remove -- joe" in ran.stdout
    told = ran.stdout.partition("\nstatus ")[2]
    assert told.startswith("0\nno joe\nno group\n"), ran.stdout + ran.stderr
    files = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
    assert all(f"/etc/{file}:0\n" in told for file in files)
    assert not any(name in told for name in ("azure-init-user", "1.provisioned", "ssh_host", "shadow-"))
    assert "machine id 0 " in told
    assert "\n0 to do, " in told


@pytest.mark.parametrize("name", ["svc", "root"])
def test_an_account_of_the_system_is_not_even_tried(disk: Disk, name: str) -> None:
    ran = disk.run(
        f"{PREPARE} python3 -m azureinit deprovision --user {name} --force || echo status $?; getent passwd {name}"
    )
    assert "status 1\n" + name in ran.stdout
    assert "userdel" not in ran.stdout
    assert f"user '{name}': native: declined: it belongs to the system" in ran.stderr


def test_where_userdel_is_missing_the_files_are_edited(disk: Disk) -> None:
    script = f"""{PREPARE}
    rm /usr/sbin/userdel
    python3 -m azureinit deprovision --user --force
    echo status $?
    grep -c joe /etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid || true
    ls -a /home
    pwck -r -q && grpck -r && echo sound
    """
    ran = disk.run(script)
    told = ran.stdout.partition("\nstatus ")[2]
    assert told.startswith("0\n") and told.count(":0\n") == 6, ran.stdout + ran.stderr
    assert "joe" not in told.partition("subgid")[2] and "sound" in told


def test_the_shim_does_what_a_template_asks(disk: Disk) -> None:
    shim = "python3 -c 'from azureinit.cli.waagent_command import command; command()'"
    ran = disk.run(f"{PREPARE} {shim} -force -deprovision+user; echo status $?; getent passwd joe || echo no joe")
    assert "\nstatus 0\nno joe\n" in ran.stdout, ran.stderr


def test_the_distribution_s_own_waagent_conf_is_taken_over(tmp_path: Path) -> None:
    need_root()
    disk = Disk(debian_root("trixie", "waagent"), tmp_path)
    ran = disk.run("python3 -m azureinit config import-waagent --write && python3 -m azureinit config show")
    assert ran.returncode == 0, ran.stderr
    assert "settings of /etc/waagent.conf to /etc/azure-init/azure-init.toml.d/waagent.toml" in ran.stdout
    assert 'host_key_types = ["ed25519", "ecdsa", "rsa"]' in ran.stdout
    assert "# /etc/azure-init/azure-init.toml.d/waagent.toml:" in ran.stdout
    assert ran.stderr == ""
