"""Checks of a booted machine that several boot tests share."""

from __future__ import annotations

import time

from fakeazure.platform.events import Request
from support.installed import Boot, Disk

WAAGENT_MARKER = "/var/lib/waagent/provisioned"
UNITS = tuple(f"azure-init{part}.service" for part in ("-local", "", "-failure", "-resend", "-hostname"))
OURS = tuple(word for unit in UNITS for word in ("-u", unit))
READY = "reported Ready: the platform accepted it"
LATE = """
[media]
late_secs = 9
[[faults]]
path = "/metadata/instance"
answers = ["restart 9s", "ok*"]
[azure-init.boot]
hold_logins_secs = 3
[azure-init.imds]
retry_interval_secs = 0.5
total_retry_timeout_secs = 2
[azure-init.provisioning_media]
wait_secs = 2
"""


def is_provisioned(boot: Boot) -> None:
    """Checks that the machine has the requested settings: by its files, and by a login."""
    assert boot.out("hostname") == boot.out("cat", "/etc/hostname") == "floor-1"
    assert boot.out("getent", "passwd", "azureuser").split(":")[5] == "/home/azureuser"
    assert boot.login("id -un; hostname; sudo -n id -u") == ["azureuser", "floor-1", "0"]
    modes = boot.out("stat", "-c", "%a %U", "/home/azureuser/.ssh", "/home/azureuser/.ssh/authorized_keys")
    assert modes.split() == ["700", "azureuser", "600", "azureuser"]


def is_orderly(boot: Boot) -> None:
    """No unit failed, there is no ordering cycle or traceback, and the units ran in the right order."""
    failed = boot.failed_units()
    assert failed == [], failed
    assert "ordering cycle" not in boot.journal("-b") + boot.console.read_text(errors="replace")
    assert "Traceback" not in boot.journal("-b", *OURS)
    assert 0 < boot.moment("azure-init-local", "ActiveEnter") <= boot.moment("systemd-networkd", "ExecMainStart")
    assert 0 < boot.moment("azure-init", "ActiveEnter") <= boot.moment("ssh", "ExecMainStart")


def prepare_for_waagent(disk: Disk) -> None:
    """Gives waagent what it needs from Azure: a Hyper-V guest, and firmware with the VM's id."""
    disk.write("etc/systemd/system/walinuxagent.service.d/here.conf", "[Unit]\nConditionVirtualization=\n")
    disk.write("usr/sbin/dmidecode", f"#!/bin/sh\necho {disk.vm_id}\n", mode=0o755)


def is_its_own(request: Request) -> bool:
    """Whether waagent fetched the goal state: azure-init does too, to send the host key's fingerprint."""
    return "comp=goalstate" in request.target and "azure-init" not in request.headers.get("user-agent", "")


def is_quiet(boot: Boot) -> None:
    """WALinuxAgent runs, and has found its marker."""
    boot.until(lambda: [one for one in boot.requests() if is_its_own(one)], "waagent is at work")
    marked = float(boot.out("stat", "-c", "%.6Y", WAAGENT_MARKER)) - (time.time() - time.monotonic())
    assert marked * 1e6 < boot.moment("walinuxagent", "ExecMainStart"), "its marker is older than itself"
    assert boot.out("cat", WAAGENT_MARKER) == boot.disk.vm_id
    assert "Provisioning already completed, skipping" in boot.out("cat", "/var/log/waagent.log")
    assert boot.out("systemctl", "is-active", "walinuxagent") == "active"


def has_no_cycle(boot: Boot) -> None:
    """Also checks the console: systemd reports a cycle there, before the journal runs."""
    assert "ordering cycle" not in boot.console.read_text(errors="replace") + boot.journal("-b")


def is_in_order(boot: Boot) -> None:
    """systemd dropped no job to break a cycle, the network is up, and the platform has accepted Ready."""
    has_no_cycle(boot)
    assert boot.out("systemctl", "is-active", "systemd-networkd") == "active"
    boot.ready()
    assert boot.ended() == "success 0"
    failed = boot.failed_units()
    assert failed == [], failed
    assert "Traceback" not in boot.journal("-b", *OURS)
    assert boot.out("hostname") == boot.out("cat", "/etc/hostname") == "floor-1"
    assert boot.login("id -un; sudo -n id -u") == ["azureuser", "0"]
