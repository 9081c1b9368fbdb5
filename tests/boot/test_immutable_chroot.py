"""A run in a chroot of a real distribution with a read-only /usr: with its own useradd, sshd and visudo."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakeazure import Fabric, Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.container import PROJECT, debian_root, free_port
from support.immutable_trees import OTHER_KEY, VENDOR_GROUP, VENDOR_PASSWD, ignition_ran
from support.need import need, need_root

ENTER = """
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root" || exit 1
mount -t proc proc "$2/root/proc"
mount --bind "$3/src" "$2/root/mnt"
mount --bind "$2/root/usr" "$2/root/usr" && mount -o remount,ro,bind "$2/root/usr"
shift 1
exec env -i PATH=/usr/sbin:/usr/bin PYTHONPATH=/mnt PYTHONDONTWRITEBYTECODE=1 chroot "$1/root" sh -ec "$3"
"""
RUN = "python3 -m azureinit --config /etc/test.toml"
# Every run has a kernel's host name of its own.
AGAIN = f"hostname -F /etc/hostname && {RUN} plan --check"
# As the real one does it: one list of every piece, made as the user, in places that replace the old ones.
MERGER = """#!/usr/bin/python3
import os, pwd, shutil, sys
words = sys.argv[1:]
user = pwd.getpwnam(words[words.index("-u") + 1])
os.setegid(user.pw_gid)
os.seteuid(user.pw_uid)
ssh = user.pw_dir + "/.ssh"
pieces, list_, stage = ssh + "/authorized_keys.d", ssh + "/authorized_keys", ssh + "/.stage"
os.close(os.open(user.pw_dir + "/.authorized_keys.d.lock", os.O_CREAT, 0o644))
if os.path.isdir(pieces):
    known = {name: open(f"{pieces}/{name}").read() for name in os.listdir(pieces)}
elif os.path.exists(list_):
    known = {"old_authorized_keys": open(list_).read()}
else:
    known = {}
if "-A" in words:
    known[words[words.index("-A") + 1]] = sys.stdin.read()
os.makedirs(stage)
for name, text in known.items():
    open(f"{stage}/{name}", "w").write(text)
shutil.rmtree(pieces, ignore_errors=True)
os.rename(stage, pieces)
with open(list_ + ".new", "w") as new:
    new.write("# made by the merger\\n" + "".join(known.values()))
os.rename(list_ + ".new", list_)
"""


class Disk:
    """A layer over the distribution, in which everything that changes can be seen."""

    def __init__(self, root: Path, place: Path, fabric: Fabric) -> None:
        self.root, self.place, self.layer, self.fabric = root, place, place / "upper", fabric
        for name in ("upper", "work", "root"):
            (place / name).mkdir()
        self.put("mnt/.keep", "")
        self.connect(fabric)

    def connect(self, fabric: Fabric) -> None:
        # By the name of a device, so that it is one to be ejected.
        config = fabric.config_text(provisioning_media={"path": "/dev/dvd", "wait_secs": 1})
        self.put("etc/test.toml", config)
        self.put("dev/dvd", "")
        assert fabric.media_path is not None
        shutil.copy(fabric.media_path, self.layer / "dev/dvd")

    def put(self, name: str, text: str, *, mode: int = 0o644) -> None:
        path = self.layer / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.layer)) for path in self.layer.rglob("*")}

    def run(self, script: str) -> str:
        command = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh")
        given = (str(self.root), str(self.place), str(PROJECT), script)
        ran = subprocess.run((*command, *given), capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


LOGIN = """
mkdir -p /run/sshd
/usr/sbin/sshd -p {port} -E /tmp/sshd.log
ssh -q -p {port} -i /root/key -o StrictHostKeyChecking=no ada@127.0.0.1 id -un </dev/null
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    need_root()
    with Fabric(vm=Vm(name="web-1", username="ada")) as fabric:
        yield Disk(debian_root("trixie"), tmp_path, fabric)


def with_merger(disk: Disk) -> None:
    disk.put("usr/bin/update-ssh-keys", MERGER, mode=0o755)
    disk.put("usr/share/baselayout/passwd", VENDOR_PASSWD)
    disk.put("usr/share/baselayout/group", VENDOR_GROUP)
    disk.put("etc/nsswitch.conf", "passwd: files usrfiles\ngroup: files usrfiles\nshadow: files\n")


def test_nothing_in_usr_changes_and_the_merger_has_the_key(disk: Disk) -> None:
    with_merger(disk)
    before = disk.files()
    planned = disk.run(f"{RUN} plan --groups docker")
    assert "files declines: nsswitch.conf asks usrfiles" in planned
    assert "run update-ssh-keys -u ada -A azure-init" in planned
    assert "! groups of ada: group 'docker' is in /usr and not in /etc/group" in planned
    told = disk.run(f"{RUN} && hostname && su ada -c 'sudo -n id -u'")
    assert told.endswith("web-1\n0\n"), told
    assert disk.fabric.judge().ok
    new = disk.files() - before
    assert not {name for name in new if not name.startswith(("etc", "var", "run", "home"))}
    assert {name for name in new if name.startswith("home/ada/.ssh/")} == {
        f"home/ada/.ssh/authorized_keys{name}" for name in ("", ".d", ".d/azure-init")
    }
    assert (disk.layer / "home/ada/.ssh/authorized_keys").read_text() == f"# made by the merger\n{PUBLIC_KEY}\n"
    (marker,) = (disk.layer / "var/lib/azure-init").glob("*.provisioned")
    marker.unlink()
    assert "\n0 to do, " in disk.run(AGAIN)


def test_the_merger_loses_no_key_that_no_piece_has(disk: Disk) -> None:
    with_merger(disk)
    disk.run("useradd -m ada")
    ssh = disk.layer / "home/ada/.ssh"
    (ssh / "authorized_keys.d").mkdir(parents=True)
    (ssh / "authorized_keys.d/ignition").write_text("")
    (ssh / "authorized_keys").write_text(OTHER_KEY + "\n")
    uid = (disk.layer / "home/ada").stat().st_uid
    for path in (ssh, *ssh.rglob("*")):
        os.chown(path, uid, uid)
    disk.run(RUN)
    assert {path.name for path in (ssh / "authorized_keys.d").iterdir()} == {
        "azure-init",
        "ignition",
        "old_authorized_keys",
    }
    text = (ssh / "authorized_keys").read_text()
    assert OTHER_KEY in text and PUBLIC_KEY in text


def test_a_merger_that_fails_is_done_without(disk: Disk) -> None:
    with_merger(disk)
    disk.put("usr/bin/update-ssh-keys", "#!/bin/sh\nexit 3\n", mode=0o755)
    disk.run(RUN)
    assert disk.fabric.judge().ok
    for name in ("", ".d/azure-init"):
        assert (disk.layer / f"home/ada/.ssh/authorized_keys{name}").read_text() == PUBLIC_KEY + "\n"


def test_sshd_asks_the_program_that_reads_the_pieces(disk: Disk, tmp_path: Path) -> None:
    disk.put("usr/libexec/ssh-key-dir", '#!/bin/sh\ncat "/home/$1/.ssh/authorized_keys.d"/*\n', mode=0o755)
    asks = "AuthorizedKeysCommand /usr/libexec/ssh-key-dir %u\nAuthorizedKeysCommandUser root\n"
    disk.put("etc/ssh/sshd_config.d/40-keys.conf", asks)
    own = tmp_path / "key"
    subprocess.run((need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", own), check=True)
    public = own.with_suffix(".pub").read_text()
    with Fabric(vm=Vm(name="web-1", username="ada", keys=(public,))) as fabric:
        disk.connect(fabric)
        disk.put("root/key", own.read_text(), mode=0o600)
        assert disk.run(RUN + LOGIN.format(port=free_port())) == "ada\n"
        assert fabric.judge().ok
    assert (disk.layer / "home/ada/.ssh/authorized_keys.d/azure-init").read_text() == public
    assert not (disk.layer / "home/ada/.ssh/authorized_keys").exists()


def test_the_media_stay_where_ignition_may_run_again(disk: Disk) -> None:
    (disk.layer / "run").mkdir()
    disk.put("run/ignition.env", "OEM_ID=azure\n")
    told = disk.run(f"{RUN} && cat /var/log/azure-init.log")
    assert "the media are not ejected: Ignition may run again and read them (/run/ignition.env)" in told
    assert "cannot eject" not in told


def test_where_there_is_no_ignition_they_are_ejected(disk: Disk) -> None:
    told = disk.run(f"{RUN} && cat /var/log/azure-init.log")
    assert "cannot eject /dev/dvd" in told, "it is no drive, but it was tried"


def test_a_name_that_ignition_wrote_is_the_kernel_s_too(disk: Disk) -> None:
    disk.put("etc/hostname", "by-ignition\n")
    ignition_ran(disk.layer)
    assert disk.run(f"{RUN} --stage local && hostname").endswith("by-ignition\n")
    told = disk.run(f"{RUN} && hostname && cat /etc/hosts")
    assert "\nby-ignition\n" in f"\n{told}"
    assert "127.0.1.1\tby-ignition\n" in told


def test_a_configuration_that_sshd_refuses_leaves_the_link(disk: Disk) -> None:
    """The whole file is checked by sshd itself: what it does not take, it never sees."""
    disk.put("usr/share/ssh/sshd_config", "UsePAM yes\nNoSuchWord yes\n")
    link = disk.layer / "etc/ssh/sshd_config"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("../../usr/share/ssh/sshd_config")
    disk.run(f"{RUN} || echo failed as it should")
    assert link.is_symlink() and os.readlink(link) == "../../usr/share/ssh/sshd_config"
    assert disk.fabric.judge().state == "failed"
