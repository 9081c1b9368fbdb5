"""azure-init-disks over reboots of a machine with two temporary NVMe disks: the array and its files remain.

In the second reboot one of the two disks is held up in udev until azure-init-disk.service has begun, so that the unit
has to wait for udev's queue: the other disk alone looks like an array with a missing member.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.azure_nvme import DIRECT_V2, Controller, Namespace
from support.bounds import ALL
from support.disk_guest import MIB, VM_ID, DiskGuest, booted, sparse
from support.need import need, need_root
from support.package_disks import build_debs

pytestmark = [pytest.mark.newer, pytest.mark.skipif(not ALL, reason="three emulated boots: scripts/test --all")]

CHASSIS = "7783-7084-3265-9085-8269-3286-77"
CONFIG = f'[platform]\nvm_id = "{VM_ID}"\n[telemetry]\nconsole = false\n'
UNIT = "azure-init-disk.service"
# Ends at the latest after a minute, and long before udev's own limit for an event.
HELD_UP = """\
#!/bin/sh
for number in $(seq 60); do
    [ -e /run/azure-init/disks.json ] && break
    sleep 1
done
sleep 10
cut -d ' ' -f 1 /proc/uptime >/run/held-up
"""
RULE = 'ACTION=="add", KERNEL=="nvme?n1", ATTRS{serial}=="local-2*", PROGRAM="/srv/held-up"\n'
HOLD_UP = """
chmod +x /srv/held-up
cp /srv/held-up.rules /etc/udev/rules.d/40-test-held-up.rules
"""


def until_done(guest: DiskGuest) -> None:
    """Nothing but the boot starts the unit; this only waits for it."""
    guest.do(f"while [ $(systemctl is-active {UNIT}) = activating ]; do sleep 1; done", seconds=180)
    shown = guest.do(f"systemctl show -p ActiveState,Result {UNIT}")
    assert set(shown.split()) == {"ActiveState=active", "Result=success"}, journal(guest)
    assert json.loads(guest.do("cat /run/azure-init/disks.json"))["state"] == "done"


def journal(guest: DiskGuest) -> str:
    return guest.do(f"journalctl --boot --no-pager --output=short-monotonic --unit={UNIT}")


def identity(guest: DiskGuest) -> str:
    """UUIDs of the array and of the file system that is mounted."""
    array, filesystem = guest.do("findmnt --noheadings --output SOURCE,UUID /mnt").split()
    return filesystem + guest.do(f"mdadm --detail --export {array} | grep UUID")


def moment(guest: DiskGuest, which: str) -> float:
    return int(guest.do(f"systemctl show --value -p {which}TimestampMonotonic {UNIT}")) / 1e6


def test_reboots_keep_the_array_and_its_files(tmp_path: Path) -> None:
    need_root()
    need("dpkg-deb")
    packages = build_debs(tmp_path / "packages")
    disks = []
    for number in (1, 2):
        image = sparse(tmp_path / f"local{number}", (100 + number) * MIB)
        says = f"type=local,index={number},name=nvme-{number}"
        spaces = [Namespace(image=image, vendor_specific=says)]
        disks.append(Controller(model=DIRECT_V2, serial=f"local-{number}", namespaces=spaces))
    files = {
        "etc/azure-init/azure-init.toml.d/test.toml": CONFIG,
        f"var/lib/azure-init/{VM_ID}.provisioned": "",
        "srv/held-up": HELD_UP,
        "srv/held-up.rules": RULE,
    }
    options = ("-smbios", f"type=3,asset={CHASSIS}", "-smbios", f"type=1,uuid={VM_ID}")
    with booted(tmp_path, files=files, packages=packages, controllers=disks, options=options) as guest:
        until_done(guest)
        assert "made the ext4 file system" in journal(guest)
        made = identity(guest)
        guest.do("echo precious >/mnt/file")
        for busy in (False, True):
            if busy:
                guest.do(HOLD_UP)
            guest.reboot()
            until_done(guest)
            assert guest.do("cat /mnt/file") == "precious"
            assert identity(guest) == made
            assert "made the" not in journal(guest)
            assert guest.do("systemctl is-system-running --wait") == "running"
        assert moment(guest, "InactiveExit") < float(guest.do("cat /run/held-up")) < moment(guest, "ActiveEnter")
