"""Temporary disks on a real kernel: power cuts, redeployment, other sizes, disks that fail, vanish or come late."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bounds import ALL
from support.disk_guest import CONFIG, MIB, V1, V2, DiskGuest, booted

pytestmark = pytest.mark.newer

PROJECT = Path(__file__).parents[2]
SIZE = 40 * MIB
PLAIN = "/dev/PLAIN{}"
LATE = ("systemd/azure-init-disk-late@.service", "packaging/disks/81-azure-init-disk-late.rules")
LATE_UNIT = "cp /srv/azure-init-disk-late@.service /run/systemd/system/; systemctl daemon-reload"
# The first mkfs is killed at its fourth write, and the machine loses power at once.
POWER_CUT = """
cp "$(command -v mkfs.ext4)" /srv/mkfs.ext4
cat >/srv/shim <<'END'
#!/bin/sh
strace -qq -o /dev/null -e trace=write,pwrite64 -e inject=write,pwrite64:signal=KILL:when=4 /srv/mkfs.ext4 "$@"
echo b >/proc/sysrq-trigger
END
chmod +x /srv/shim
echo 1 >/proc/sys/kernel/sysrq
mount --bind /srv/shim "$(readlink -f "$(command -v mkfs.ext4)")"
azure-init disk setup
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskGuest]:
    files = {f"srv/{Path(name).name}": (PROJECT / name).read_text() for name in LATE}
    with booted(
        tmp_path_factory.mktemp("guest"),
        files={"etc/azure-init/azure-init.toml": CONFIG, **files},
        plain=(SIZE, SIZE),
        data=SIZE,
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_set_up(guest: DiskGuest) -> Iterator[None]:
    yield
    guest.tidy()
    for path in guest.plain:
        os.truncate(path, 0)
        os.truncate(path, SIZE)


def setup(guest: DiskGuest) -> str:
    return guest.do("azure-init disk setup")


def test_a_power_cut_inside_mkfs_and_one_after_it(guest: DiskGuest) -> None:
    """The agent's record has to be on the disk by then, and everything else may be lost."""
    for number in (0, 1):
        guest.connect(f"S{number}", path=PLAIN.format(number), model=V1)
    before = guest.do("cat /sys/class/nvme/nvme*/serial")
    assert {"S0", "S1"} <= set(before.split())
    guest.cut_power(POWER_CUT)
    for number in (1, 0):  # in another order this time
        guest.connect(f"S{number}", path=PLAIN.format(number), model=V1)
    assert "made the ext4 file system" in setup(guest)
    guest.do("echo precious >/mnt/file; sync /mnt/file; findmnt --noheadings /mnt")
    if not ALL:
        return
    guest.cut_power("sleep 1; echo b >/proc/sysrq-trigger")
    for number in (0, 1):
        guest.connect(f"S{number}", path=PLAIN.format(number), model=V1)
    assert "made the" not in setup(guest)
    assert guest.do("cat /mnt/file") == "precious"


def test_a_redeployed_machine_formats_again_and_a_larger_disk_keeps_its_files(guest: DiskGuest) -> None:
    guest.connect("S0", size=SIZE)
    assert "made the ext4 file system" in setup(guest)
    guest.do("umount /mnt")
    guest.disconnect()
    guest.connect("S0", size=SIZE)
    assert "made the ext4 file system" in setup(guest)
    guest.do("echo precious >/mnt/file; umount /mnt")
    guest.disconnect()
    guest.do(f"truncate --size={2 * SIZE} /run/disks/S0")
    guest.connect("S0")
    assert "made the ext4 file system" not in setup(guest)
    assert guest.do("cat /mnt/file; umount /mnt") == "precious"
    guest.disconnect()
    guest.connect("S0", size=3 * SIZE)
    assert "made the ext4 file system" in setup(guest)


def test_two_disks_take_one_mkfs_one_mount_and_no_sleep(guest: DiskGuest) -> None:
    for number in (0, 1):
        guest.connect(f"S{number}", size=SIZE)
    traced = "execve,mount,nanosleep,clock_nanosleep,select,pselect6"
    guest.do(f"strace -f -qq -o /run/trace -e trace={traced} azure-init disk setup")
    lines = guest.do("cat /run/trace").splitlines()
    agent = lines[0].split()[0]
    started = [line for line in lines if "execve(" in line and " = 0" in line]
    assert len([line for line in started if "/mkfs" in line or "/mke2fs" in line]) == 1
    assert len([line for line in started if '"--create"' in line]) == 1
    assert len([line for line in started if '"start"' in line]) == 1  # of the mount unit
    assert [line for line in lines if line.split()[0] == agent and "sleep" in line] == []
    assert guest.do("grep -c ' /mnt ' /proc/self/mounts") == "1"


def test_a_disk_that_returns_errors_is_left_alone(guest: DiskGuest) -> None:
    guest.do(f"truncate -s {SIZE} /run/half; losetup /dev/loop7 /run/half")
    half = SIZE // 1024
    guest.do(f"printf '0 {half} linear /dev/loop7 0\\n{half} {half} error\\n' | dmsetup create bad; udevadm settle")
    guest.connect("bad", path="/dev/mapper/bad")
    ran = guest.sh("azure-init disk setup")
    assert ran.status != 0
    assert "cannot be read" in ran.out
    assert "Traceback" not in ran.out
    guest.do("cmp -n 1048576 /run/half /dev/zero")


def test_a_disk_that_vanishes_between_the_plan_and_mkfs(guest: DiskGuest) -> None:
    name = guest.connect("gone", size=SIZE)
    controller = name.rpartition("n")[0]
    script = f"echo 1 >/sys/class/nvme/{controller}/delete_controller; exec /srv/mkfs.ext4"
    guest.do("cp $(command -v mkfs.ext4) /srv/mkfs.ext4")
    guest.do(f"printf '#!/bin/sh\\n{script} \"$@\"\\n' >/srv/shim; chmod +x /srv/shim")
    guest.do("mount --bind /srv/shim $(readlink -f $(command -v mkfs.ext4))")
    ran = guest.sh("azure-init disk setup")
    guest.do("umount $(readlink -f $(command -v mkfs.ext4))")
    assert ran.status != 0
    assert "mkfs.ext4" in ran.out
    assert "Traceback" not in ran.out
    assert guest.sh("azure-init disk setup").status == 0  # there is no disk any more


def test_the_disk_of_another_is_never_touched(guest: DiskGuest) -> None:
    """QEMU's own NVMe disks and a SCSI data disk are blank, and not temporary."""
    said = setup(guest)
    assert said.count("not temporary") == 4  # with the system's own
    assert guest.do("azure-init disk plan").endswith("There is no temporary disk.")


def test_the_unit_may_do_what_lvm_and_swap_need(guest: DiskGuest) -> None:
    """The unit for late disks has the same sandbox as azure-init-disk.service, and no conditions about Azure."""
    for number in (0, 1):
        guest.connect(f"S{number}", size=2 * SIZE)
    guest.do("printf 'aggregation = \"lvm\"\\nswap_mib = 40\\n' >>/etc/azure-init/azure-init.toml")
    guest.do(f"{LATE_UNIT}; mkdir -p /run/azure-init; touch /run/azure-init/disks.json")
    ran = guest.sh("systemctl start azure-init-disk-late@x.service || journalctl --no-pager -u azure-init-disk-late@x")
    guest.do("head -n -2 /etc/azure-init/azure-init.toml >/run/toml; cp /run/toml /etc/azure-init/azure-init.toml")
    assert guest.sh("findmnt --noheadings --output SOURCE /mnt").out.startswith("/dev/mapper/"), ran.out
    assert "/mnt/swapfile" in guest.do("cat /proc/swaps"), ran.out


def test_a_disk_that_comes_late_is_set_up(guest: DiskGuest) -> None:
    guest.do(LATE_UNIT)
    guest.do("mkdir -p /run/udev/rules.d; cp /srv/81-*.rules /run/udev/rules.d/; udevadm control --reload")
    setup(guest)
    name = guest.connect("late", size=SIZE, model=V2)
    guest.do("until findmnt /mnt; do sleep 0.2; done")  # nothing but udev starts the agent
    assert guest.do("findmnt --noheadings --output SOURCE /mnt") == f"/dev/{name}"
