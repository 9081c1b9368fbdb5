"""azure-init-disk.service in a real boot, on a machine without temporary disks: its order and its names."""

from __future__ import annotations

import json

import pytest

from support.installed import Boot, Machines

pytestmark = pytest.mark.newer

DISK, LATE, ALIAS = (
    "azure-init-disk.service",
    "azure-init-disk-late@nvme7n1.service",
    "azure-ephemeral-disk-setup.service",
)
AUTO = '[azure-init.disk]\nsetup = "auto"\n'
SYSTEM = "usr/lib/systemd/system"
WAAGENT = """
[Unit]
Description=In the place of WALinuxAgent
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
# What the package azure-init-disks has besides.
PACKAGE = f"""
mkdir -p /{SYSTEM}/azure-init.service.wants
ln -s ../{DISK} /{SYSTEM}/azure-init.service.wants/{DISK}
ln -s {DISK} /{SYSTEM}/{ALIAS}
"""


def is_in_order(boot: Boot) -> None:
    """The run is ready, the disks are set up, WALinuxAgent starts; in every boot."""
    boot.until(lambda: boot.moment("walinuxagent", "ExecMainStart"), "WALinuxAgent has started")
    ready, begun = boot.moment("azure-init", "ActiveEnter"), boot.moment("azure-init-disk", "ExecMainStart")
    done, next_one = boot.moment("azure-init-disk", "ActiveEnter"), boot.moment("walinuxagent", "ExecMainStart")
    assert 0 < ready <= begun < done <= next_one
    assert boot.shown(DISK, "Result") == "success" and boot.shown(DISK, "ActiveState") == "active"
    assert boot.shown("walinuxagent", "ActiveState") == "active"


@pytest.mark.parametrize("by", ["hand", "package"])
def test_walinuxagent_waits_for_the_disks_in_every_boot(machine: Machines, by: str) -> None:
    disk = machine("bookworm")
    disk.write("etc/systemd/system/walinuxagent.service", WAAGENT)
    disk.change("systemctl enable walinuxagent.service" + (PACKAGE if by == "package" else ""))
    with disk.boot(AUTO) as boot:
        boot.ready()
        is_in_order(boot)
        result = json.loads(boot.out("cat", "/run/azure-init/disks.json"))
        assert result["state"] == "done" and not [row for row in result["disks"] if row["temporary"]]
        if by == "package":
            assert boot.out("systemctl", "is-active", ALIAS).strip() == "active", "by the name of azure-vm-utils"
        assert boot.run("systemctl", "start", LATE).returncode == 0
        assert f"Finished {LATE}" in boot.journal("-b", "-u", LATE)
        assert boot.shown(LATE, "ActiveState") == "inactive", "it can be started again"
        assert boot.run("azure-init", "disk", "status").stdout.endswith("There is no temporary disk.\n")
    with disk.boot(AUTO) as boot:
        is_in_order(boot)


def test_without_the_setting_nothing_runs_and_late_disks_start_nothing(machine: Machines) -> None:
    disk = machine("bookworm")
    with disk.boot() as boot:
        boot.ready()
        assert boot.moment("azure-init-disk", "ExecMainStart") == 0
        boot.run("systemctl", "start", LATE)
        told = boot.journal("-b", "-u", LATE)
        assert "skipped because of an unmet condition check" in told and "Finished" not in told
