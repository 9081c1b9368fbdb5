"""azure-init's directories on separate partitions, on a machine with a real kernel and udev."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from support.boot_checks import is_in_order
from support.disks import DISK_SIZE, MEGABYTE, ROOT_START, SECTOR, debian_disk, with_tree
from support.emulated import EmulatedDisk
from support.need import need, need_root
from support.staged import staged

pytestmark = pytest.mark.newer

SIZE = 128 * MEGABYTE
# Where it is mounted, and when: with the network, or before.
MOUNTS = {"var": "_netdev", "var/log": "_netdev", "home": "defaults"}
# The root file system once more, without what is mounted over it.
BENEATH = "mkdir /run/beneath; mount --bind / /run/beneath; cd /run/beneath; ls home; find var -path '*azure*' -type f"


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "mke2fs", "sfdisk", "nsenter", "ssh", "ssh-keygen"):
        need(tool)


def add_partitions(image: Path, work: Path) -> None:
    """One for each directory, with what is in it now."""
    with image.open("r+b") as file:
        file.truncate(DISK_SIZE + (len(MOUNTS) + 1) * SIZE)
    for number, directory in enumerate(MOUNTS):
        start, label = DISK_SIZE + number * SIZE, directory.replace("/", "-")
        subprocess.run(
            ("sfdisk", "--quiet", "--append", "--no-reread", str(image)),
            input=f"start={start // SECTOR}, size={SIZE // SECTOR}, type=linux\n",
            text=True,
            check=True,
            capture_output=True,
        )
        content = work / label
        content.mkdir()
        orders = f"rdump /{directory} {content}"
        subprocess.run(("debugfs", "-R", orders, f"{image}?offset={ROOT_START}"), check=True, capture_output=True)
        made = ("mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-d", str(content / Path(directory).name))
        subprocess.run((*made, "-E", f"offset={start}", str(image), f"{SIZE // 1024}k"), check=True)


def test_partitions_of_their_own_are_mounted_before_they_are_written_to(tmp_path: Path) -> None:
    plain = debian_disk("plain")
    tree = staged(tmp_path / "tree")
    (tmp_path / "work").mkdir()
    lines = ["LABEL=root / ext4 defaults 0 1"]
    lines += [f"LABEL={name.replace('/', '-')} /{name} ext4 {options} 0 0" for name, options in MOUNTS.items()]
    (tree / "etc/fstab").write_text("\n".join((*lines, "")))
    with with_tree(plain, tree, tmp_path) as image, tempfile.TemporaryDirectory(dir="/tmp", prefix="real-") as place:
        add_partitions(image, tmp_path / "work")
        disk = EmulatedDisk(image, Path(place, "machine"), options=plain.direct)
        with disk.boot(vm="generation = 1") as boot:
            is_in_order(boot)
            for directory in MOUNTS:
                assert boot.out("findmnt", "--noheadings", "--output", "FSTYPE", f"/{directory}") == "ext4"
            assert boot.out("sh", "-c", "ls /var/lib/azure-init | grep provisioned")
            assert boot.out("sh", "-ec", BENEATH) == "", "below the mount points"
            assert {lease.hostname for lease in boot.leases()} == {"floor-1"}, "the name was there before DHCP"
