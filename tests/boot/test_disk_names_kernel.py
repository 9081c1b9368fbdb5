"""The links in /dev/disk/azure, made by real udevs in real initramfs archives, on disks with Azure's ids.

NVMe disks have the ids of Azure's (see support.azure_nvme). No kernel here has a VMBus: for SCSI disks the rules are
changed in one point, the attribute `device_id` is replaced by a property that the test sets.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.azure_nvme import (
    ACCELERATOR,
    DIRECT_V1,
    DIRECT_V2,
    Controller,
    Namespace,
    qemu_options,
    start_with_ids,
)
from support.container import PROJECT, debian_root
from support.need import need, need_root
from support.package_disks import Disk, build_debs, install
from support.qemu import LAST, entry

pytestmark = pytest.mark.newer

MEGABYTE = 1 << 20
BOOT_SECONDS = 300.0
RULES = "usr/lib/udev/rules.d/80-azure-init-disk.rules"
KERNEL = "boot/vmlinuz-*"
TOOLS = {
    "initramfs-tools": "mkinitramfs -o /initrd {kernel}",
    "dracut": "dracut --no-hostonly --force --kver {kernel} /initrd",
}
# The machine's first process: it starts the udev of the archive, and prints every link and where it leads.
INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for place in proc sys dev run tmp; do [ -d /$place ] || mkdir /$place; done
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs run /run
exec >/dev/ttyS1 2>&1
for module in virtio_pci virtio_scsi sd_mod nvme; do modprobe $module; done
for udevd in /usr/lib/systemd/systemd-udevd /sbin/udevd; do [ -x $udevd ] && break; done
$udevd --daemon --resolve-names=never
udevadm trigger --type=subsystems --action=add; udevadm trigger --type=devices --action=add; udevadm settle
for link in /dev/disk/azure/* /dev/disk/azure/*/*/*; do
    [ ! -L "$link" ] || echo "link ${link#/dev/disk/azure/} $(readlink "$link")"
done
for disk in /sys/block/nvme*; do
    [ -e $disk ] || continue
    read -r limit <$disk/queue/io_timeout; read -r nsid <$disk/nsid; read -r serial <$disk/device/serial
    echo "disk ${disk##*/} $serial/$nsid $limit"
done
for disk in /sys/block/sd*; do
    [ -e $disk ] || continue
    address=$(readlink $disk/device); read -r limit <$disk/queue/io_timeout
    echo "disk ${disk##*/} ${address##*/} $limit"
done
[ ! -e /usr/lib/azure-init/azure-nvme-id ] || /usr/lib/azure-init/azure-nvme-id
echo end
sleep 1
echo o >/proc/sysrq-trigger
sleep 10
"""
SYSTEM, DATA_1, DATA_2 = (f"{{f8b3781{letter}-1e82-4818-a1c3-63d806ec15bb}}" for letter in "abc")
GENERATION_1 = ("{00000000-0000-8899-0000-000000000000}", "{00000000-0001-8899-0000-000000000000}")
# By controller: its VMBus device id, and the LUNs of its disks.
SCSI = ((SYSTEM, (0, 1)), (DATA_1, (0, 7)), (DATA_2, (63,)))
GENERATION_1_SCSI = ((GENERATION_1[0], (0,)), (GENERATION_1[1], (0,)))


@pytest.fixture(autouse=True)
def needed() -> None:
    need_root()
    for tool in ("qemu-system-x86_64", "mmdebstrap", "dpkg-deb", "sfdisk"):
        need(tool)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    return build_debs(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def system(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """A Debian with both tools, and the packages installed."""
    return installed(tmp_path_factory.mktemp("system"), packages, "trixie", "initramfs-tools", "dracut-core")


def installed(place: Path, packages: Path, suite: str, *tools: str) -> Disk:
    disk = Disk(place / "disk", packages, debian_root(suite, *tools, "linux-image-cloud-amd64", "udev"))
    install(disk)
    install(disk, "azure-init-disks_*.deb")
    return disk


def archive(system: Disk, tool: str, *, before: str = ":") -> tuple[Path, str]:
    """The initramfs, and what making it said."""
    make = TOOLS[tool].format(kernel="$(ls /usr/lib/modules)")
    said = system.run(f"{before}\n{make} 2>&1")
    return system.place / "upper/initrd", said


def rules_with_ids(scsi: Sequence[tuple[str, Sequence[int]]]) -> dict[str, str]:
    """The rules with TEST_DEVICE_ID in place of the attribute, and the rules that set it by the SCSI host."""
    text = (PROJECT / "packaging/disks/80-azure-init-disk.rules").read_text()
    assert text.count("ATTRS{device_id}") == 6
    lines = (
        f'SUBSYSTEM=="block", SUBSYSTEMS=="scsi", KERNELS=="{host}:*:*:*", ENV{{TEST_DEVICE_ID}}="{device}"\n'
        for host, (device, _luns) in enumerate(scsi)
    )
    return {
        RULES: text.replace("ATTRS{device_id}", "ENV{TEST_DEVICE_ID}"),
        RULES.replace("80-azure-init-disk", "79-test"): "".join(lines),
    }


def image(place: Path, name: str, *, megabytes: int, partitions: int = 0) -> Path:
    path = place / name
    with path.open("wb") as file:
        file.truncate(megabytes * MEGABYTE)
    if partitions:
        table = "label: gpt\n" + "size=1MiB\n" * partitions
        subprocess.run((need("sfdisk"), "--quiet", str(path)), input=table, text=True, check=True)
    return path


def scsi_options(place: Path, scsi: Sequence[tuple[str, Sequence[int]]]) -> list[str]:
    words = []
    for host, (_device, luns) in enumerate(scsi):
        words += ["-device", f"virtio-scsi-pci,id=scsi{host}"]
        for lun in luns:
            name = f"scsi{host}-{lun}"
            path = image(place, name, megabytes=4, partitions=1 if lun == 0 else 0)
            words += ["-drive", f"file={path},if=none,id={name},format=raw"]
            where = f"bus=scsi{host}.0,channel=0,scsi-id=0,lun={lun}"
            words += ["-device", f"scsi-hd,drive={name},{where},vendor=Msft,product=Virtual Disk"]
    return words


def booted(
    system: Disk,
    initrd: Path,
    place: Path,
    *,
    controllers: Sequence[Controller] = (),
    scsi: Sequence[tuple[str, Sequence[int]]] = (),
    files: dict[str, str] | None = None,
) -> list[str]:
    """The lines that the machine prints before it switches itself off."""
    (kernel,) = system.lower[0].glob(KERNEL)
    whole, wire, console, monitor = (place / name for name in ("initrd", "wire", "console", "monitor"))
    shutil.copy(initrd, whole)
    with whole.open("ab") as file:
        file.write(bytes(-file.tell() % 4))
        file.write(entry("test-init", INIT.encode(), mode=0o100755))
        for path, text in (files or {}).items():
            file.write(entry(path, text.encode(), mode=0o100644))
        file.write(LAST)
    command = [
        need("setpriv"), "--pdeathsig", "KILL",
        need("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024",
        "-kernel", str(kernel), "-initrd", str(whole),
        "-append", "console=ttyS0 rdinit=/test-init panic=-1 no_timer_check",
        "-serial", f"file:{console}", "-serial", f"file:{wire}",
        *qemu_options(controllers, monitor=monitor), *scsi_options(place, scsi),
    ]  # fmt: skip
    process = start_with_ids(command, controllers, monitor=monitor)
    try:
        process.wait(timeout=BOOT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        whole.unlink()
    lines = wire.read_text(errors="replace").splitlines()
    assert lines and lines[-1] == "end", console.read_text(errors="replace")[-3000:] + "\n".join(lines)
    return lines


def disks(lines: list[str]) -> dict[str, tuple[str, int]]:
    """By the kernel's name, which follows the order of discovery: `serial/nsid` or SCSI address, and time limit."""
    found = [line.split()[1:] for line in lines if line.startswith("disk ")]
    return {name: (identity, int(limit)) for name, identity, limit in found}


def links(lines: list[str]) -> dict[str, str]:
    """Each link, and its disk as `disks` names it, with the number of the partition after a `p`."""
    found = [line.split()[1:] for line in lines if line.startswith("link ")]
    named = disks(lines)
    led: dict[str, str] = {}
    for name, target in found:
        device = target.rpartition("/")[2]
        (disk,) = (each for each in named if re.fullmatch(rf"{each}(p?\d+)?", device))
        part = device.removeprefix(disk).lstrip("p")
        led[name] = named[disk][0] + (f"p{part}" if part else "")
    return led


def azure_disks(place: Path) -> list[Controller]:
    """A remote controller with an OS disk and two data disks, and a local disk of either version."""
    remote = [
        Namespace(image=image(place, "os", megabytes=5, partitions=2)),
        Namespace(image=image(place, "data-0", megabytes=6)),
        Namespace(image=image(place, "data-31", megabytes=7), nsid=33),
    ]
    told = "type=local,index=1,name=nvme-110G-1"
    second = Namespace(image=image(place, "local-2", megabytes=9, partitions=1), vendor_specific=told)
    return [
        Controller(model=ACCELERATOR, serial="remote", namespaces=remote),
        Controller(model=DIRECT_V1, serial="a1b2c3", namespaces=[Namespace(image=image(place, "l-1", megabytes=8))]),
        Controller(model=DIRECT_V2, serial="d4e5f6", namespaces=[second]),
    ]


REMOTE_AND_LOCAL = {
    "os": "remote/1",
    "os-part1": "remote/1p1",
    "os-part2": "remote/1p2",
    "data/by-lun/0": "remote/2",
    "data/by-lun/31": "remote/33",
    "local/by-serial/a1b2c3": "a1b2c3/1",
    "local/by-serial/d4e5f6": "d4e5f6/1",
    "local/by-serial/d4e5f6-part1": "d4e5f6/1p1",
}
DESCRIBED = {
    f"local/by-{way}/{name}{part}": f"d4e5f6/1{number}"
    for way, name in (("index", "1"), ("name", "nvme-110G-1"))
    for part, number in (("", ""), ("-part1", "p1"))
}
LISTED = {
    "remote/1": "type=os",
    "remote/2": "type=data,lun=0",
    "remote/33": "type=data,lun=31",
    "a1b2c3/1": "type=local",
    "d4e5f6/1": "type=local,index=1,name=nvme-110G-1",
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_nvme_disk_has_its_links_before_the_root_file_system_is_mounted(
    system: Disk, tmp_path: Path, tool: str
) -> None:
    initrd, said = archive(system, tool)
    assert "azure-init-disks: " not in said
    lines = booted(system, initrd, tmp_path, controllers=azure_disks(tmp_path))
    assert links(lines) == {**REMOTE_AND_LOCAL, **DESCRIBED}
    named = disks(lines)
    assert dict(named.values()) == {
        **dict.fromkeys(("remote/1", "remote/2", "remote/33"), 240000),
        **dict.fromkeys(("a1b2c3/1", "d4e5f6/1"), 30000),
    }
    told = [line.removeprefix("/dev/").split(": ") for line in lines if line.startswith("/dev/")]
    assert {named[name][0]: description for name, description in told} == LISTED


def test_an_older_udev_makes_the_same_links(packages: Path, tmp_path: Path) -> None:
    system = installed(tmp_path, packages, "bookworm", "initramfs-tools")
    initrd, _said = archive(system, "initramfs-tools")
    lines = booted(system, initrd, tmp_path, controllers=azure_disks(tmp_path))
    assert links(lines) == {**REMOTE_AND_LOCAL, **DESCRIBED}


@pytest.mark.parametrize("tool", TOOLS)
def test_where_python_cannot_be_put_into_the_initramfs_the_rules_are_alone_and_that_is_said(
    system: Disk, tmp_path: Path, tool: str
) -> None:
    broken = "/usr/lib/azure-init/initramfs-files"
    spoil = f"cp -p {broken} /kept; printf '#!/bin/sh\\necho no such interpreter >&2\\nexit 1\\n' >{broken}"
    try:
        initrd, said = archive(system, tool, before=spoil)
    finally:
        system.run(f"mv /kept {broken}")
    assert "Python cannot be put into the initramfs (no such interpreter)" in said
    lines = booted(system, initrd, tmp_path, controllers=azure_disks(tmp_path))
    assert links(lines) == REMOTE_AND_LOCAL


def test_scsi_disks_are_told_apart_by_their_controller_and_lun(system: Disk, tmp_path: Path) -> None:
    initrd, _said = archive(system, "initramfs-tools")
    second, first = tmp_path / "second", tmp_path / "first"
    second.mkdir()
    first.mkdir()
    assert links(booted(system, initrd, second, scsi=SCSI, files=rules_with_ids(SCSI))) == {
        "os": "0:0:0:0",
        "os-part1": "0:0:0:0p1",
        "resource": "0:0:0:1",
        "data/by-lun/0": "1:0:0:0",
        "data/by-lun/0-part1": "1:0:0:0p1",
        "data/by-lun/7": "1:0:0:7",
        "data/by-lun/63": "2:0:0:63",
    }
    ids = rules_with_ids(GENERATION_1_SCSI)
    assert links(booted(system, initrd, first, scsi=GENERATION_1_SCSI, files=ids)) == {
        "os": "0:0:0:0",
        "os-part1": "0:0:0:0p1",
        "resource": "1:0:0:0",
        "resource-part1": "1:0:0:0p1",
    }


def test_nothing_is_linked_where_azure_vm_utils_has_rules_of_its_own(system: Disk, tmp_path: Path) -> None:
    initrd, _said = archive(system, "initramfs-tools")
    theirs = {RULES.replace("80-azure-init-disk", "80-azure-disk"): "# azure-vm-utils\n"}
    lines = booted(system, initrd, tmp_path, controllers=azure_disks(tmp_path), files=theirs)
    assert links(lines) == {}
    assert {limit for _identity, limit in disks(lines).values()} == {30000}
