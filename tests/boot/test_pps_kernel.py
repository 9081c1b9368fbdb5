"""A pre-provisioned VM on a real kernel: its card loses its carrier, or is unplugged and another is plugged in."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import LinkChange, Request
from support.bounds import ALL
from support.disks import debian_disk, with_tree
from support.emulated import EmulatedDisk
from support.need import need, need_root
from support.staged import staged

pytestmark = pytest.mark.newer

DATA = "/metadata/reprovisiondata"
# Generation 1: the card is on the PCI bus; generation 2: behind a PCI Express port.
LIVES = [("Running", 1), ("Savable", 1), ("Savable", 2)]


@pytest.mark.parametrize(("kind", "generation"), LIVES if ALL else LIVES[1:2])
def test_a_life_on_a_real_kernel(tmp_path: Path, kind: str, generation: int) -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "nsenter", "ssh", "ssh-keygen"):
        need(tool)
    plain = debian_disk("plain")
    tree = staged(tmp_path / "tree")
    # Sockets want short names.
    with with_tree(plain, tree, tmp_path) as image, tempfile.TemporaryDirectory(dir="/tmp", prefix="pps-") as place:
        disk = EmulatedDisk(image, Path(place, "machine"), options=plain.direct)
        vm = f'pps_type = "{kind}"\ngeneration = {generation}\n'
        with disk.boot("[pool]\nafter_secs = 10\n", vm=vm, wait=False) as boot:
            boot.until(lambda: boot.told() == ["ready", "ready"], "the customer's VM is Ready")
            boot.run("systemctl", "is-system-running", "--wait")
            assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
            assert boot.out("ls", "/home").split() == ["azureuser"]
            found = boot.run("grep", "-rlE", "pool-vm|pooladmin", "/etc", "/home", "/var/lib", "/root").stdout
            assert found == "", found
            assert boot.failed_units() == []
            polls = [event for event in boot.events() if isinstance(event, Request) and event.path == DATA]
            assert polls[-1].address == "10.0.0.4" and polls[-1].status == 200
            assert any(isinstance(event, LinkChange) for event in boot.events())
        judgement = judge(boot.events())
        assert judgement.complaints == () and judgement.state == "ready", judgement
