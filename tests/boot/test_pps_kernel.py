"""A pre-provisioned VM on a real kernel: its card loses its carrier, or is unplugged and another is plugged in."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakeazure.judge import judge
from fakeazure.platform.events import Event, LinkChange, Request, Reused, Told
from support.bounds import ALL
from support.disks import debian_disk, with_tree
from support.emulated import EmulatedDisk
from support.need import need, need_root
from support.staged import staged

pytestmark = pytest.mark.newer

DATA = "/metadata/reprovisiondata"
OS_DISK = "PreprovisionedOSDisk"
# Generation 1: the card is on the PCI bus; generation 2: behind a PCI Express port. The last: when the power fails.
ARROWS = [(kind, 1, moment) for kind in ("Running", "Savable") for moment in ("ready", "pool", "moved", "data")]
LIVES = [("Running", 1, ""), ("Savable", 2, ""), (OS_DISK, 1, ""), *ARROWS, (OS_DISK, 1, "ready")]
FEW = [("Savable", 1, "pool")]


def is_customer_ready(events: Sequence[Event]) -> bool:
    """Whether Ready was reported after the reuse."""
    start = max((n for n, event in enumerate(events) if isinstance(event, Reused)), default=len(events))
    return any(isinstance(event, Told) and event.kind == "ready" for event in events[start:])


@pytest.mark.parametrize(("kind", "generation", "moment"), LIVES if ALL else FEW)
def test_a_life_on_a_real_kernel(tmp_path: Path, kind: str, generation: int, moment: str) -> None:
    """P7, P20 to P24: a life of each type, and the same with a power cut at each arrow."""
    need_root()
    for tool in ("qemu-system-x86_64", "qemu-img", "debugfs", "nsenter", "ssh", "ssh-keygen"):
        need(tool)
    plain = debian_disk("plain")
    tree = staged(tmp_path / "tree")
    # Sockets want short names.
    with with_tree(plain, tree, tmp_path) as image, tempfile.TemporaryDirectory(dir="/tmp", prefix="pps-") as place:
        disk = EmulatedDisk(image, Path(place, "machine"), options=plain.direct)
        vm = f'pps_type = "{kind}"\ngeneration = {generation}\n'
        # Seconds from the restart: an OS disk is to report Ready again before the host powers it off.
        after = 300 if kind == OS_DISK and moment else 10
        pool = f"[pool]\nafter_secs = {after}\nrestarts = {[moment] if moment else []}\n"
        with disk.boot(pool, vm=vm, wait=False) as boot:
            boot.until(lambda: is_customer_ready(boot.events()), "the customer's VM is Ready")
            boot.run("systemctl", "is-system-running", "--wait")
            assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
            assert boot.out("ls", "/home").split() == ["azureuser"]
            found = boot.run("grep", "-rlE", "pool-vm|pooladmin", "/etc", "/home", "/var/lib", "/root").stdout
            assert found == "", found
            assert boot.failed_units() == []
            polls = [event for event in boot.events() if isinstance(event, Request) and event.path == DATA]
            if kind == OS_DISK:
                assert polls == []
            else:
                assert polls[-1].address == "10.0.0.4" and polls[-1].status == 200
                assert any(isinstance(event, LinkChange) for event in boot.events())
            assert moment == "ready" or boot.told() == ["ready", "ready"]
        judgement = judge(boot.events())
        assert judgement.complaints == () and judgement.state == "ready", judgement
