"""The power fails right after Ready: the next boot finds a provisioned machine and does nothing again."""

from __future__ import annotations

import time

import pytest

from support.installed import Machines

pytestmark = pytest.mark.newer

SOON_SECS = 0.2
MARKER = "/var/lib/azure-init/{}.provisioned"


def test_a_power_cut_soon_after_ready_loses_nothing(machine: Machines) -> None:
    """In a container, whose files are the host's: what the agent had not written is lost, its page cache is not."""
    disk = machine("trixie")
    with disk.boot(wait=False) as boot:
        boot.ready()
        time.sleep(SOON_SECS)
        boot.cut_power()
    with disk.boot() as boot:
        assert boot.login("id -un; hostname; sudo -n id -u") == ["azureuser", "floor-1", "0"]
        boot.out("test", "-e", MARKER.format(disk.vm_id))
        assert boot.ended() == "success 0"
        assert (boot.requests(), boot.told()) == ([], []), "nothing is provisioned or told again"
