"""A power cut right after Ready: the next boot finds a provisioned machine and repeats nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.disks import debian_disk, with_tree
from support.emulated import EmulatedDisk
from support.installed import Disk, Machines
from support.need import need, need_root
from support.staged import staged

pytestmark = pytest.mark.newer

SOON_SECS = 0.2
EMULATED_SECS = 3.0  # the same for a processor that is emulated, ten times slower and more
MARKER = "/var/lib/azure-init/{}.provisioned"


@pytest.fixture(params=["container", "real kernel"])
def disk(request: pytest.FixtureRequest, machine: Machines, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "container":  # whose files are the host's: only what the agent had not written is lost
        yield machine("trixie")
        return
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "nsenter", "ssh", "ssh-keygen"):
        need(tool)
    plain = debian_disk("plain")
    tree = staged(tmp_path / "tree")
    # Sockets want short names.
    with with_tree(plain, tree, tmp_path) as image, tempfile.TemporaryDirectory(dir="/tmp", prefix="cut-") as place:
        yield EmulatedDisk(image, Path(place, "machine"), options=plain.direct)


def test_a_power_cut_soon_after_ready_loses_nothing(disk: Disk) -> None:
    with disk.boot(vm="generation = 1\n", wait=False) as boot:
        boot.ready()
        time.sleep(EMULATED_SECS if isinstance(disk, EmulatedDisk) else SOON_SECS)
        boot.cut_power()
    with disk.boot(vm="generation = 1\n") as boot:
        assert boot.login("id -un; hostname; sudo -n id -u") == ["azureuser", "floor-1", "0"]
        boot.out("test", "-e", MARKER.format(disk.vm_id))
        assert boot.ended() == "success 0"
        assert (boot.requests(), boot.told()) == ([], []), "nothing is provisioned or told again"
