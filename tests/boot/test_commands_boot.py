"""Commands of customData under real units: daemons that write on, script directories, a restart of their own."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.installed import Disk, Machines

pytestmark = pytest.mark.newer

FINAL = "azure-init-userdata-final.service"
AT_FINAL = '[azure-init.readiness]\nat = "final"\n'
DAEMON = """#cloud-config
runcmd:
- (while sleep 0.1; do echo tick; done) &
- [sh, -c, 'echo "$HOME|$LC_ALL|$PATH" >/root/variables']
final_message: ready after $UPTIME seconds
"""
RESTART = """#cloud-config
runcmd:
- echo one >>/root/ran
- echo two >>/root/ran; reboot
"""


@pytest.fixture
def disk(machine: Machines) -> Disk:
    return machine("trixie", "python3-yaml")


def test_a_daemon_writes_on_after_its_stage_and_directories_have_scripts(disk: Disk) -> None:
    disk.write("etc/azure-init/scripts/per-boot/10-told", "#!/bin/sh\necho boot >>/root/boots\n", mode=0o755)
    with disk.boot(vm=f"custom_data = {json.dumps(DAEMON)}") as boot:
        boot.ready()
        assert boot.ended(FINAL) == "success 0", boot.journal("-b")
        (log,) = boot.out("sh", "-c", "ls /var/lib/azure-init/*.d/runcmd.log").split()
        size = int(boot.out("stat", "-c", "%s", log))
        boot.until(lambda: int(boot.out("stat", "-c", "%s", log)) > size + 20, "the daemon's output is kept")
        home, lc_all, path = boot.out("cat", "/root/variables").split("|")
        assert (home, lc_all) == ("", "")
        assert "/usr/bin" in path.split(":")
        assert "ready after " in boot.journal("-b", "-u", FINAL) + boot.console.read_text()
    with disk.boot() as boot:
        assert boot.ended(FINAL) == "success 0", boot.journal("-b")
        assert boot.out("cat", "/root/boots").split() == ["boot", "boot"]


def test_a_list_that_restarts_the_machine_does_so_once(disk: Disk) -> None:
    with disk.boot(AT_FINAL, vm=f"custom_data = {json.dumps(RESTART)}", wait=False) as boot:
        init, deadline = Path(f"/proc/{boot.init}"), time.monotonic() + boot.soon
        while init.exists():
            assert time.monotonic() < deadline, boot.last_words()
            time.sleep(0.05)
    with disk.boot(AT_FINAL) as boot:
        boot.ready()
        assert boot.ended(FINAL) == "success 0", boot.journal("-b")
        assert boot.out("cat", "/root/ran").split() == ["one", "two"]
