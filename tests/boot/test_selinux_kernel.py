"""A Debian that enforces SELinux on a real kernel: provisioned at its first boot, with the labels of its policy."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from support.disks import KERNEL_OPTIONS, ROOT_START, Disk, debian_disk
from support.emulated import EmulatedDisk
from support.need import need, need_root
from support.staged import staged

pytestmark = pytest.mark.newer

WRITTEN = ("/etc", "/home", "/root", "/var/lib/azure-init", "/var/log")
ENFORCING = f"{KERNEL_OPTIONS} security=selinux selinux=1 enforcing=1"
# Laid over the image, then labelled by the image's own policy, as a package manager on such a machine would.
LAY = """
mount -o "loop,offset=$2" "$1" "$3" || exit 1
tar -C "$4" -c . | tar -C "$3" -x --no-overwrite-dir --owner=0 --group=0 &&
setfiles -F -r "$3" "$3/etc/selinux/default/contexts/files/file_contexts" "$3"
status=$?
umount "$3"
exit $status
"""


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "setfiles", "nsenter", "ssh", "ssh-keygen"):
        need(tool)


def labelled(disk: Disk, tree: Path, place: Path) -> Path:
    copy, root = place / "disk.img", place / "root"
    root.mkdir()
    subprocess.run(["cp", "--sparse=always", str(disk.image), str(copy)], check=True)
    words = ["unshare", "--mount", "sh", "-c", LAY, "sh", str(copy), str(ROOT_START), str(root), str(tree)]
    laid = subprocess.run(words, capture_output=True, text=True)
    assert laid.returncode == 0, laid.stderr
    return copy


def test_an_enforcing_machine_is_provisioned_and_labelled(tmp_path: Path) -> None:
    """With a password too: it is hashed, and set by a program of another domain."""
    disk = debian_disk("selinux")
    options = [*disk.direct[:-1], ENFORCING]
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="selinux-") as place:
        tree = staged(tmp_path / "tree")
        (tree / "etc/sudoers.d").mkdir(mode=0o750)
        (tree / "etc/sudoers.d/zz-test").write_text("azureuser ALL=(ALL) NOPASSWD: ALL\n")  # for the questions below
        image = labelled(disk, tree, Path(place))
        machine = EmulatedDisk(image, Path(place, "machine"), options=options)
        with machine.boot(vm='generation = 1\npassword = "0nly-0n-the-Disc"\n') as boot:
            boot.ready()
            assert boot.ended() == "success 0"
            assert boot.out("getenforce") == "Enforcing"
            assert boot.login("id -un") == ["azureuser"]
            denied = [line for line in boot.journal("-b", "-k", "--grep", "avc").splitlines() if is_ours(line)]
            assert denied == []
            assert boot.out("restorecon", "-n", "-v", "-R", *WRITTEN) == "", "labels that the policy does not want"
            peak, limit = (int(boot.shown("azure-init", name)) for name in ("MemoryPeak", "MemoryMax"))
            assert 4 * peak <= limit, "the unit's limit is at least four times what a run needs"


def is_ours(denial: str) -> bool:
    return any(
        f'comm="{program}' in denial for program in ("azure-init", "python", "ssh-keygen", "restorecon", "chpasswd")
    )
