"""A pool that only IMDS tells of, under systemd: what had begun is undone, and a killed run is started again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fakeazure.judge import judge
from support.installed import Machines

pytestmark = pytest.mark.newer

DATA = "/metadata/reprovisiondata"
MARKER = "var/lib/azure-init/machine.pool"
REUSE = "import urllib.request as u; u.urlopen(u.Request('http://169.254.169.254/fakeazure/reuse', method='POST'))"
UNIT = "azure-init.service"
FILES = "ls /home; ls /etc/ssh; cat /etc/hostname /etc/hosts /etc/passwd"
# The media of the pool's VM do not ask for pre-provisioning: host keys are begun, and the host name is set.
SILENT = '[media]\ntexts = { PreprovisionedVm = "false", PreprovisionedVMType = "None" }\n'
DISKS, DISK_UNIT = '[azure-init]\ndisk = { setup = "auto" }\n', "azure-init-disk.service"


def test_a_run_that_is_killed_in_a_pool_that_imds_told_of_is_started_again(machine: Machines) -> None:
    disk = machine("trixie")
    image = disk.change(FILES)
    with disk.boot(f"[pool]\non_call = true\n{SILENT}{DISKS}", vm='pps_type = "Running"\n', wait=False) as boot:
        marker = disk.layer / MARKER
        boot.until(lambda: marker.exists() and '"waiting"' in marker.read_text(), "the machine waits in its pool")
        root = Path(f"/proc/{boot.init}/root")
        shown = [name for place in ("home", "etc/ssh") for name in sorted(one.name for one in (root / place).iterdir())]
        texts = [(root / name).read_text() for name in ("etc/hostname", "etc/hosts", "etc/passwd")]
        assert "".join(f"{name}\n" for name in shown) + "".join(texts) == image
        assert boot.out("hostname") == "localhost"
        before = boot.shown(UNIT, "MainPID")
        boot.run("kill", "-KILL", before)
        boot.until(lambda: boot.shown(UNIT, "MainPID") not in (before, "0"), "the unit runs again")
        boot.until(lambda: any(one.path == DATA for one in boot.requests()), "the data are asked for")
        assert boot.told() == ["ready"]
        assert "this VM waits in a pool for its customer" in boot.journal("-u", DISK_UNIT), "no disk is set up"
        command = ("nsenter", f"--target={boot.platform_pid}", "--net", sys.executable, "-c", REUSE)
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=30)
        boot.until(lambda: boot.told() == ["ready", "ready"], "the customer's VM is Ready")
        assert boot.login("hostname; whoami") == [disk.name, "azureuser"]
        assert boot.out("ls", "/home").split() == ["azureuser"]
        boot.until(lambda: boot.shown(DISK_UNIT, "ActiveState") == "active", "the customer's run has started it again")
        assert "azure-init did not finish" not in boot.journal()
    # DHCP has had the name of the media before IMDS could be asked.
    complaints = [one for one in judge(boot.events()).complaints if "while it was in the pool" not in one]
    assert complaints == []
